// Package routes follows requests through the routes of Caddy's HTTP app to a handler: whether matchers let them through, whether another
// handler answers them before, and whether one authenticates their callers.
package routes

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
)

// A Place is where a handler is in the routes of a server.
type Place struct {
	handler caddyhttp.MiddlewareHandler
	levels  []level
	named   map[string]*caddyhttp.Route
}

// Find returns the place of a handler in the routes of a server.
func Find(server *caddyhttp.Server, handler caddyhttp.MiddlewareHandler) (place *Place, found bool) {
	levels, found := levelsOf(server.Routes, handler)
	return &Place{handler, levels, server.NamedRoutes}, found
}

// SamplePath returns a path that the matchers in front of the handler seem to let through, or nothing if it can't be known.
func (p *Place) SamplePath() string {
	for _, l := range slices.Backward(p.levels) {
		for _, set := range l.routes[l.route].MatcherSets {
			for _, matcher := range set {
				switch m := matcher.(type) {
				case *caddyhttp.MatchPath:
					if len(*m) == 0 || hasPlaceholder(*m) {
						return ""
					}
					return strings.ReplaceAll((*m)[0], "*", "rpc")
				case *caddyhttp.MatchPathRE, *caddyhttp.MatchNot:
					return ""
				}
			}
		}
	}
	return "/rpc"
}

// Hosts returns the names and addresses that the matchers in front of the handler name, without patterns. For a site, these are the hosts of its addresses.
func (p *Place) Hosts() []string {
	return slices.DeleteFunc(p.hosts(), func(host string) bool { return strings.ContainsAny(host, "*{") })
}

func (p *Place) hosts() (hosts []string) {
	for _, l := range p.levels {
		var here []string
		for _, set := range l.routes[l.route].MatcherSets {
			for _, matcher := range set {
				if m, ok := matcher.(*caddyhttp.MatchHost); ok {
					here = append(here, *m...)
				}
			}
		}
		if len(here) > 0 { // the innermost ones are narrower
			hosts = here
		}
	}
	return hosts
}

// Origins returns the origins at which clients reach the handler: with the hosts of its site, else with the addresses at which its server listens.
func (p *Place) Origins(app *caddyhttp.App, server *caddyhttp.Server) (origins []string) {
	for _, listen := range server.Listen {
		address, err := caddy.ParseNetworkAddress(listen)
		if err != nil || address.StartPort == 0 { // such as a socket
			continue
		}
		hosts := p.hosts()
		if len(hosts) == 0 {
			hosts = []string{address.Host}
		}
		hasTLS := len(server.TLSConnPolicies) > 0 && int(address.StartPort) != cmp.Or(app.HTTPPort, caddyhttp.DefaultHTTPPort) // as App.Start
		for _, host := range hosts {
			address.Host = host
			origins = append(origins, Origin(address, hasTLS))
		}
	}
	return origins
}

// Origin returns the origin of the site at an address, as this machine sees it.
func Origin(address caddy.NetworkAddress, hasTLS bool) string {
	host, scheme, standard := address.Host, "http://", uint(80)
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = "localhost"
	}
	if hasTLS {
		scheme, standard = "https://", 443
	}
	if address.StartPort == standard {
		return scheme + strings.TrimSuffix(net.JoinHostPort(host, ""), ":")
	}
	return scheme + net.JoinHostPort(host, strconv.FormatUint(uint64(address.StartPort), 10))
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

// A Request is what matchers of paths and methods see of a request.
type Request struct{ Method, Path string }

// A Way is how requests get to a handler.
type Way struct {
	Reached       bool
	HiddenBy      string // the handler in front that answers them
	Authenticated bool   // a handler in front authenticates callers
	Rewritten     bool   // HiddenBy does not answer them, but changes their path to one that the handler does not serve
	Path          string // that clients ask for; empty: it is not known
	Unknown       bool   // a handler in front rewrites paths in a way that can't be followed: what runs before it is not judged

	place *Place
	path  string                  // at the handler
	later []caddyhttp.MatcherSets // of rewrites between the place that is looked at and the handler
}

// WayOf returns the way of requests that are r when they get to the handler. Matchers other than those of paths and methods are taken to
// match where requests have to, and not to match where another handler would answer them.
func (p *Place) WayOf(r Request) Way {
	w := Way{Reached: true, place: p, path: r.Path}
	for _, l := range slices.Backward(p.levels) {
		own := &l.routes[l.route]
		w.hide(answers(own.Handlers[:l.before], r, p.named))
		r.Path = w.passes(own.Handlers[:l.before], own.MatcherSets, true, r)
		if w.Reached = w.Unknown || w.Reached && mayMatch(own.MatcherSets, r); w.Unknown || !w.Reached {
			return w
		}
		for i := range slices.Backward(l.routes[:l.route]) {
			if by := hides(l.routes, i, own.Group, r, p.named); by != "" {
				w.hide(by)
				continue
			}
			if r.Path = w.runs(l.routes, i, true, r); w.Unknown {
				return w
			}
		}
	}
	w.Path = r.Path
	return w
}

