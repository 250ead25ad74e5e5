package cli

import (
	"context"
	"strings"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Denied is an observer that remembers where a key was not sent. A failure does not
// say so, since agents read those; who runs a command is who has to know.
type Denied struct {
	translate.Observer

	mu         sync.Mutex
	host, flag string
}

// Notice implements skillsharing.Observer.
func (d *Denied) Notice(ctx context.Context, n *skillsharing.Notice) {
	d.Observer.Notice(ctx, n)
	if !n.SecretDenied {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.host, d.flag = "", "" // of another one
	for _, a := range n.Attrs {
		switch a.Key {
		case "host":
			d.host = a.Value.String()
		case "line":
			d.flag = "--" + a.Value.String()
		}
	}
}

// advice says what would let the key be sent to the host that was denied it last;
// empty if none was.
func (d *Denied) advice() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.host == "":
		return ""
	case d.flag == "":
		return "the key was not sent to " + d.host + ", which is not reached over TLS: tell the provider"
	}
	name, host, _ := strings.Cut(d.flag, " ")
	return "the key was not sent to " + d.host + ", which is not the provider's own host; if that host may have it, add " + name + " " + quote(host)
}
