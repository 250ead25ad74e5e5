package cli

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Denied is an observer that remembers which host was last denied the credential.
// Failures do not name it, since agents read them.
type Denied struct {
	translate.Observer

	last atomic.Pointer[exchange.Notice]
}

// Notice implements skillsharing.Observer.
func (d *Denied) Notice(ctx context.Context, n *exchange.Notice) {
	d.Observer.Notice(ctx, n)
	if n.SecretDenied {
		d.last.Store(n)
	}
}

// advice says what would let the host receive the credential; empty if none was denied it.
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