// hide notes a handler in front that answers the requests. The outermost gets them first.
func (w *Way) hide(by string) {
	if by != "" {
		w.HiddenBy, w.Rewritten = by, false
	}
}

// runs notes what a route in front does to requests, as passes does for its handlers.
func (w *Way) runs(routes caddyhttp.RouteList, i int, certain bool, r Request) string {
	route := &routes[i]
	if mayMatch(route.MatcherSets, r) {
		r.Path = w.passes(route.Handlers, route.MatcherSets, certain && mustRun(routes, i, r), r)
	} else if slices.ContainsFunc(route.Handlers, func(h caddyhttp.MiddlewareHandler) bool { _, ok := h.(*rewrite.Rewrite); return ok }) {
		w.later = append(w.later, route.MatcherSets)
	}
	return r.Path
}

// passes notes what handlers do to requests that have a path after them, and returns the path that these had before. The matchers are those of
// the handlers' route; certain: all these requests get to the handlers.
func (w *Way) passes(handlers []caddyhttp.MiddlewareHandler, sets caddyhttp.MatcherSets, certain bool, r Request) string {
	for _, h := range slices.Backward(handlers) {
		switch h := h.(type) {
		case *rewrite.Rewrite:
			if before, after, ok := frame(h); ok {
				if r.Path = w.reframes(h, before, after, certain, r); w.Unknown {
					return r.Path
				}
				continue
			}
			if w.rewrites(h, sets, certain, r) && h.StripPathPrefix == "" {
				continue
			}
			if h.URI != "" || h.StripPathSuffix != "" || len(h.URISubstring) > 0 || len(h.PathRegexp) > 0 || strings.Contains(h.StripPathPrefix, "{") {
				w.Unknown = true
				return r.Path
			}
			r.Path = "/" + strings.Trim(h.StripPathPrefix, "/") + r.Path
		case *caddyhttp.Subroute:
			for i := range slices.Backward(h.Routes) {
				r.Path = w.runs(h.Routes, i, certain, r)
			}
		case *caddyhttp.Invoke:
			if route := w.place.named[h.Name]; route != nil {
				r.Path = w.runs(caddyhttp.RouteList{*route}, 0, certain, r)
			}
		case *reverseproxy.Handler: // forward_auth is one that goes on with the request after the answer
			w.Authenticated = w.Authenticated || h.Rewrite != nil && len(h.HandleResponse) > 0
		case caddy.Module:
			w.Authenticated = w.Authenticated || h.CaddyModule().ID == "http.handlers.authentication"
		}
	}
	return r.Path
}

// mayMatch reports whether a request may match sets of matchers.
func mayMatch(sets caddyhttp.MatcherSets, r Request) bool {
	return len(sets) == 0 || slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return setMayMatch(set, r) })
}

func setMayMatch(set caddyhttp.MatcherSet, r Request) bool {
	return !slices.ContainsFunc(set, func(matcher any) bool {
		switch m := matcher.(type) {
		case *caddyhttp.MatchPath, *caddyhttp.MatchPathRE, *caddyhttp.MatchMethod:
			return !Matches(m.(caddyhttp.RequestMatcherWithError), r)
		case *fileserver.MatchFile:
			return findsNone(m)
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, func(not caddyhttp.MatcherSet) bool { return setMatches(not, r) })
		}
		return false
	})
}

// mustMatch reports whether a request matches sets of matchers for certain.
func mustMatch(sets caddyhttp.MatcherSets, r Request) bool {
	return len(sets) == 0 || slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return setMatches(set, r) })
}

func setMatches(set caddyhttp.MatcherSet, r Request) bool {
	return !slices.ContainsFunc(set, func(matcher any) bool {
		switch m := matcher.(type) {
		case *caddyhttp.MatchPath:
			return hasPlaceholder(*m) || !Matches(m, r)
		case *caddyhttp.MatchPathRE, *caddyhttp.MatchMethod:
			return !Matches(m.(caddyhttp.RequestMatcherWithError), r)
		case *fileserver.MatchFile:
			return !findsFallback(m)
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, func(not caddyhttp.MatcherSet) bool { return setMayMatch(not, r) })
		}
		return true
	})
}

func hasPlaceholder(patterns caddyhttp.MatchPath) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return strings.Contains(pattern, "{") })
}

// Matches reports whether a matcher of paths or methods matches a request; with an error, it may.
func Matches(matcher caddyhttp.RequestMatcherWithError, r Request) bool {
	matched, err := matcher.MatchWithError(r.http())
	return matched || err != nil
}

// http returns a request for Caddy's matchers.
func (r Request) http() *http.Request {
	return (&http.Request{Method: r.Method, URL: &url.URL{Path: r.Path}}).WithContext(
		context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer()))
}
