package runtokens

import (
	"encoding/json" // Caddy's matchers are made for it
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
)

// place identifies the route of a handler in Caddy's HTTP app, by what the operator wrote.
// The names of servers and the order of sites and routes are not part of it, because they
// change when other sites and routes are added or removed.
type place struct {
	// matchers of the routes that lead to the handler, hosts included, from the outermost to the innermost
	matchers string
	// ports that are listened on, and sockets
	ports string
	// exact means that the place is the handler's own, not that of an enclosing module
	exact bool
}

// placesOf returns the places of all handlers in an HTTP app's routes and subroutes.
// Handlers inside other modules have none.
func placesOf(app *caddyhttp.App) map[caddy.Module]place {
	places := make(map[caddy.Module]place)
	for _, s := range app.Servers {
		ports := portsOf(s.Listen)
		addPlaces(places, s.Routes, nil, ports)
		for name, route := range s.NamedRoutes {
			addPlaces(places, caddyhttp.RouteList{*route}, []string{"named route", name}, ports)
		}
		if s.Errors != nil {
			addPlaces(places, s.Errors.Routes, []string{"errors"}, ports)
		}
	}
	return places
}

func addPlaces(places map[caddy.Module]place, routes caddyhttp.RouteList, path []string, ports string) {
	for _, route := range routes {
		path := path
		if len(route.MatcherSets) > 0 {
			path = append(slices.Clone(path), matcherSetsText(route.MatcherSets))
		}
		here := place{lifetime.NewDigest(path...).String(), ports, true}
		for _, handler := range route.Handlers {
			if module, ok := handler.(caddy.Module); ok && reflect.TypeOf(module).Kind() == reflect.Pointer {
				places[module] = here
			}
			if subroute, ok := handler.(*caddyhttp.Subroute); ok {
				addPlaces(places, subroute.Routes, path, ports)
			}
		}
	}
}

// placeOf returns the place of the innermost module that has one.
func placeOf(places map[caddy.Module]place, nested []caddy.Module) place {
	for i, module := range slices.Backward(nested) {
		if reflect.TypeOf(module).Kind() != reflect.Pointer {
			continue
		}
		if found, ok := places[module]; ok {
			found.exact = i == len(nested)-1
			return found
		}
	}
	return place{}
}

// matcherSetsText returns a text about matchers that does not depend on their order, because
// Caddy keeps the matchers of a set in random order.
func matcherSetsText(sets caddyhttp.MatcherSets) string {
	texts := make([]string, len(sets))
	for i, set := range sets {
		matchers := make([]string, len(set))
		for j, matcher := range set {
			matchers[j] = matcherText(matcher)
		}
		slices.Sort(matchers)
		texts[i] = strings.Join(matchers, "\n")
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n\n")
}

// matcherText returns a matcher's configuration, as far as the matcher has kept it.
func matcherText(matcher any) string {
	var written any
	switch m := matcher.(type) {
	case *caddyhttp.MatchHost:
		hosts := slices.Clone(*m)
		slices.Sort(hosts)
		written = hosts
	case *caddyhttp.MatchNot: // it does not keep its configuration
		written = matcherSetsText(m.MatcherSets)
	default:
		written = m
	}
	name := fmt.Sprintf("%T", matcher)
	if module, ok := matcher.(caddy.Module); ok {
		name = string(module.CaddyModule().ID)
	}
	text, _ := json.Marshal(written) // a matcher without JSON is identified by its module only
	return name + " " + string(text)
}

// portsOf returns the ports and the sockets of addresses. Hosts are left out: they may
// differ between instances.
func portsOf(addresses []string) string {
	ports := make([]string, 0, len(addresses))
	for _, text := range addresses {
		if address, err := caddy.ParseNetworkAddress(text); err == nil && !address.IsUnixNetwork() && !address.IsFdNetwork() {
			text = fmt.Sprintf("%d-%d", address.StartPort, address.EndPort)
		}
		ports = append(ports, text)
	}
	slices.Sort(ports)
	return strings.Join(slices.Compact(ports), "\n")
}
