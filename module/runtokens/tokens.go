package runtokens

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// Tokens makes and reads the run tokens of one handler.
type Tokens struct {
	keys   Keys
	sealer *runtoken.Sealer
	// name and principal are the handler's options; principal may be the default.
	name, principal string
	// identities identify each source together with the handler's principal.
	identities []string
	// nested are the modules around the handler, from the outermost to the handler itself.
	nested []caddy.Module
	// of returns the tokens of a bridge handler; nil for other modules.
	of func(caddy.Module) *Tokens
	// blocks returns what tokens are bound to, by the namespace of the source.
	blocks func() map[string]runtoken.Block
	// realm is what [Tokens.Realm] returns.
	realm func() string
}

var _ skillsprotocol.Tokens = (*Tokens)(nil)

// New returns the tokens of the handler that is provisioned with ctx, which are valid for a time. Its name and its
// principal are as the operator wrote them. The function of returns the tokens of a
// module if it is a handler of the bridge, and otherwise nil.
func New(ctx caddy.Context, name, principal string, sources []catalog.Source, keys Keys, valid time.Duration, of func(caddy.Module) *Tokens) *Tokens {
	t := &Tokens{keys: keys, sealer: runtoken.New(keys, valid, nil), name: name, principal: principal, nested: ctx.Modules(), of: of}
	for _, s := range sources {
		t.identities = append(t.identities, t.identity(&s))
	}
	// The blocks are made at the first request, because all handlers are provisioned then.
	t.blocks = sync.OnceValue(func() map[string]runtoken.Block { return t.makeBlocks(ctx, sources) })
	t.realm = sync.OnceValue(func() string { return t.makeRealm(ctx) })
	return t
}

// Ready implements skillsprotocol.Tokens.
func (t *Tokens) Ready(ctx context.Context) error {
	_, err := t.keys.Current(ctx)
	return err
}

// Prepare makes a key in the background if there is none.
func (t *Tokens) Prepare() { t.keys.Prepare() }

// Lifetime implements skillsprotocol.Tokens.
func (t *Tokens) Lifetime() time.Duration { return t.sealer.Lifetime() }

// Sealer returns what encrypts tokens, and other texts that are stored.
func (t *Tokens) Sealer() *runtoken.Sealer { return t.sealer }

// Seal implements skillsprotocol.Tokens.
func (t *Tokens) Seal(ctx context.Context, ref run.Ref, principal string) (string, error) {
	return t.sealer.Seal(ctx, ref, t.blocks()[ref.Source], principal)
}

// Open implements skillsprotocol.Tokens.
func (t *Tokens) Open(ctx context.Context, token, principal string) (run.Ref, error) {
	block := func(source string) runtoken.Block { return t.blocks()[source] }
	return t.sealer.Open(ctx, token, block, principal)
}

// Realm identifies the handler's principals: in two handlers with the same realm, one principal is the same caller. Like the
// blocks of tokens, it is the same in all instances, and does not depend on the sources.
func (t *Tokens) Realm() string { return t.realm() }

func (t *Tokens) makeRealm(ctx caddy.Context) string {
	if t.name != "" {
		return lifetime.NewDigest("name", t.name, t.principal).String()
	}
	places := map[caddy.Module]place{}
	if app, err := ctx.AppIfConfigured("http"); err == nil { // otherwise the handler is used without Caddy's server
		places = placesOf(app.(*caddyhttp.App))
	}
	here := placeOf(places, t.nested)
	ports := ""
	for module, there := range places {
		other := t.of(module)
		if !here.exact || other != nil && other.name == "" && other.principal == t.principal && there.matchers == here.matchers && there.ports != here.ports {
			ports = here.ports // only they tell the handlers apart
		}
	}
	return lifetime.NewDigest("place", here.matchers, ports, t.principal).String()
}

// makeBlocks returns what the tokens of each source are bound to. Blocks are the same in
// all instances with this configuration. A reload changes a block only if it changes the
// source's URL, the option principal, or the handler's name. Without a name, a block
// depends on the hosts and matchers that lead to the handler, because the same principal
// may be another caller at another site. Ports are compared only if several sites have
// the same hosts, or none, because the port of a site may differ between instances.
func (t *Tokens) makeBlocks(ctx caddy.Context, sources []catalog.Source) map[string]runtoken.Block {
	places := map[caddy.Module]place{}
	if app, err := ctx.AppIfConfigured("http"); err == nil { // otherwise the handler is used without Caddy's server
		places = placesOf(app.(*caddyhttp.App))
	}
	here := placeOf(places, t.nested)
	blocks := make(map[string]runtoken.Block, len(sources))
	for i, s := range sources {
		block := runtoken.Block{Bridge: t.bridge(i, here), Site: here.ports}
		if t.name == "" {
			block.Alike = !here.exact || t.hasAlike(places, block)
		}
		blocks[s.Namespace] = block
	}
	return blocks
}

// hasAlike reports whether another handler's block differs only in its ports.
func (t *Tokens) hasAlike(places map[caddy.Module]place, block runtoken.Block) bool {
	for module, there := range places {
		other := t.of(module)
		if other == nil || there.ports == block.Site {
			continue
		}
		for i := range other.identities {
			if other.bridge(i, there) == block.Bridge {
				return true
			}
		}
	}
	return false
}

// bridge identifies the handler for one of its sources.
func (t *Tokens) bridge(source int, p place) string {
	if t.name != "" {
		return lifetime.NewDigest(t.identities[source], "name", t.name).String()
	}
	return lifetime.NewDigest(t.identities[source], "place", p.matchers).String()
}

// identity identifies a source together with the handler's principal.
func (t *Tokens) identity(s *catalog.Source) string {
	return lifetime.NewDigest(strconv.Itoa(int(s.Kind)), s.Namespace, s.URL.String(), t.principal).String()
}
