package admin

import (
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Provider is one source of skills, as the admin API shows it.
type Provider struct {
	Bridge          int              `json:"bridge"`
	Namespace       string           `json:"namespace"`
	Kind            string           `json:"kind"` // provider, skill, registry or site
	URL             string           `json:"url"`
	Health          string           `json:"health"` // ok, trouble or unknown
	LastAnswer      *time.Time       `json:"last_answer,omitempty"`
	LastTrouble     *Trouble         `json:"last_trouble,omitempty"`
	CircuitBreakers []CircuitBreaker `json:"circuit_breakers"`
	CallsInProgress int64            `json:"calls_in_progress"`
}

// Trouble is a failed exchange with a provider.
type Trouble struct {
	At         time.Time `json:"at"`
	Phase      string    `json:"phase"`
	URL        string    `json:"url"`
	HTTPStatus int       `json:"http_status,omitempty"`
	Error      string    `json:"error,omitempty"`
}

// CircuitBreaker is the circuit breaker of a host that has failed since it last answered.
type CircuitBreaker struct {
	Host        string     `json:"host"`
	State       string     `json:"state"` // open or closed
	Failures    int        `json:"failures"`
	LastFailure string     `json:"last_failure"`
	Opened      *time.Time `json:"opened,omitempty"`
}

var sourceKinds = map[catalog.SourceKind]string{
	catalog.ProviderSource: "provider", catalog.SkillSource: "skill", catalog.RegistrySource: "registry",
	catalog.SiteSource: "site",
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
		Bridge: bridge.Number, Namespace: s.Namespace, Kind: sourceKinds[s.Kind], URL: s.URL,
		Health: "unknown", CircuitBreakers: []CircuitBreaker{}, CallsInProgress: s.Runs,
	}
	answered, troubled, lasting := bridge.Health(s.Namespace)
	if !answered.IsZero() {
		p.Health, p.LastAnswer = "ok", &answered
	}
	if t := troubled; t != nil {
		if lasting {
			p.Health = "trouble"
		}
		p.LastTrouble = &Trouble{t.At.UTC(), string(t.Phase), t.Address, t.Status, t.Reason}
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
