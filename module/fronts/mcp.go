package fronts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// MCP is the mount of MCP (Model Context Protocol).
type MCP struct {
	// The path of the endpoint. Default: `/mcp`.
	Path string `json:"path,omitempty" option:"-"`

	// The server's name for programs. Default: `skill-bridge`.
	Name string `json:"name,omitempty"`

	// Instructions for the model of a client. Default: a sentence with the namespaces.
	Instructions string `json:"instructions,omitempty"`

	// The versions of MCP that are served. Default: `2026-07-28`, `2025-11-25`, `2025-06-18` and `2025-03-26`.
	Versions []string `json:"versions,omitempty"`

	// How long a call of a client that supports tasks waits before it is answered with a task; `off`: there are no tasks. Default: `2s`.
	TaskAfter string `json:"task_after,omitempty"`

	// Whether outputs are checked against the schemas that their providers publish: `on` or `off`. With `off`, the schemas are not
	// listed. Default: `on`.
	Validate string `json:"validate,omitempty"`

	// What `tools/list` has: a tool for each skill (`list`), or only tools with which a model searches skills, reads their
	// descriptions and calls them (`search`). Choose `search` if there are more than about 100 skills, since clients give a model all
	// listed tools. Default: `list`.
	Catalog string `json:"catalog,omitempty"`

	// Origins of web pages that may send requests, besides that of the endpoint itself, such as `https://app.example.com`. Their
	// hosts are also accepted in the Host field on a loopback listener. Default: none.
	Origins []string `json:"origins,omitempty"`

	// Issuers of the access tokens that callers may have, such as `https://login.example.com`. Clients find them in metadata (RFC 9728)
	// below `/.well-known/oauth-protected-resource`, to which the 401 answers of this mount point. A handler in front has to check the
	// tokens, unless `callers_jwt` does, whose issuers are in the metadata without this option. Default: none.
	AuthorizationServer []string `json:"authorization_server,omitempty"`

	// Scopes that clients ask the authorization servers for. Default: those of `callers_jwt`, if it has one issuer.
	Scopes []string `json:"scopes,omitempty"`
}

const (
	defaultMCPPath = "/mcp"
	defaultMCPName = "skill-bridge"
	on             = "on"
	off            = "off"

	catalogList   = "list"
	catalogSearch = "search"
)

// path returns the path of the mount, without a slash at its end; empty: there is none.
func (m *MCP) path() string {
	if m == nil {
		return ""
	}
	return strings.TrimSuffix(cmp.Or(m.Path, defaultMCPPath), "/")
}

// Read reads the option mcp.
func (m *MCP) Read(r *options.Reader) error {
	return r.BlockWith("mcp", "mcp", "optionally a path", 0, m, nil, &m.Path)
}

// check checks the options.
func (m *MCP) check(c *options.Checker) {
	c.Check("mcp.path", checkPath(m.Path))
	for i, v := range m.Versions {
		if !slices.Contains(mcp.AllVersions(), v) {
			c.Check(options.Element("mcp.versions", i), fmt.Errorf("version %q is none of %s", v, strings.Join(mcp.AllVersions(), ", ")))
		}
	}
	_, err := m.taskAfter()
	c.Check("mcp.task_after", err)
	oneOf(c, "mcp.catalog", "catalog", m.Catalog, catalogList, catalogSearch)
	oneOf(c, "mcp.validate", "validate", m.Validate, on, off)
	for i, o := range m.Origins {
		c.Check(options.Element("mcp.origins", i), checkOrigin(o))
	}
	for i, text := range m.AuthorizationServer {
		c.Check(options.Element("mcp.authorization_server", i), options.CheckIssuer("authorization_server", text))
	}
	for i, scope := range m.Scopes {
		c.Check(options.Element("mcp.scopes", i), options.CheckScope(scope))
	}
}

// taskAfter returns how long a call waits before it is answered with a task; negative: there are no tasks.
func (m *MCP) taskAfter() (time.Duration, error) {
	switch m.TaskAfter {
	case "":
		return mcp.DefaultTaskAfter, nil
	case off:
		return -1, nil
	}
	d, err := caddy.ParseDuration(m.TaskAfter)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("task_after %q is no duration of 0 or more, and not off", m.TaskAfter)
	}
	return d, nil
}

