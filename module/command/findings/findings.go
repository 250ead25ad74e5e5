// Package findings says in words what an inspection of a bridge has found out about its sources, and what an operator
// can do about it.
package findings

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli/lint"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/inspection"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// Result is the result of a check.
type Result string

// The results.
const (
	OK      Result = "ok"
	Warning Result = "warning"
	Failed  Result = "failed"
)

// Finding is the result of one check.
type Finding struct {
	Result Result `json:"result"`
	Bridge int    `json:"bridge"` // number of the handler in the configuration
	Source string `json:"source"` // namespace; empty: it is about the bridge
	Skill  string `json:"skill,omitzero"`
	What   string `json:"what"`
	// Fix is what to do about it.
	Fix  string             `json:"fix,omitzero"`
	Code document.ErrorCode `json:"code,omitzero"`
	URL  string             `json:"url,omitzero"`
}

// list collects the findings about a source, which has a namespace.
type list struct {
	source   string
	findings []Finding
}

func (l *list) add(result Result, skill, what, fix string) {
	l.findings = append(l.findings, Finding{Result: result, Source: l.source, Skill: skill, What: what, Fix: fix})
}

func (l *list) addFailure(result Result, skill string, f *run.Failure, fix, url string) {
	l.findings = append(l.findings, Finding{Result: result, Source: l.source, Skill: skill, What: f.OperatorMessage(), Fix: fix, Code: document.CodeOf(f), URL: url})
}

// OfPublishers returns the number of handlers skill_publish of this process, and the findings about their databases, but for those of bridges, and documents.
func OfPublishers(ctx context.Context) (handlers int, all []Finding) {
	handlers, skills, wrong := publish.Check(ctx)
	var own []*observe.Bridge
	for _, db := range observe.Databases() {
		if !slices.ContainsFunc(observe.Live(), func(b *observe.Bridge) bool { return b.Store == db }) {
			own = append(own, &observe.Bridge{Store: db})
		}
	}
	if all = OfStores(ctx, own); skills > 0 {
		all = append(all, Finding{Result: OK, Source: "skill_publish", What: fmt.Sprintf("skills are published: %d", skills)})
	}
	for _, w := range wrong {
		f := Finding{Result: Failed, Source: w.Document, What: "nothing of the document is published: " + w.Reason}
		switch {
		case w.Document == "":
			f.Source, f.What = "skill_publish", w.Reason
		case w.Operation != "":
			f.Skill, f.What = w.Operation, "the operation is "+w.What()
		}
		if !w.Mistake {
			f.Result = Warning
		}
		all = append(all, f)
	}
	return handlers, all
}

// Of returns the findings about the sources of a bridge.
func Of(sources []inspection.Source) (all []Finding) {
	for i := range sources {
		l := list{source: sources[i].Namespace}
		l.ofSource(&sources[i])
		if sources[i].Unused {
			l.ofUnused(&sources[i])
		}
		all = append(all, l.findings...)
	}
	return all
}

// ofUnused adds the finding about credentials that no skill needs.
func (l *list) ofUnused(s *inspection.Source) {
	if f := s.TokenFailure; f != nil {
		l.addFailure(Failed, "", f, fixOf(f, s), f.URL)
		return
	}
	unread := s.Failure != nil || slices.ContainsFunc(s.Skills, func(skill inspection.Skill) bool {
		return skill.Failure != nil && document.IsDocument(skill.Failure.Phase)
	})
	what, fix := "credentials are configured, but no skill needs them", "remove credentials, or ask the provider why its descriptors need no authentication"
	if unread {
		what, fix = "no skill that can be read needs the credentials", "correct what else is found, and check again"
	}
	checked := ", so they were not checked"
	if s.TokenTried {
		checked = "; their token endpoint has issued a token"
	}
	l.add(Warning, "", what+checked, fix)
}

// ofSource adds the findings about the source and its skills.
func (l *list) ofSource(s *inspection.Source) {
	if f := s.Failure; f != nil {
		l.addFailure(Failed, "", f, fixOf(f, s), cmp.Or(f.URL, s.URL))
		return
	}
	ready, untried := 0, 0
	for i := range s.Skills {
		if s.Skills[i].Failure == nil {
			ready++
			if s.Skills[i].Untried {
				untried++
			}
		}
	}
	used, teller := "called", "tell the provider; caddy skill-bridge validate shows all faults of an index"
	if s.Kind == catalog.SiteSource {
		used, teller = "read", "tell the operator of the site"
	}
	what := fmt.Sprintf("it was read; %d of %d skills can be %s", ready, len(s.Skills), used)
	if untried > 0 {
		secret := "credential"
		if s.APIKey {
			secret = "API key"
		}
		what = fmt.Sprintf("%d of %d skills read; the %s was not tried: only a call shows whether it is accepted", ready, len(s.Skills), secret)
	}
	if len(s.Skills) == 0 {
		what = "it was read, and has no skills"
	}
	if s.Kind != catalog.SkillSource || ready == 1 {
		l.findings = append(l.findings, Finding{Result: OK, Source: l.source, What: what, URL: s.URL})
	}
	for i := range s.Skills {
		l.ofSkill(s, &s.Skills[i])
	}
	for _, e := range s.LeftOut.First {
		result := Failed
		if s.Kind == catalog.SiteSource && strings.HasSuffix(e.Fault.Path, "/type") {
			result = Warning // the format may get new types
		}
		l.add(result, e.ID, strings.TrimSpace("it is not listed: "+e.Fault.Path+" "+e.Fault.Message), teller)
	}
	if more := s.LeftOut.Count - len(s.LeftOut.First); more > 0 {
		l.add(Failed, "", fmt.Sprintf("%d further entries are not listed", more), "tell the provider")
	}
	for _, a := range s.LeftOut.Missing {
		fix := "correct the alias, or remove it"
		if len(a.Near) > 0 {
			fix = "correct the alias: did you mean " + strings.Join(a.Near, " or ") + "?"
		}
		l.add(Failed, a.Name, "the alias is for "+a.SkillID+", which the source does not list", fix)
	}
}

