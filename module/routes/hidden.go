package routes

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
)

// An answerer is a handler that answers some requests and passes others on, as another skill_bridge does.
type answerer interface{ Answers(*http.Request) bool }

// hides returns the handler that keeps requests from the routes after a route of a list, or nothing if they may get there. The group is that
// of the route that they should get to.
func hides(routes caddyhttp.RouteList, i int, group string, r Request, named map[string]*caddyhttp.Route) string {
	route := &routes[i]
	if !mustRun(routes, i, r) {
		return ""
	}
	if by := answers(route.Handlers, r, named); by != "" {
		return by
	}
	if len(route.Handlers) > 0 && (route.Terminal || route.Group != "" && route.Group == group) {
		return nameOf(route.Handlers[len(route.Handlers)-1])
	}
	return ""
}

// mustRun reports whether a request that gets to a route of a list certainly runs its handlers.
func mustRun(routes caddyhttp.RouteList, i int, r Request) bool {
	return (mustMatch(routes[i].MatcherSets, r) || triesLast(&routes[i])) && first(routes, i, r)
}

// first reports whether no route before one of its group, of which only the first one that matches is run, may match a request.
func first(routes caddyhttp.RouteList, i int, r Request) bool {
	return routes[i].Group == "" || !slices.ContainsFunc(routes[:i], func(before caddyhttp.Route) bool {
		return before.Group == routes[i].Group && mayMatch(before.MatcherSets, r)
	})
}

// answers returns which of some handlers answers a request, or nothing if it may get to those after them. Handlers that are not known are
// taken to pass it on.
func answers(handlers []caddyhttp.MiddlewareHandler, r Request, named map[string]*caddyhttp.Route) string {
	for _, h := range handlers {
		ends := false
		switch h := h.(type) {
		case *caddyhttp.StaticResponse:
			ends = string(h.StatusCode) != "103" // after Early Hints, the next handler answers
		case *caddyhttp.StaticError:
			ends = true
		case *fileserver.FileServer:
			ends = !h.PassThru
		case *reverseproxy.Handler:
			ends = len(h.HandleResponse) == 0 // else it may go on with the request, as forward_auth does
		case *rewrite.Rewrite:
			if before, after, ok := frame(h); !ok || before+after != "" {
				return "" // what follows sees another Request
			}
		case *caddyhttp.Subroute:
			for i := range h.Routes {
				if by := hides(h.Routes, i, "", r, named); by != "" {
					return by
				}
			}
		case *caddyhttp.Invoke:
			if route := named[h.Name]; route != nil {
				if by := hides(caddyhttp.RouteList{*route}, 0, "", r, named); by != "" {
					return by
				}
			}
		case answerer:
			ends = h.Answers(r.http())
		case caddy.Module:
			ends = h.CaddyModule().ID == "http.handlers.metrics"
		}
		if ends {
			return nameOf(h)
		}
	}
	return ""
}

// nameOf returns the name of a handler in a Caddyfile.
func nameOf(h caddyhttp.MiddlewareHandler) string {
	switch h := h.(type) {
	case *caddyhttp.StaticResponse:
		switch {
		case h.Abort:
			return "abort"
		case h.Headers.Get("Location") != "":
			return "redir"
		}
		return "respond"
	case *caddyhttp.Subroute:
		return "handle"
	case *rewrite.Rewrite:
		switch {
		case strings.HasPrefix(h.URI, relativeFile):
			return "try_files"
		case h.URI == "":
			return "uri"
		}
		return "rewrite"
	case caddy.Module:
		return strings.TrimPrefix(string(h.CaddyModule().ID), "http.handlers.")
	}
	return "unknown"
}