// checkOrigin checks an origin (RFC 6454, section 6.2).
func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("origin " + text + " is not a scheme and a host, such as https://app.example.com")
	}
	return nil
}

// options returns the options of the front.
func (m *MCP) options(wait time.Duration, namespaces []string) mcp.Options {
	after, _ := m.taskAfter() // checked before
	o := mcp.Options{
		Name: cmp.Or(m.Name, defaultMCPName), Instructions: m.Instructions, Version: ModuleVersion(),
		Versions: mcp.AllVersions(), Wait: wait, TaskAfter: after,
		Validate: m.Validate != off, Search: m.Catalog == catalogSearch,
	}
	if o.Instructions == "" && len(namespaces) > 0 {
		o.Instructions = "Tools of " + strings.Join(namespaces[:min(len(namespaces), 20)], ", ") + ". "
		if o.Search {
			o.Instructions += "Find a skill with search_skills, read how to use it with describe_skill, and run it with call_skill. "
		}
		o.Instructions += "A call that takes long is answered with a run_token: follow it with get_run instead of calling the tool again."
	}
	if len(m.Versions) > 0 {
		o.Versions = slices.DeleteFunc(o.Versions, func(v string) bool { return !slices.Contains(m.Versions, v) })
	}
	return o
}

// ToolServer serves the mount of MCP.
type ToolServer struct {
	*jsonrpc.Server

	path       string
	origins    []*url.URL
	needsToken bool
}

// Serve returns the mount of MCP.
func (m *MCP) Serve(ctx caddy.Context, s *Setup, questions *runtoken.Sealer) (*ToolServer, error) {
	stopping := lifetime.Stopping(ctx)
	namespaces := []string{"other services"}
	if s.Bridge.Catalog().Policy() == nil { // else they depend on the caller
		namespaces = s.Bridge.Namespaces("")
	}
	tools := &mcp.Front{
		Bridge: s.Bridge, Tokens: s.Tokens, Options: m.options(s.Wait, namespaces), RequirePrincipal: s.RequirePrincipal,
		Refused: s.Refused, Streaming: s.Observer.Streaming, Stopping: stopping, Panicked: s.Observer.Panicked,
		Challenge: s.Authorization.challenge, Canceled: s.Canceled, Elsewhere: s.Elsewhere,
	}
	if s.Bridge.Catalog().Personal {
		tools.Questions = questions
	}
	if !tools.Options.Search {
		catalog.OnCount(ctx, s.Bridge.Catalog(), warnOfLongList(s.Observer))
	}
	tools.Options.Private = s.Private
	if o := &tools.Options; m.TaskAfter != "" && o.TaskAfter > o.Wait {
		ctx.Logger().Warn("mcp task_after is longer than wait: calls of clients that take tasks are answered with a task when wait is over",
			zap.Duration("task_after", o.TaskAfter), zap.Duration("wait", o.Wait))
	}
	t := &ToolServer{
		Server: s.Server(tools.ServeRPC, tools.Options.Profile(s.MaxBatch)), path: m.path(), needsToken: s.RequirePrincipal && len(s.Authorization.issuers) == 0,
	}
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
func (t *ToolServer) URL(r *http.Request) string { return urlOf(r, t.path) }

// NeedsToken reports whether clients have to be given a credential: callers have to authenticate, and the metadata does not say
// where to get a token.
func (t *ToolServer) NeedsToken() bool { return t.needsToken }

// Serves reports whether a request is for the mount.
func (t *ToolServer) Serves(r *http.Request) bool {
	return strings.TrimSuffix(r.URL.Path, "/") == t.path
}

// Serve answers a request that is for the mount. The caller is as in the context.
func (t *ToolServer) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if why := t.refuses(r); why != "" {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, why, http.StatusForbidden)
		return
	}
	t.Server.Serve(ctx, w, r)
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
	if !local || options.IsLoopback((&url.URL{Host: r.Host}).Hostname()) {
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
	return (u.Scheme == "http" || u.Scheme == "https") && (strings.EqualFold(u.Host, r.Host) || local && options.IsLoopback(u.Hostname()))
}

// listensLocally reports whether the listener of a request has a loopback address.
func listensLocally(r *http.Request) bool {
	address, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}
