package admin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
)

// Changes are the changes of descriptors that wait for approval (on_change hold).
type Changes struct {
	Changes []Change `json:"changes"`
	// More is how many further changes wait: of a source, at most 100 are shown, those of listed skills first.
	More int `json:"more,omitzero"`
	// Unreadable are the sources whose changes can't be read from the storage.
	Unreadable []UnreadableChanges `json:"unreadable"`
}

// Change is a change of a descriptor that waits for approval.
type Change struct {
	Namespace string `json:"namespace"`
	SkillID   string `json:"skill_id"`
	// Name is the name of the skill in calls; empty: its source does not list it.
	Name string `json:"name,omitempty"`
	// Digest stands for what the new descriptor asks for.
	Digest  string    `json:"digest"`
	Since   time.Time `json:"since"`
	Changed []string  `json:"changed"` // skill (another id has its name), description, endpoint, inputs, auth
	// Differences are all of them, or none if they have no room in a list of changes; More is then how many there are.
	Differences []changes.Difference `json:"differences"`
	More        int                  `json:"more,omitzero"`
}

// UnreadableChanges says why the changes of a source can't be read.
type UnreadableChanges struct {
	Namespace string `json:"namespace"`
	Error     string `json:"error"`
}

// Approval says which change to approve.
type Approval struct {
	Namespace string `json:"namespace"`
	SkillID   string `json:"skill_id"`
	Digest    string `json:"digest"`
}

// guards calls a function with the sources that have guards.
func guards(do func(*catalog.Section, *changes.Guard)) {
	for _, b := range observe.Live() {
		for _, s := range b.Catalog().Sections() {
			if g, ok := s.Guard.(*changes.Guard); ok {
				do(s, g)
			}
		}
	}
}

// changes returns the changes that wait for approval, or, with ?skill=…, those of the skills with that name or id. Bridges with the same source have
// the same.
func (adminAPI) changes(r *http.Request) Changes {
	all := Changes{Changes: []Change{}, Unreadable: []UnreadableChanges{}}
	shownOnce, counted := map[[3]string]bool{}, map[string]bool{}
	guards(func(s *catalog.Section, g *changes.Guard) {
		names := sync.OnceValue(func() map[string]string { return namesOf(r.Context(), s) })
		held, more, err := heldIn(r.Context(), s, g, r.FormValue("skill"), names)
		if err != nil {
			all.Unreadable = append(all.Unreadable, UnreadableChanges{s.Namespace, shownError(err.Error())})
		}
		if !counted[s.Namespace] {
			all.More += more
			counted[s.Namespace] = more > 0
		}
		for _, c := range held {
			key := [3]string{s.Namespace, c.SkillID, c.Digest}
			if shownOnce[key] {
				continue
			}
			shownOnce[key] = true
			name := s.Namespace
			if s.Kind != catalog.SkillSource {
				name = names()[c.SkillID]
			}
			all.Changes = append(all.Changes, Change{s.Namespace, c.SkillID, shown(name), c.Digest, c.Since, c.Parts, c.Differences, c.More})
		}
	})
	return all
}

// heldIn returns the changes of a source that wait for approval, and how many further ones there are; or those of one skill, by its name or id.
func heldIn(ctx context.Context, s *catalog.Section, g *changes.Guard, skill string, names func() map[string]string) (list []changes.HeldChange, more int, err error) {
	if skill == "" {
		return g.Held(ctx, func() []string { return slices.Collect(maps.Keys(names())) })
	}
	ids := []string{skill}
	if s.Kind != catalog.SkillSource { // a single skill has any id
		for id, name := range names() {
			if name == skill && id != skill {
				ids = append(ids, id)
			}
		}
	}
	for _, id := range ids {
		c, err := g.HeldOf(ctx, id)
		if err != nil {
			return nil, 0, err
		}
		if c != nil && (s.Kind != catalog.SkillSource || skill == s.Namespace || skill == c.SkillID) {
			list = append(list, *c)
		}
	}
	return list, 0, nil
}

