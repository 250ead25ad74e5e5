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
	return slices.ContainsFunc(m.endpoints(), func(e endpoint) bool { return matchesPath(patterns, e.example) })
}

// WarnOfRoutes logs warnings about the routes that lead to a handler in Caddy's HTTP app: about paths of mounts whose requests do
// not reach the handler, and about endpoints without the authentication that others have. All routes must be provisioned.
func (m *Mounts) WarnOfRoutes(app *caddyhttp.App, handler caddyhttp.MiddlewareHandler, requirePrincipal bool, logger *zap.Logger) {
	for _, server := range app.Servers {
		levels, found := levelsOf(server.Routes, handler)
		if !found {
			continue
		}
		var missed, guarded, open []string
		for _, e := range m.endpoints() {
			way := wayOf(levels, e.example)
			switch {
			case way.unknown:
				return
			case !way.reached:
				if !e.alias {
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

// way is how requests for a path get to a handler.
type way struct {
	reached       bool
	authenticated bool // a handler in front authenticates callers
	unknown       bool // a handler in front rewrites paths in a way that can't be followed
}

// wayOf returns the way to the innermost level of requests whose path is path there. Matchers other than those of paths are
// taken to match.
func wayOf(levels []level, path string) way {
	w := way{reached: true}
	for _, l := range slices.Backward(levels) {
		path = w.passes(l.routes[l.route].Handlers[:l.before], path)
		if w.reached = w.reached && mayMatch(l.routes[l.route].MatcherSets, path); !w.reached {
			return w
		}
		for i := range slices.Backward(l.routes[:l.route]) {
			if mayMatch(l.routes[i].MatcherSets, path) {
				path = w.passes(l.routes[i].Handlers, path)
			}
		}
	}
	return w
}

// passes notes what handlers do to requests that have a path after them, and returns the path that these had before.
func (w *way) passes(handlers []caddyhttp.MiddlewareHandler, path string) string {
	for _, h := range slices.Backward(handlers) {
		switch h := h.(type) {
		case *rewrite.Rewrite:
			if h.URI != "" || h.StripPathSuffix != "" || len(h.URISubstring) > 0 || len(h.PathRegexp) > 0 || strings.Contains(h.StripPathPrefix, "{") {
				w.unknown = true
				return path
			}
			if h.StripPathPrefix == "" {
				continue // of methods or queries
			}
			path = "/" + strings.Trim(h.StripPathPrefix, "/") + path
		case *caddyhttp.Subroute:
			for i := range h.Routes {
				if mayMatch(h.Routes[i].MatcherSets, path) {
					path = w.passes(h.Routes[i].Handlers, path)
				}
			}
		case *reverseproxy.Handler: // forward_auth is one that goes on with the request after the answer
			w.authenticated = w.authenticated || h.Rewrite != nil && len(h.HandleResponse) > 0
		case caddy.Module:
			w.authenticated = w.authenticated || h.CaddyModule().ID == "http.handlers.authentication"
		}
	}
	return path
}

// mayMatch reports whether a request for a path may match sets of matchers.
func mayMatch(sets caddyhttp.MatcherSets, path string) bool {
	return len(sets) == 0 || slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return setMayMatch(set, path) })
}

func setMayMatch(set caddyhttp.MatcherSet, path string) bool {
	return !slices.ContainsFunc(set, func(matcher any) bool {
		switch m := matcher.(type) {
		case *caddyhttp.MatchPath, *caddyhttp.MatchPathRE:
			return !matchesPath(m.(caddyhttp.RequestMatcherWithError), path)
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, func(not caddyhttp.MatcherSet) bool { return onlyPaths(not) && setMayMatch(not, path) })
		}
		return false
	})
}

// onlyPaths reports whether a set has only matchers of paths.
func onlyPaths(set caddyhttp.MatcherSet) bool {
	return !slices.ContainsFunc(set, func(matcher any) bool {
		switch matcher.(type) {
		case *caddyhttp.MatchPath, *caddyhttp.MatchPathRE:
			return false
		}
		return true
	})
}

// matchesPath reports whether a matcher matches a request for a path; with an error, it may.
func matchesPath(matcher caddyhttp.RequestMatcherWithError, path string) bool {
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}}).WithContext(
		context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer()))
	matched, err := matcher.MatchWithError(r)
	return matched || err != nil
}
