package fronts

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/probes"
	"github.com/skill-bridge/caddy-skill-bridge/module/routes"
)

// endpoint is a path of a mount, which may have a placeholder for a skill.
type endpoint struct {
	name string
	// alias means that another endpoint without a slash at its end does the same.
	alias bool
	// document means that it is no endpoint, but a document that clients read before they send requests.
	document bool
	// connect means that it is the page for users.
	connect bool
}

// endpoints returns the paths that the mounts serve.
func (m *Mounts) endpoints() (all []endpoint) {
	add := func(path string) {
		path = strings.TrimSuffix(path, "/")
		all = append(all, endpoint{name: path}, endpoint{name: path + "/", alias: true})
	}
	if m.RPC != nil {
		add(m.RPC.path())
	}
	if m.A2A != nil {
		add(m.A2A.path())
		all = append(all, endpoint{name: m.A2A.path() + "/<skill>"}, endpoint{name: wellKnown, document: true})
	}
	if m.MCP != nil {
		add(m.MCP.path())
	}
	for _, path := range []string{m.RPC.path(), m.A2A.path(), m.MCP.path()} {
		if path != "" && (m.ByToken || path == m.MCP.path() && len(m.MCP.AuthorizationServer) > 0) {
			all = append(all, endpoint{name: wellKnownResource + path, document: true})
		}
	}
	if m.AgentSkills != nil {
		all = append(all, endpoint{name: indexOfSkills, document: true})
	}
	if m.Connect != nil {
		all = append(all, endpoint{name: m.Connect.At(), connect: true, document: m.Connect.Principal != ""}) // browsers may authenticate otherwise
	}
	if m.Health != nil {
		base := strings.TrimSuffix(m.Health.Path, "/")
		all = append(all, endpoint{name: base + probes.Health, document: true}, endpoint{name: base + probes.Readiness, document: true})
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
	return slices.ContainsFunc(m.endpoints(), func(e endpoint) bool { return routes.Matches(patterns, e.request()) })
}

// URLs returns the URLs of the endpoints of a handler in Caddy's HTTP app, as far as the routes that lead to it show them, and whether no handler in front
// authenticates callers.
func (m *Mounts) URLs(app *caddyhttp.App, handler caddyhttp.MiddlewareHandler) (urls []string, open bool) {
	open = true
	for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
		place, found := routes.Find(app.Servers[name], handler)
		if !found {
			continue
		}
		paths := []string{m.RPC.path(), m.A2A.path(), m.MCP.path()}
		if !m.Any() {
			paths = []string{place.SamplePath()}
		}
		for _, origin := range place.Origins(app, app.Servers[name]) {
			for _, path := range paths {
				if way := place.WayOf(routes.Request{Method: http.MethodPost, Path: path}); path != "" && way.Reached && way.HiddenBy == "" {
					open = open && !way.Authenticated && !way.Unknown
					urls = append(urls, origin+cmp.Or(way.Path, path))
				}
			}
		}
	}
	return urls, open
}

// WarnOfRoutes logs warnings about the routes that lead to a handler in Caddy's HTTP app: about paths of mounts whose requests do
// not reach the handler, or are answered by another one in front of it, about endpoints without the authentication that others
// have, and about pages of connect if none sets what says who the users of browsers are. All routes must be provisioned.
func (m *Mounts) WarnOfRoutes(app *caddyhttp.App, handler caddyhttp.MiddlewareHandler, requirePrincipal bool, browsers string, logger *zap.Logger) {
	for _, server := range app.Servers {
		place, found := routes.Find(server, handler)
		if !found {
			continue
		}
		endpoints := m.endpoints()
		if path := place.SamplePath(); !m.Any() && path != "" {
			endpoints = append(endpoints, endpoint{name: path})
		}
		var missed, guarded, open []string
		var answered, rewritten hiding
		hidden := map[bool]*hiding{false: &answered, true: &rewritten}
		for _, e := range endpoints {
			way := place.WayOf(e.request())
			switch {
			case way.HiddenBy != "":
				hidden[way.Rewritten].add(&e, way.HiddenBy)
			case way.Unknown:
			case !way.Reached:
				if !e.alias && (m.Any() || e.connect) {
					missed = append(missed, e.name)
				}
			case e.connect && strings.Contains(browsers, "{http.auth.") && (!way.Authenticated || !strings.Contains(browsers, "{http.auth.user.")):
				logger.Warn("no user can connect an account, since no authentication in front of the pages of connect sets the principal: write one, such as basic_auth, which sets {http.auth.user.id}, or another principal in connect",
					zap.Strings("paths", []string{e.name}), zap.String("principal", browsers))
			case e.document:
			case way.Authenticated:
				guarded = append(guarded, e.name)
			default:
				open = append(open, e.name)
			}
		}
		if len(missed) > 0 {
			logger.Warn("requests for some paths of skill_bridge do not reach it: let the matchers in front of it include these paths, or remove its own matcher, since it passes requests for other paths on",
				zap.Strings("paths", missed))
		}
		if len(answered.by) > 0 {
			logger.Warn("requests for some paths of skill_bridge do not reach it, since Caddy runs another handler before it, which answers them: write a matcher for that handler, or a route block with skill_bridge before it",
				zap.Strings("paths", answered.paths), zap.Strings("handlers", answered.by))
		}
		if len(rewritten.paths) > 0 {
			logger.Warn("requests for some paths of skill_bridge do not reach it, since Caddy runs another handler before it, which rewrites them to other paths: write a matcher for that handler (such as @others not path "+strings.ReplaceAll(strings.Join(rewritten.paths, " "), "<skill>", "*")+"), a handle block for each of the two, or a route block with skill_bridge before it",
				zap.Strings("paths", rewritten.paths), zap.Strings("handlers", rewritten.by))
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

// hiding has the endpoints whose requests handlers in front keep from another one.
type hiding struct{ paths, by []string }

func (h *hiding) add(e *endpoint, by string) {
	if !e.alias {
		h.paths = append(h.paths, e.name)
	}
	if !slices.Contains(h.by, by) {
		h.by = append(h.by, by)
	}
}

// request returns a request for the endpoint.
func (e *endpoint) request() routes.Request {
	r := routes.Request{Method: http.MethodPost, Path: strings.Replace(e.name, "<skill>", "namespace.skill", 1)}
	if e.document {
		r.Method = http.MethodGet
	}
	return r
}
