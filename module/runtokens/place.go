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

// place is where in the routes of Caddy's HTTP app a handler is: what the operator
// wrote to lead requests there. Neither the names of servers nor the order of sites
// and routes are part of it, since these change when others are added or removed.
type place struct {
	// hosts and further matchers of the routes that lead there, from the outermost to the innermost
	matchers string
	// ports that are listened on, and sockets
	ports string
	// exact: it is known of each handler whether it is there
	exact bool
}

// placesOf returns the places of all handlers in an HTTP app's routes, but for those
// inside of other handlers than subroutes.
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

// placeOf returns the place of the innermost of nested modules that has one.
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

// matcherSetsText is the same for matchers that were written alike, in whichever
// order: Caddy keeps those of a set in none.
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

// matcherText is a matcher as the operator wrote it, as far as it keeps that.
func matcherText(matcher any) string {
	var written any
	switch m := matcher.(type) {
	case *caddyhttp.MatchHost:
		hosts := slices.Clone(*m)
		slices.Sort(hosts)
		written = hosts
	case *caddyhttp.MatchNot: // it does not keep its text
		written = matcherSetsText(m.MatcherSets)
	default:
		written = m
	}
	name := fmt.Sprintf("%T", matcher)
	if module, ok := matcher.(caddy.Module); ok {
		name = string(module.CaddyModule().ID)
	}
	text, _ := json.Marshal(written) // what can't be written is told apart by its kind only
	return name + " " + string(text)
}

// portsOf returns the ports of addresses, without the hosts, which may be an
// instance's own, and the sockets.
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
