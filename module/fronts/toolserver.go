package fronts

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// ToolServer serves the mount of MCP.
type ToolServer struct {
	authorization authorization
	server        *jsonrpc.Server
	origins       []*url.URL
	// requirePrincipal means that every request of an anonymous caller is refused.
	requirePrincipal bool
}

// Serve returns the mount of MCP.
func (m *MCP) Serve(ctx caddy.Context, s *Setup) (*ToolServer, error) {
	stopping, err := lifetime.Stopping(ctx)
	if err != nil {
		return nil, err
	}
	told := m.authorization()
	told.scheme = s.Challenge
	namespaces := []string{"other services"}
	if s.Bridge.Catalog().Policy() == nil { // else they depend on the caller
		namespaces = s.Bridge.Namespaces("")
	}
	front := &mcp.Front{
		Bridge: s.Bridge, Tokens: s.Tokens, Options: m.options(s.Wait, namespaces), RequirePrincipal: s.RequirePrincipal,
		Refused: s.Refused, Streaming: s.Observer.Streaming, Stopping: stopping, Panicked: s.Observer.Panicked,
		Challenge: told.challenge, Canceled: s.Canceled, Elsewhere: s.Elsewhere,
	}
	if !front.Options.Search {
		catalog.OnCount(ctx, s.Bridge.Catalog(), warnOfLongList(s.Observer))
	}
	front.Options.Private = s.Private
	if o := &front.Options; m.TaskAfter != "" && o.TaskAfter > o.Wait {
		ctx.Logger().Warn("mcp task_after is longer than wait: calls of clients that take tasks are answered with a task when wait is over",
			zap.Duration("task_after", o.TaskAfter), zap.Duration("wait", o.Wait))
	}
	t := &ToolServer{authorization: told, server: s.Server(front, front.Options.Profile(s.MaxBatch)), requirePrincipal: s.RequirePrincipal}
	for _, text := range m.Origins {
		u, _ := url.Parse(text) // checked before
		t.origins = append(t.origins, u)
	}
	return t, nil
}

// warnOfLongList returns a function that warns once of a list that is too long for one page.
func warnOfLongList(o *observe.Observer) func(ctx context.Context, skills int) {
	var once sync.Once
	return func(ctx context.Context, skills int) {
		if skills+1 > mcp.PageSize { // get_run is a tool, too
			once.Do(func() {
				o.Notice(ctx, &exchange.Notice{
					Level: slog.LevelWarn, Message: "the MCP mount lists more than 100 tools, and clients give a model all of them: consider the option catalog search",
				})
			})
		}
	}
}

// URL returns the URL of the endpoint, as the client of a request sees it.
func (t *ToolServer) URL(r *http.Request) string {
	u := baseOf(r)
	u.Path += t.authorization.path
	return u.String()
}

// NeedsToken reports whether clients have to be given a credential: callers have to authenticate, and the metadata does not say
// where to get a token.
func (t *ToolServer) NeedsToken() bool {
	return t.requirePrincipal && len(t.authorization.issuers) == 0
}

// Serves reports whether a request is for the mount.
func (t *ToolServer) Serves(r *http.Request) bool {
	return strings.TrimSuffix(r.URL.Path, "/") == t.authorization.path || t.authorization.serves(r.URL.Path)
}

// Serve answers a request that is for the mount. The caller is as in the context.
func (t *ToolServer) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if t.authorization.serves(r.URL.Path) {
		t.authorization.serve(w, r)
		return
	}
	if why := t.refuses(r); why != "" {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, why, http.StatusForbidden)
		return
	}
	t.server.Serve(ctx, w, r)
}

// Refuse answers a request with an error of HTTP, without reading its body.
func (t *ToolServer) Refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, status int, reason, field, value string) {
	t.server.Refuse(ctx, w, r, status, reason, field, value)
}

// refuses returns why a request is refused that a web page may have sent without its user's knowledge: it is of another origin,
// or its host name was made to resolve to this machine (DNS rebinding). Empty: it is accepted.
func (t *ToolServer) refuses(r *http.Request) string {
	local := listensLocally(r)
	if origins := r.Header["Origin"]; len(origins) > 0 {
		if len(origins) > 1 || !t.permits(origins[0], r, local) {
			return "Requests of this Origin are refused. The operator of the server can permit it (option origins)."
		}
	}
	if !local || isLoopback(hostOf(r.Host)) {
		return ""
	}
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		return ""
	}
	for _, o := range t.origins {
		if strings.EqualFold(o.Host, r.Host) {
			return ""
		}
	}
	return "Requests for this Host are refused, since the server listens on a loopback address. The operator of the server can permit it (option origins, or trusted_proxies)."
}

// permits reports whether web pages of an origin may send requests.
func (t *ToolServer) permits(origin string, r *http.Request, local bool) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	for _, o := range t.origins {
		if strings.EqualFold(o.Scheme, u.Scheme) && strings.EqualFold(o.Host, u.Host) {
			return true
		}
	}
	return (u.Scheme == "http" || u.Scheme == "https") && (strings.EqualFold(u.Host, r.Host) || local && isLoopback(u.Hostname()))
}

// listensLocally reports whether the listener of a request has a loopback address.
func listensLocally(r *http.Request) bool {
	address, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}

// hostOf returns the host of a Host field without its port.
func hostOf(field string) string {
	u := url.URL{Host: field}
	return u.Hostname()
}

// isLoopback reports whether a host name or address always means the machine of its user.
func isLoopback(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
