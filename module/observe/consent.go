package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Names of events.
const (
	ConsentGiven = "skill_bridge.consent_given"
	ConsentEnded = "skill_bridge.consent_ended"
)

var grantsDesc = metricDesc("grants", "Accounts that users have connected, in the databases.", labelProvider)

// Emit emits an event. It reports false if the configuration has ended, so that there was no event.
type Emit func(name string, data map[string]any) bool

// consentMetrics are about the accounts that users have connected. None has principals.
type consentMetrics struct {
	given, ended, refreshes *prometheus.CounterVec
}

// ConsentGiven reports that a user has connected an account of their own at a source.
func (o *Observer) ConsentGiven(source, principal string, scopes []string) {
	o.metrics.consents.given.WithLabelValues(providerLabel(source)).Inc()
	shown := make([]string, len(scopes))
	for i, scope := range scopes {
		shown[i] = safetext.Field(scope, MaxLogged)
	}
	o.consent(ConsentGiven, "a user has connected an account", source, principal, "scopes", shown)
}

// ConsentEnded reports that the grant of a user has ended, and why.
func (o *Observer) ConsentEnded(source, principal, reason string) {
	o.metrics.consents.ended.WithLabelValues(providerLabel(source), reason).Inc()
	o.consent(ConsentEnded, "the account of a user is no longer connected", source, principal, "reason", reason)
}

// GrantRefreshed counts a request for new tokens of a user. f is its failure; nil: there is none.
func (o *Observer) GrantRefreshed(source string, f *run.Failure) {
	outcome := "ok"
	switch {
	case f == nil:
	case f.Kind == run.AuthRequired, f.Kind == run.PermissionDenied:
		outcome = "refused"
	default:
		outcome = "unavailable"
	}
	o.metrics.consents.refreshes.WithLabelValues(providerLabel(source), outcome).Inc()
}

// consent logs a consent, and emits its event.
func (o *Observer) consent(event, message, source, principal, detail string, value any) {
	principal = safetext.Field(principal, MaxLogged)
	fields := []zap.Field{zap.String("source", source), zap.String("principal", principal), zap.Any(detail, value)}
	o.logger.Info(message, fields...)
	if o.audit != nil {
		o.audit.Info(message, fields...)
	}
	if o.events != nil {
		o.events.soon(event, map[string]any{"source": source, "principal": principal, detail: value})
	}
}

// WithGrants returns the bridges of this process whose users connect accounts, the newest of those with the same grants.
func WithGrants() (found []*Bridge) {
	for _, b := range slices.Backward(Numbered()) {
		if b.Grants != nil && !slices.ContainsFunc(found, func(other *Bridge) bool {
			return other.Store == b.Store && other.Grants.Realm == b.Grants.Realm
		}) {
			found = append(found, b)
		}
	}
	return found
}

// grantFigures are the numbers of grants.
type grantFigures struct {
	mu   sync.Mutex
	at   time.Time // when they were counted; zero: never
	last map[string]int
}

// send sends the numbers of the grants by source. Those of a database that can't be read are missing.
func (g *grantFigures) send(add func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.at) >= countEvery {
		g.at, g.last = time.Now(), map[string]int{}
		for _, b := range WithGrants() {
			ctx, cancel := context.WithTimeout(context.Background(), figuresTimeout)
			counts, _ := b.Grants.Count(ctx) // see database_usable
			cancel()
			for source, n := range counts {
				g.last[providerLabel(source)] += n
			}
		}
	}
	for provider, n := range g.last {
		add(grantsDesc, prometheus.GaugeValue, float64(n), provider)
	}
}
