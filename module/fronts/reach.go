package fronts

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	"go.uber.org/zap"
)

// endpoint is a path of a mount, with an example of it if it stands for several.
type endpoint struct {
	name, example string
	// alias means that another endpoint without a slash at its end does the same.
	alias bool
	// document means that it is no endpoint, but a document that clients read before they send requests.
	document bool
}

// sampleSkill stands for the name of a skill in a path.
const sampleSkill = "namespace.skill"

// endpoints returns the paths that the mounts serve.
func (m *Mounts) endpoints() []endpoint {
	var all []endpoint
	add := func(path string) {
		path = strings.TrimSuffix(path, "/")
		all = append(all, endpoint{name: path, example: path}, endpoint{name: path + "/", example: path + "/", alias: true})
	}
	if m.RPC != nil {
		add(m.RPC.path())
	}
	if m.A2A != nil {
		add(m.A2A.path())
		all = append(all, endpoint{name: m.A2A.path() + "/<skill>", example: m.A2A.path() + "/" + sampleSkill},
			endpoint{name: wellKnown, example: wellKnown, document: true})
	}
	if m.MCP != nil {
		add(m.MCP.path())
		if len(m.MCP.AuthorizationServer) > 0 {
			path := wellKnownResource + m.MCP.path()
			all = append(all, endpoint{name: path, example: path, document: true})
		}
	}
	if m.AgentSkills != nil {
		all = append(all, endpoint{name: indexOfSkills, example: indexOfSkills, document: true})
	}
	return all
}

// Paths returns the paths of the mounts.
func (m *Mounts) Paths() []string {
	var paths []string
	for _, e := range m.endpoints() {
		if !e.alias && !e.document {
			paths = append(paths, e.name)
		}
	}
	return paths
}

// Reached reports whether a matcher of paths lets requests for any of the mounts through. Patterns with placeholders do.
func (m *Mounts) Reached(by caddyhttp.MatchPath) bool {
	patterns := make(caddyhttp.MatchPath, len(by))
	for i, pattern := range by {
		if strings.Contains(pattern, "{") {
			return true
		}
		patterns[i] = strings.ToLower(pattern) // as its Provision does
	}
	return slices.ContainsFunc(m.endpoints(), func(e endpoint) bool { return matches(patterns, e.request()) })
}

// WarnOfRoutes logs warnings about the routes that lead to a handler in Caddy's HTTP app: about paths of mounts whose requests do
// not reach the handler, or are answered by another one in front of it, and about endpoints without the authentication that others
// have. All routes must be provisioned.
func (m *Mounts) WarnOfRoutes(app *caddyhttp.App, handler caddyhttp.MiddlewareHandler, requirePrincipal bool, logger *zap.Logger) {
	for _, server := range app.Servers {
		levels, found := levelsOf(server.Routes, handler)
		if !found {
			continue
		}
		endpoints, mounted := m.endpoints(), true
		if len(endpoints) == 0 {
			endpoints, mounted = ownPath(levels), false
		}
		var missed, hidden, hiders, guarded, open []string
		for _, e := range endpoints {
			way := wayOf(levels, e.request(), server.NamedRoutes)
			switch {
			case way.unknown:
				return
			case way.hiddenBy != "":
				if !e.alias {
					hidden = append(hidden, e.name)
				}
				if !slices.Contains(hiders, way.hiddenBy) {
					hiders = append(hiders, way.hiddenBy)
				}
			case !way.reached:
				if !e.alias && mounted {
					missed = append(missed, e.name)
				}
			case e.document:
			case way.authenticated:
				guarded = append(guarded, e.name)
			default:
				open = append(open, e.name)
			}
		}
		if len(missed) > 0 {
			logger.Warn("requests for some paths of skill_bridge do not reach it: let the matchers in front of it include these paths, or remove its own matcher, since it passes requests for other paths on",
				zap.Strings("paths", missed))
		}
		if len(hiders) > 0 {
			logger.Warn("requests for some paths of skill_bridge do not reach it, since Caddy runs another handler before it, which answers them: write a matcher for that handler, or a route block with skill_bridge before it",
				zap.Strings("paths", hidden), zap.Strings("handlers", hiders))
		}
		if len(guarded) > 0 && len(open) > 0 {
			effect := "callers there are anonymous"
			if requirePrincipal {
				effect = "callers there are refused, since they have no principal"
			}
			logger.Warn("some paths of skill_bridge have no authentication, although others have: "+effect+"; let the matcher of the authentication include them",
				zap.Strings("open", open), zap.Strings("authenticated", guarded))
		}
	}
}

// request returns a request for the endpoint.
func (e *endpoint) request() request {
	if e.document {
		return request{http.MethodGet, e.example}
	}
	return request{http.MethodPost, e.example}
}

// ownPath returns a path that the matchers in front of a handler without mounts seem to let through, if it can be known.
func ownPath(levels []level) []endpoint {
	for _, l := range slices.Backward(levels) {
		for _, set := range l.routes[l.route].MatcherSets {
			for _, matcher := range set {
				switch m := matcher.(type) {
				case *caddyhttp.MatchPath:
					if len(*m) == 0 || strings.Contains((*m)[0], "{") {
						return nil
					}
					path := strings.ReplaceAll((*m)[0], "*", "rpc")
					return []endpoint{{name: path, example: path}}
				case *caddyhttp.MatchPathRE, *caddyhttp.MatchNot:
					return nil
				}
			}
		}
	}
	return []endpoint{{name: "/rpc", example: "/rpc"}}
}