// namesOf returns the names of the skills of a source by their ids.
func namesOf(ctx context.Context, s *catalog.Section) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	names := map[string]string{}
	listed, _ := s.All(ctx) // without an index, there are no names
	for _, l := range listed {
		names[l.ID] = l.Name
	}
	return names
}

// approve approves a change. The digest says which one the operator has seen.
func (adminAPI) approve(r *http.Request) (wanted Approval, err error) {
	err = jsonv2.UnmarshalRead(r.Body, &wanted, jsonv2.RejectUnknownMembers(true))
	if err != nil || wanted.Namespace == "" || wanted.SkillID == "" || wanted.Digest == "" {
		return wanted, refusal(http.StatusBadRequest, "the body is a JSON object with the strings namespace, skill_id and digest, as GET /skill_bridge/changes returns them")
	}
	err = changes.ErrNotHeld
	guards(func(s *catalog.Section, g *changes.Guard) {
		if s.Namespace != wanted.Namespace {
			return
		}
		if failed := g.Approve(r.Context(), wanted.SkillID, wanted.Digest); !errors.Is(failed, changes.ErrNotHeld) && err != nil {
			err = failed
		}
	})
	switch {
	case errors.Is(err, changes.ErrNotHeld):
		return wanted, refusal(http.StatusNotFound, "no change of a skill %q of source %q is held", wanted.SkillID, wanted.Namespace)
	case errors.Is(err, changes.ErrOther):
		return wanted, refusal(http.StatusConflict, "%w", err)
	case err != nil:
		return wanted, refusal(http.StatusInternalServerError, "%w", err)
	}
	logApproval(r, &wanted)
	return wanted, nil
}

// logApproval logs who has approved what: the address and, if there is one, the certificate of the client.
func logApproval(r *http.Request, a *Approval) {
	fields := []zap.Field{
		zap.String("source", a.Namespace), zap.String("skill_id", shown(a.SkillID)), zap.String("digest", a.Digest), zap.String("remote_addr", r.RemoteAddr),
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		fields = append(fields, zap.String("certificate", shown(r.TLS.PeerCertificates[0].Subject.String())))
	}
	caddy.Log().Named("admin.api.skill_bridge").Info("a change of a skill was approved", fields...)
}

// PurgeRequest says what to remove: a descriptor, the documents of a source, or,
// if both are empty, all documents.
type PurgeRequest struct {
	Namespace string `json:"namespace,omitempty"`
	SkillID   string `json:"skill_id,omitempty"`
}

// PurgeAnswer says whose documents were removed.
type PurgeAnswer struct {
	Purged []string `json:"purged"` // namespaces
}

// purge removes documents. It refuses every body that is not exactly as it has to be, because a mistake in a script, such as null for a variable that is
// not set, must not remove everything.
func (adminAPI) purge(r *http.Request) (answer PurgeAnswer, err error) {
	var body map[string]string // null becomes an empty text, or a nil map
	err = jsonv2.UnmarshalRead(r.Body, &body)
	wanted := PurgeRequest{body["namespace"], body["skill_id"]}
	for name, text := range body {
		if text == "" || name != "namespace" && (name != "skill_id" || wanted.Namespace == "") {
			body = nil
		}
	}
	if err != nil || body == nil {
		return answer, refusal(http.StatusBadRequest, "the body is a JSON object with namespace and skill_id, which are strings that are not empty; "+
			"without skill_id, all documents of the source are removed, and with {} those of all sources")
	}
	known := false
	answer.Purged = []string{}
	for _, b := range observe.Live() {
		for _, s := range b.Sources() {
			if wanted.Namespace != "" && wanted.Namespace != s.Namespace {
				continue
			}
			known = true
			if b.Catalog().Purge(r.Context(), s.Namespace, wanted.SkillID) {
				answer.Purged = append(answer.Purged, s.Namespace)
			}
		}
	}
	switch {
	case len(answer.Purged) > 0 || wanted.Namespace == "":
		return answer, nil
	case known:
		return answer, refusal(http.StatusNotFound, "no document of a skill %q of source %q is cached: there is no such skill, or it was not requested yet",
			wanted.SkillID, wanted.Namespace)
	}
	return answer, refusal(http.StatusNotFound, "there is no source %q", wanted.Namespace)
}
