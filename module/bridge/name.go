package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json" // as Caddy encodes the configuration that it loads
	"fmt"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// defaultName is the name of a handler that is given none, in JSON. The Caddyfile adapter writes the default name, with the matcher of the directive, so that
// the handlers that Caddy makes of one directive, one for each server, can be told from those that somebody has forgotten to name.
const defaultName = "skill_bridge"

// defaultNameWith returns the default name of the handler of a directive with a matcher: a path, the name of a matcher, or none.
func defaultNameWith(matcher string) string {
	if name := defaultName + matcher; matcher != "*" && options.CheckName(directive, name) == nil && options.CheckLiteral(directive, name) == nil { // "{" begins the block
		return name
	}
	return defaultName
}

// givenName is the name that the operator has given; empty: none.
func (h *Handler) givenName() string {
	if h.Name == defaultName || strings.HasPrefix(h.Name, defaultName+"/") || strings.HasPrefix(h.Name, defaultName+"@") {
		return ""
	}
	return h.Name
}

// errUnnamed says that one of several bridges has no name. The argument is another of them.
const errUnnamed = "this configuration has another skill_bridge without a name (%s), and callers' runs and run tokens belong to a bridge by its name: " +
	"write name <text> in all of them but the one that has runs already, a different one in each, which stays the same for ever and on all instances"

// nameDirective gives the default name to a handler without a name, if it is the first one of the Caddyfile with its matcher. place is where the
// directive is.
func nameDirective(h *Handler, helper httpcaddyfile.Helper, matcher, place string) error {
	name := defaultNameWith(matcher)
	if h.Name != "" && h.Name != name {
		return nil
	}
	key := directive + " " + name
	if first, ok := helper.State[key].(string); ok {
		return fmt.Errorf("name: "+errUnnamed+", at %s", "at "+first, place)
	}
	helper.State[key] = place
	h.Name = name
	return nil
}

// namesOf are the names of the handlers of each configuration, by its app.
var namesOf sync.Map // of *takenNames

// takenNames are the names of the handlers of a configuration.
type takenNames struct {
	sync.Mutex
	by map[string]namedHandler
}

// namedHandler is the first handler with a name.
type namedHandler struct {
	config [sha256.Size]byte // hash of its configuration
	what   string            // for the operator
}

// takeName checks that the name of the handler is that of no other one in its configuration, unless it is a copy: Caddy makes one of a Caddyfile's
// directive for each server that its site is on. The configuration must be as it was read.
func takeName(ctx caddy.Context, h *Handler, lines options.Lines) error {
	app, err := ctx.AppIfConfigured("events")
	if err != nil {
		return nil //nolint:nilerr // as in lifetime.OnStart: without a running Caddy, there is one handler
	}
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	own := namedHandler{sha256.Sum256(text), described(h, lines)}
	found, loaded := namesOf.LoadOrStore(app, &takenNames{by: map[string]namedHandler{}})
	if !loaded {
		context.AfterFunc(ctx, func() { namesOf.Delete(app) })
	}
	taken := found.(*takenNames)
	taken.Lock()
	defer taken.Unlock()
	name := cmp.Or(h.Name, defaultName)
	other, twice := taken.by[name]
	switch {
	case !twice:
		taken.by[name] = own
		return nil
	case h.Name != "" && other.config == own.config:
		return nil
	case name == defaultName:
		err = fmt.Errorf(errUnnamed, other.what)
	default:
		err = fmt.Errorf("%q is also the name of another skill_bridge of this configuration, which has other options (%s): callers' runs and run tokens belong to a bridge by its name, "+
			"so write another name in one of them, which stays the same for ever and on all instances", h.Name, other.what)
	}
	fault := &options.ConfigError{Path: "name", Err: err}
	if len(lines) == 0 { // else they say which one it is
		fault.Owner = own.what
	}
	return fault
}

// described says which handler it is.
func described(h *Handler, lines options.Lines) string {
	if line := lines.At(""); line != "" {
		return "at " + line
	}
	text := "with " + cmp.Or(h.Sources.Shown(), "no skills")
	if h.Any() {
		text += " at " + strings.Join(h.Paths(), ", ")
	}
	return text
}