// level is a list of routes that leads to a handler.
type level struct {
	routes caddyhttp.RouteList
	route  int // the index of the route
	before int // how many handlers of the route run before
}

// levelsOf returns the lists of routes that lead to a handler, from the outermost to the innermost.
func levelsOf(routes caddyhttp.RouteList, handler caddyhttp.MiddlewareHandler) (levels []level, found bool) {
	for i := range routes {
		for j, h := range routes[i].Handlers {
			here := level{routes, i, j}
			if h == handler {
				return []level{here}, true
			}
			if sub, ok := h.(*caddyhttp.Subroute); ok {
				if below, ok := levelsOf(sub.Routes, handler); ok {
					return append([]level{here}, below...), true
				}
			}
		}
	}
	return nil, false
}

// request is what a route sees of a request to an endpoint.
type request struct{ method, path string }

// way is how requests for a path get to a handler.
type way struct {
	reached       bool
	hiddenBy      string // the handler in front that answers them
	authenticated bool   // a handler in front authenticates callers
	unknown       bool   // a handler in front rewrites paths in a way that can't be followed
}

// wayOf returns the way to the innermost level of requests that are r there. Matchers other than those of paths and methods are
// taken to match where requests have to, and not to match where another handler would answer them.
func wayOf(levels []level, r request, named map[string]*caddyhttp.Route) way {
	w := way{reached: true}
	for _, l := range slices.Backward(levels) {
		own := &l.routes[l.route]
		w.hide(answers(own.Handlers[:l.before], r, named))
		r.path = w.passes(own.Handlers[:l.before], r)
		if w.reached = w.reached && mayMatch(own.MatcherSets, r); !w.reached {
			return w
		}
		for i := range slices.Backward(l.routes[:l.route]) {
			w.hide(hides(l.routes, i, own.Group, r, named))
			if mayMatch(l.routes[i].MatcherSets, r) {
				r.path = w.passes(l.routes[i].Handlers, r)
			}
		}
	}
	return w
}

// hide notes a handler in front that answers the requests. The outermost gets them first.
func (w *way) hide(by string) {
	if by != "" {
		w.hiddenBy = by
	}
}

// passes notes what handlers do to requests that have a path after them, and returns the path that these had before.
func (w *way) passes(handlers []caddyhttp.MiddlewareHandler, r request) string {
	for _, h := range slices.Backward(handlers) {
		switch h := h.(type) {
		case *rewrite.Rewrite:
			if h.URI != "" || h.StripPathSuffix != "" || len(h.URISubstring) > 0 || len(h.PathRegexp) > 0 || strings.Contains(h.StripPathPrefix, "{") {
				w.unknown = true
				return r.path
			}
			if h.StripPathPrefix == "" {
				continue // of methods or queries
			}
			r.path = "/" + strings.Trim(h.StripPathPrefix, "/") + r.path
		case *caddyhttp.Subroute:
			for i := range h.Routes {
				if mayMatch(h.Routes[i].MatcherSets, r) {
					r.path = w.passes(h.Routes[i].Handlers, r)
				}
			}
		case *reverseproxy.Handler: // forward_auth is one that goes on with the request after the answer
			w.authenticated = w.authenticated || h.Rewrite != nil && len(h.HandleResponse) > 0
		case caddy.Module:
			w.authenticated = w.authenticated || h.CaddyModule().ID == "http.handlers.authentication"
		}
	}
	return r.path
}

// mayMatch reports whether a request may match sets of matchers.
func mayMatch(sets caddyhttp.MatcherSets, r request) bool {
	return len(sets) == 0 || slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return setMayMatch(set, r) })
}

func setMayMatch(set caddyhttp.MatcherSet, r request) bool {
	return !slices.ContainsFunc(set, func(matcher any) bool {
		switch m := matcher.(type) {
		case *caddyhttp.MatchPath, *caddyhttp.MatchPathRE, *caddyhttp.MatchMethod:
			return !matches(m.(caddyhttp.RequestMatcherWithError), r)
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, func(not caddyhttp.MatcherSet) bool { return setMatches(not, r) })
		}
		return false
	})
}

// mustMatch reports whether a request matches sets of matchers for certain.
func mustMatch(sets caddyhttp.MatcherSets, r request) bool {
	return len(sets) == 0 || slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return setMatches(set, r) })
}

func setMatches(set caddyhttp.MatcherSet, r request) bool {
	return !slices.ContainsFunc(set, func(matcher any) bool {
		switch m := matcher.(type) {
		case *caddyhttp.MatchPath:
			return hasPlaceholder(*m) || !matches(m, r)
		case *caddyhttp.MatchPathRE, *caddyhttp.MatchMethod:
			return !matches(m.(caddyhttp.RequestMatcherWithError), r)
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, func(not caddyhttp.MatcherSet) bool { return setMayMatch(not, r) })
		}
		return true
	})
}

func hasPlaceholder(patterns caddyhttp.MatchPath) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return strings.Contains(pattern, "{") })
}

// matches reports whether a matcher of paths or methods matches a request; with an error, it may.
func matches(matcher caddyhttp.RequestMatcherWithError, r request) bool {
	matched, err := matcher.MatchWithError(r.http())
	return matched || err != nil
}

// http returns a request for Caddy's matchers.
func (r request) http() *http.Request {
	return (&http.Request{Method: r.method, URL: &url.URL{Path: r.path}}).WithContext(
		context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer()))
}