// ofSkill adds the findings about a skill.
func (l *list) ofSkill(s *inspection.Source, skill *inspection.Skill) {
	if skill.Tool == "" {
		l.add(Warning, skill.Name, "it has no tool name, since another skill would have the same", "give it an alias")
	}
	if skill.Descriptor != nil {
		for _, v := range lint.Requests(skill.Descriptor) {
			l.add(Warning, skill.Name, v.Path+" "+v.Message, "tell the provider")
		}
	}
	if skill.Failure != nil {
		l.ofFailure(s, skill)
	}
	if len(skill.Changed) > 0 {
		l.add(Warning, skill.Name, "its provider has changed it ("+strings.Join(skill.Changed, ", ")+"); the earlier descriptor is used", "see the change, and approve it: caddy skill-bridge approve")
	}
}

// ofFailure adds the finding about a skill that can't be used.
func (l *list) ofFailure(s *inspection.Source, skill *inspection.Skill) {
	f, result := skill.Failure, Failed
	fix := fixOf(f, s)
	switch {
	case skill.Notice != nil:
		attrs := map[string]string{}
		for _, a := range skill.Notice.Attrs {
			attrs[a.Key] = a.Value.String()
		}
		fix = "tell the provider: it asks for a credential without TLS at " + attrs["host"]
		if attrs["line"] != "" {
			fix = "if you trust " + cmp.Or(attrs["host"], "the registry") + " with the credentials, add to the provider: " + attrs["line"]
		}
	case f.Kind == run.VersionIncompatible, f.Kind == run.NotSupported, isMissing(f):
		result = Warning
	}
	l.addFailure(result, skill.Name, f, fix, f.URL)
}

// isMissing reports whether no credential, or one of another type, is configured for a skill.
func isMissing(f *run.Failure) bool {
	return f.Kind == run.AuthRequired && f.Phase == run.PhaseAuth && f.HTTPStatus == 0 && f.Refused == "" && f.Demand != nil && f.Demand.By == run.Provider && !f.Demand.Withheld && f.Cause == nil
}

// fixOf says what an operator can do about a failure.
func fixOf(f *run.Failure, s *inspection.Source) string {
	ofDocument := document.IsDocument(f.Phase)
	switch {
	case f.Refused != "":
		return cli.Permit(f, func(option string) string { return "the option " + option })
	case isMissing(f):
		return missing(f.Demand.Type, s)
	case f.Phase == run.PhaseAuth && f.Kind == run.Unreachable:
		return "check token_url, and that the token endpoint can be reached from here"
	case f.Phase == run.PhaseAuth:
		return "check the credentials: " + credentialOptions(f)
	case ofDocument && (f.Kind == run.AuthRequired || f.Kind == run.PermissionDenied):
		return "check discovery_credentials, which are for the index and the descriptors"
	case f.Kind == run.VersionIncompatible:
		return "use a newer build of Skill Bridge"
	case f.Kind == run.NotSupported:
		return "ask the provider to take application/json, which is the default of endpoint.content_type"
	case s.Kind == catalog.SiteSource && f.Phase == run.PhaseDescriptor && (f.Gone() || f.Kind == run.InvalidDocument):
		return "tell the operator of the site, or wait until the bridge has read the index again"
	case f.WrongOrigin(), (f.Phase == run.PhaseDiscovery || s.Kind == catalog.SkillSource) && ofDocument && (f.Gone() || f.Kind == run.InvalidDocument):
		return "check the URL of the " + s.Kind.String() + "; if it is right, tell its operator" + validate(f)
	case f.Gone():
		return "tell the provider: its index names a descriptor that does not exist"
	case f.Kind == run.InvalidDocument:
		return "tell the provider" + validate(f)
	case f.Kind == run.Unreachable, f.Kind == run.DeadlineExceeded, f.HTTPStatus >= http.StatusInternalServerError:
		return "check that the URL is right, that the server runs, and that it can be reached from here"
	}
	return "see caddy skill-bridge status while the bridge runs"
}

// missing says how to give a skill credentials of a type.
func missing(kind string, s *inspection.Source) string {
	switch {
	case !s.Credentials:
		return "add credentials for " + kind + " to the provider, if you have them"
	case s.Kind == catalog.SkillSource:
		return "write credentials for " + kind + " in place of those of the skill, if you have them"
	}
	return "if you have credentials for " + kind + ", write beside the provider: skill <name> <descriptor-url> { credentials ... }"
}

// validate returns the command that shows all faults of a document, if its URL is known.
func validate(f *run.Failure) string {
	if f.Kind != run.InvalidDocument || f.URL == "" || strings.HasSuffix(f.URL, skillsite.IndexPath) {
		return ""
	}
	return "; all faults: " + cli.ShellCommand("caddy", "skill-bridge", "validate", f.URL)
}

// credentialOptions names the options that a refusal is about.
func credentialOptions(f *run.Failure) string {
	if f.Demand != nil && f.Demand.Type == string(document.AuthOAuth2) || f.URL != "" && f.HTTPStatus != 0 {
		return "client_id, client_secret or refresh_token, scopes, token_url, auth_style"
	}
	return "its options, and the variables and files that they name"
}

// Passed reports whether no check has failed; strict counts warnings.
func Passed(all []Finding, strict bool) bool {
	return !slices.ContainsFunc(all, func(f Finding) bool { return f.Result == Failed || strict && f.Result == Warning })
}
