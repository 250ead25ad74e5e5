package admin

import (
	"encoding/json" // for the details of a fault
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Inventory is the answer of the admin API about skills.
type Inventory struct {
	// Version is that of the bridge, CaddyVersion that of Caddy.
	Version      string `json:"version"`
	CaddyVersion string `json:"caddy_version"`

	Skills      []Skill       `json:"skills"`
	Unavailable []Unavailable `json:"unavailable"`
	// Stale are sources whose lists of skills are those of before, since they can't be renewed.
	Stale []Unavailable `json:"stale"`
	// LeftOut are entries of indexes and registries that can't be used.
	LeftOut []LeftOut `json:"left_out"`
	// MissingAliases are aliases for skills that their sources do not list.
	MissingAliases []MissingAlias `json:"missing_aliases"`
}

// Skill is one skill.
type Skill struct {
	Bridge    int    `json:"bridge"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
	Version   string `json:"version,omitempty"`
	Access    string `json:"access,omitempty"`
	// Descriptor is fresh, stale, or not_cached until a call has read it.
	Descriptor string     `json:"descriptor"`
	FetchedAt  *time.Time `json:"fetched_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	Fault      *Fault     `json:"fault,omitempty"`
	// NotRenewed says why the descriptor of before is used.
	NotRenewed *Fault `json:"not_renewed,omitempty"`
}

// Unavailable is a source that can't be read.
type Unavailable struct {
	Bridge    int    `json:"bridge"`
	Namespace string `json:"namespace"`
	Fault     Fault  `json:"fault"`
}

// LeftOut are the entries of an index, or of a registry, that were left out.
type LeftOut struct {
	Bridge    int            `json:"bridge"`
	Namespace string         `json:"namespace"`
	Count     int            `json:"count"`
	Entries   []LeftOutEntry `json:"entries"` // the first ones, at most 100 of each index or registry answer
}

// LeftOutEntry is an entry that is invalid, a duplicate, or has an id that can't be used.
type LeftOutEntry struct {
	ID      string `json:"id,omitempty"`
	Path    string `json:"path,omitempty"` // JSON Pointer into a registry's answer
	Message string `json:"message"`
}

// MissingAlias is an alias for a skill that its source does not list.
type MissingAlias struct {
	Bridge    int      `json:"bridge"`
	Namespace string   `json:"namespace"`
	Alias     string   `json:"alias"`
	SkillID   string   `json:"skill_id"`
	Near      []string `json:"near,omitempty"` // ids that may have been meant
}

// Fault is why a document can't be read.
type Fault struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	URL     string          `json:"url,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

func (adminAPI) skills(r *http.Request) Inventory {
	status := Inventory{
		Version: fronts.ModuleVersion(), CaddyVersion: fronts.CaddyVersion(),
		Skills: []Skill{}, Unavailable: []Unavailable{}, Stale: []Unavailable{}, LeftOut: []LeftOut{}, MissingAliases: []MissingAlias{},
	}
	namespace := r.URL.Query().Get("namespace")
	isWanted := func(of string) bool { return namespace == "" || namespace == of }
	for _, b := range observe.Numbered() {
		skills, unavailable := b.Catalog().Inventory(r.Context())
		for _, s := range skills {
			if isWanted(s.Namespace) {
				status.Skills = append(status.Skills, newSkill(b.Number, &s))
			}
		}
		for _, u := range unavailable {
			if isWanted(u.Namespace) {
				status.Unavailable = append(status.Unavailable, Unavailable{b.Number, u.Namespace, newFault(u.Failure)})
			}
		}
		for _, u := range catalog.Stale(r.Context(), b.Catalog()) {
			if isWanted(u.Namespace) {
				status.Stale = append(status.Stale, Unavailable{b.Number, u.Namespace, newFault(u.Failure)})
			}
		}
		for _, l := range b.Catalog().LeftOut(r.Context()) {
			if isWanted(l.Namespace) {
				status.add(b.Number, l)
			}
		}
	}
	return status
}

// add adds the entries that were left out of a source's indexes.
func (s *Inventory) add(bridge int, l catalog.LeftOut) {
	if l.Count > 0 {
		status := LeftOut{bridge, l.Namespace, l.Count, make([]LeftOutEntry, len(l.First))}
		for i, e := range l.First {
			status.Entries[i] = LeftOutEntry{shown(e.ID), shown(e.Fault.Path), shownError(e.Fault.Message)}
		}
		s.LeftOut = append(s.LeftOut, status)
	}
	for _, m := range l.Missing {
		near := make([]string, len(m.Near))
		for i, id := range m.Near {
			near[i] = shown(id)
		}
		s.MissingAliases = append(s.MissingAliases, MissingAlias{bridge, l.Namespace, m.Name, m.SkillID, near})
	}
}

func newSkill(bridge int, s *catalog.SkillStatus) Skill {
	status := Skill{
		Bridge: bridge, Name: s.Name, Namespace: s.Namespace, ID: s.ID, Version: s.Version, Access: string(s.Access), Descriptor: "not_cached",
	}
	if s.Cached {
		status.Descriptor, status.FetchedAt, status.ExpiresAt = "stale", new(s.FetchedAt.UTC()), new(s.ExpiresAt.UTC())
		if time.Now().Before(s.ExpiresAt) {
			status.Descriptor = "fresh"
		}
	}
	if s.Fault != nil {
		status.Fault = new(newFault(s.Fault))
	}
	if s.Stale != nil {
		status.NotRenewed = new(newFault(s.Stale))
	}
	return status
}

func newFault(f *run.Failure) Fault {
	return Fault{string(document.CodeOf(f)), shownError(f.OperatorText()), shownError(f.URL), json.RawMessage(front.Details(f))}
}

// Provider is one source of skills, as the admin API shows it.
type Provider struct {
	Bridge          int              `json:"bridge"`
	Namespace       string           `json:"namespace"`
	Kind            string           `json:"kind"` // provider, skill, registry or site
	URL             string           `json:"url"`
	Health          string           `json:"health"` // ok, trouble or unknown
	LastAnswer      *time.Time       `json:"last_answer,omitempty"`
	LastTrouble     *observe.Trouble `json:"last_trouble,omitempty"`
	CircuitBreakers []CircuitBreaker `json:"circuit_breakers"`
	CallsInProgress int64            `json:"calls_in_progress"`
}

// CircuitBreaker is the circuit breaker of a host that has failed since it last answered.
type CircuitBreaker struct {
	Host        string     `json:"host"`
	State       string     `json:"state"` // open or closed
	Failures    int        `json:"failures"`
	LastFailure string     `json:"last_failure"`
	Opened      *time.Time `json:"opened,omitempty"`
}

func (adminAPI) providers(*http.Request) []Provider {
	list := []Provider{}
	for _, b := range observe.Numbered() {
		breakers := b.Breakers.States()
		for _, s := range b.Sources() {
			list = append(list, newProvider(b, s, breakers))
		}
	}
	return list
}

func newProvider(bridge *observe.Bridge, s translate.SourceStatus, breakers []exchange.BreakerState) Provider {
	p := Provider{
		Bridge: bridge.Number, Namespace: s.Namespace, Kind: s.Kind.String(), URL: s.URL,
		Health: "unknown", CircuitBreakers: []CircuitBreaker{}, CallsInProgress: s.Runs,
	}
	answered, troubled, lasting := bridge.Health(s.Namespace)
	if !answered.IsZero() {
		p.Health, p.LastAnswer = "ok", &answered
	}
	if p.LastTrouble = troubled; lasting {
		p.Health = "trouble"
	}
	for _, b := range breakers {
		if b.Source != s.Namespace || b.Partition != s.Partition {
			continue
		}
		status := CircuitBreaker{Host: credential.Scrub(b.Host, bridge.Secrets...), State: "closed", Failures: b.Failures, LastFailure: b.LastFailure}
		if b.Open {
			status.State, status.Opened = "open", new(b.Opened.UTC())
			p.Health = "trouble"
		}
		p.CircuitBreakers = append(p.CircuitBreakers, status)
	}
	return p
}
