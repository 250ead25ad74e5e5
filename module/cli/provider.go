package cli

import (
	"context"
	"strings"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Principal is the caller of a bridge in the process of a command: its user, who may see private skills.
const Principal = "local"

// Provider is what an [Endpoint] in this process knows beyond its answers: the user of the command is the operator of the bridge, too, and gets
// the failures of calls as an operator does, with advice about flags.
type Provider struct {
	// Credentials is the flag of the credentials: --api-key-env or --oauth-client-id; empty: there are none.
	Credentials string
	Private     bool // requests for documents carry them, too
	// ReadAll reads the descriptors of all skills, so that their states are known.
	ReadAll func(ctx context.Context)
	// Unread returns why the skills of the provider can't be listed; nil: they can.
	Unread func(ctx context.Context) *run.Failure
	// Token returns the run token of a run of a skill.
	Token func(ctx context.Context, skill, executionID string) (string, *run.Failure)

	mu      sync.Mutex
	failure *run.Failure     // of the newest call
	denied  *exchange.Notice // the newest of a credential that was not sent to a host, which failures do not name, because agents read them
}

// Called takes the outcome of a call of the bridge.
func (p *Provider) Called(r *run.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = r.Failure
}

// Noticed takes a notice for the operator.
func (p *Provider) Noticed(n *exchange.Notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.SecretDenied {
		p.denied = n
	}
}

// take returns the failure of the newest call, once.
func (p *Provider) take() *run.Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.failure
	p.failure = nil
	return f
}

// trustAdvice names the flag that lets a host receive the credential; empty: every host received it.
func (p *Provider) trustAdvice() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.denied == nil {
		return ""
	}
	attrs := map[string]string{}
	for _, a := range p.denied.Attrs {
		attrs[a.Key] = a.Value.String()
	}
	advice := "the key was not sent to " + attrs["host"]
	option, host, permits := strings.Cut(attrs["line"], " ") // of a Caddyfile
	if !permits {
		return advice + ", which does not use TLS: tell the provider"
	}
	return advice + ", which is not the provider's own host; to send it there, add --" + option + " " + quote(host)
}
