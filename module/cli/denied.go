package cli

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Denied is an observer that keeps the last notice of a credential that was not sent to a host.
// Failures do not name the host, because agents read them.
type Denied struct {
	translate.Observer

	last atomic.Pointer[exchange.Notice]
}

// Notice implements exchange.Observer.
func (d *Denied) Notice(ctx context.Context, n *exchange.Notice) {
	d.Observer.Notice(ctx, n)
	if n.SecretDenied {
		d.last.Store(n)
	}
}

// advice names the flag that lets the host receive the credential; empty: every host received it.
func (d *Denied) advice() string {
	if d == nil || d.last.Load() == nil {
		return ""
	}
	attrs := map[string]string{}
	for _, a := range d.last.Load().Attrs {
		attrs[a.Key] = a.Value.String()
	}
	advice := "the key was not sent to " + attrs["host"]
	option, host, permits := strings.Cut(attrs["line"], " ") // of a Caddyfile
	if !permits {
		return advice + ", which does not use TLS: tell the provider"
	}
	return advice + ", which is not the provider's own host; to send it there, add --" + option + " " + quote(host)
}
