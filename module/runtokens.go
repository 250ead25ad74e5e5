package skillbridge

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// tokens makes and reads the run tokens of one handler.
type tokens struct {
	keys   *runTokenKeys
	sealer *runtoken.Sealer
	// identities are what the handler has in common with others, for each of its sources.
	identities []string
	// blocks are what tokens are bound to, by the namespaces of sources.
	blocks func() map[string]string
}

var _ skillsprotocol.Tokens = (*tokens)(nil)

func newTokens(ctx caddy.Context, h *Handler, sources []translate.Source, keys *runTokenKeys) *tokens {
	t := &tokens{keys: keys, sealer: runtoken.New(keys, nil)}
	for _, s := range sources {
		t.identities = append(t.identities, h.identity(&s))
	}
	// The first request is early enough: only then there are all handlers.
	t.blocks = sync.OnceValue(func() map[string]string { return h.blocks(ctx, sources) })
	return t
}

// Ready implements skillsprotocol.Tokens.
func (t *tokens) Ready(ctx context.Context) error {
	_, err := t.keys.Current(ctx)
	return err
}

// Seal implements skillsprotocol.Tokens.
func (t *tokens) Seal(ctx context.Context, run translate.RunRef, principal string) (string, error) {
	return t.sealer.Seal(ctx, runtoken.Run(run), t.blocks()[run.Source], principal)
}

// Open implements skillsprotocol.Tokens.
func (t *tokens) Open(ctx context.Context, token, principal string) (translate.RunRef, error) {
	block := func(source string) string { return t.blocks()[source] }
	run, err := t.sealer.Open(ctx, token, block, principal)
	return translate.RunRef(run), err
}

// blocks identify this handler as far as it concerns each source: they are the same
// in every instance with this configuration, and after a reload that changes other
// things than where the source is and who is asking. Handlers that are alike are
// told apart by their order: in front of them there may be different callers of
// the same name.
func (h *Handler) blocks(ctx caddy.Context, sources []translate.Source) map[string]string {
	others := handlersOf(ctx)
	blocks := make(map[string]string, len(sources))
	for i, s := range sources {
		identity := h.tokens.identities[i]
		alike := 0
		for _, other := range others {
			if other == h {
				break
			}
			if slices.Contains(other.tokens.identities, identity) {
				alike++
			}
		}
		d := newDigest()
		d.add(identity)
		d.add(strconv.Itoa(alike))
		blocks[s.Namespace] = d.text()
	}
	return blocks
}

// identity is what a handler has in common with those that are alike as far as it
// concerns a source.
func (h *Handler) identity(s *translate.Source) string {
	d := newDigest()
	d.add(strconv.Itoa(int(s.Kind)))
	d.add(s.Namespace)
	d.add(s.URL.String())
	d.add(h.principal)
	return d.text()
}

// handlersOf returns the handlers of a configuration in the order of its servers'
// names and of their routes. Those inside of other handlers than subroutes can't be
// seen, and are not told apart.
func handlersOf(ctx caddy.Context) []*Handler {
	app, err := ctx.AppIfConfigured("http")
	if err != nil { // the handler is used without Caddy's server
		return nil
	}
	var found []*Handler
	servers := app.(*caddyhttp.App).Servers
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		found = appendHandlers(found, s.Routes)
		for _, route := range slices.Sorted(maps.Keys(s.NamedRoutes)) {
			found = appendHandlers(found, caddyhttp.RouteList{*s.NamedRoutes[route]})
		}
		if s.Errors != nil {
			found = appendHandlers(found, s.Errors.Routes)
		}
	}
	return found
}

func appendHandlers(found []*Handler, routes caddyhttp.RouteList) []*Handler {
	for i := range routes {
		for _, handler := range routes[i].Handlers {
			switch handler := handler.(type) {
			case *Handler:
				found = append(found, handler)
			case *caddyhttp.Subroute:
				found = appendHandlers(found, handler.Routes)
			}
		}
	}
	return found
}
