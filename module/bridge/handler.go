package bridge

import (
	"context"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/browse"
	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/consent"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/probes"
	"github.com/skill-bridge/caddy-skill-bridge/module/runtokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler lets agents use skills of other services. It serves the Skills Protocol
// (JSON-RPC 2.0 over HTTP POST) and A2A, and is a client of the Skill Sharing Protocol: it finds
// the skills of providers, validates an agent's arguments against their descriptors,
// authenticates, invokes a skill, follows the run to its end and answers with the result.
//
// All configured names of skills, and all namespaces, are unique within a handler.
// Without any provider, skill or registry it has no skills.
//
// By default it connects only to public addresses, only to ports 80 and 443 and those
// written in this configuration, and only over TLS; each option whose name begins with
// `allow_` lifts one of these restrictions.
type Handler struct {
	// A name for this bridge. Runs, run tokens and counts of quotas belong to the name together with
	// `principal`, on all instances, wherever the bridge is. In a configuration, bridges with different
	// options have different names, of which one may be the default; in JSON, those with the same options
	// and no name, too. In a Caddyfile, the default name has the matcher of the directive: `skill_bridge/rpc`. When a bridge gets another name, its earlier tokens become invalid, and its runs are
	// no longer found. No spaces, no control characters, no placeholders, at most 256 bytes. Default:
	// `skill_bridge`. Example: `agents`.
	Name string `json:"name,omitempty"`

	fronts.Mounts

	sources.Sources

	// The caller that invocations name. Default: `skill-bridge`, a `service`: a provider learns
	// only the bridge. Example: `{"id": "{http.auth.user.id}", "type": "user"}`.
	Caller *Caller `json:"caller,omitempty"`

	Callers

	// The highest priority of executions that callers may ask for: `low`, `normal` or `high`. A caller that
	// asks for none gets `normal`, or this one if it is lower. Default: `normal`.
	Priority string `json:"priority,omitempty"`

	// Serve browsers a page that shows the skills and can run them: it answers GET requests
	// that prefer `text/html` to JSON. A caller sees there what `list_skills` and
	// `describe_skill` return. Default: none; all methods but POST are refused. Example: `{}`.
	Browse *browse.Config `json:"browse,omitempty"`

	keeping.Options

	Timing

	// Bounds the cache of documents that describe skills.
	Cache *Cache `json:"cache,omitempty"`

	Bounds

	// Stops requests to hosts of providers that fail, so that calls are answered at once and
	// the provider can recover. Example: `{"failures": 10, "cooldown": "10s"}`.
	CircuitBreaker *CircuitBreaker `json:"circuit_breaker,omitempty"`

	// Log one line for each call (caller, skill, outcome), each secret that was withheld from
	// a host that a document named, and each refused caller. The logger is
	// `http.handlers.skill_bridge.audit`, so that these lines can be kept separately.
	// Default: false.
	Audit bool `json:"audit,omitempty"`

	Network

	endpoints
	logger *zap.Logger
	shared *shared
	usage  *lifetime.Usage
	tokens *runtokens.Tokens
}

// endpoints answer the requests of clients.
type endpoints struct {
	server   *jsonrpc.Server       // of the Skills Protocol
	agent    *fronts.Agent         // nil: A2A is not served
	tools    *fronts.ToolServer    // nil: MCP is not served
	files    *fronts.SkillFiles    // nil: files of Agent Skills are not served
	browser  *browse.Handler       // nil: there is no page
	accounts *credentials.Accounts // nil: there is no database, or no seal_key
	standard *network.Transport    // of sources without the option transport
	connect  *consent.Handler      // nil: there are no pages for users
	shown    *observe.Bridge       // for probes
	// authorization tells callers where they get access tokens.
	authorization *fronts.Authorization
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.skill_bridge",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)

// Check returns the first fault of the configuration that can be found without
// loading modules. The error does not name the member that has the fault.
func (h *Handler) Check() error {
	if fault := h.check(); fault != nil {
		return fault.Err
	}
	return nil
}

// Token returns the run token of a run of a principal, for a program that has the handler in its process.
func (h *Handler) Token(ctx context.Context, ref run.Ref, principal string) (string, error) {
	return h.tokens.Seal(ctx, ref, principal)
}

// Answers reports whether the handler answers a request, and does not pass it on. Warnings about routes ask for it.
func (h *Handler) Answers(r *http.Request) bool {
	return !h.Any() || h.IsRPC(r.URL.Path) || h.Health.Serves(r) || h.connect.Serves(r) || h.authorization.Serves(r) || h.agent != nil && h.agent.Serves(r) || h.tools != nil && h.tools.Serves(r) || h.files != nil && h.files.Serves(r)
}

// ServeHTTP answers a request. If protocols have paths of their own, it passes requests for other paths on to the next handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	toAgent := h.agent != nil && h.agent.Serves(r)
	toTools := h.tools != nil && h.tools.Serves(r)
	toFiles, toUser := h.files != nil && h.files.Serves(r), h.connect.Serves(r)
	if h.Health.Serves(r) {
		probes.Serve(w, r, h.shown)
		return nil
	}
	if h.authorization.Serves(r) {
		h.authorization.Serve(w, r)
		return nil
	}
	if !toAgent && !toTools && !toFiles && !toUser && h.Any() && !h.IsRPC(r.URL.Path) {
		return next.ServeHTTP(w, r)
	}
	arrived := time.Now()
	h.usage.Acquire()
	defer h.usage.Done()
	h.timings.Use()
	lifetime.BeginRequest()
	defer lifetime.EndRequest()
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 && forwarded(r) {
		// The request may also have had a Content-Length, which package net/http then removes. If the proxy used it to
		// find the end of the request, the next bytes on this connection may belong to another client's request
		// (request smuggling, RFC 9112, section 6.1). Without a proxy, all requests of a connection are one client's.
		w.Header().Set("Connection", "close")
	}
	var principal, ambiguous string
	if toUser {
		principal, ambiguous = callers.PrincipalBy(r, h.browsers())
		h.connect.Serve(w, r, principal, ambiguous)
		return nil
	}
	var refused *callers.Refusal
	if h.byToken() {
		principal, refused = h.authenticate(r)
	} else {
		principal, ambiguous = h.principalOf(r)
	}
	if refused == nil && h.browser != nil && r.Method != http.MethodPost && !toAgent && !toTools && !toFiles {
		return h.browser.Serve(r.Context(), w, r, principal, ambiguous)
	}
	caller := run.Caller{Principal: principal, Ambiguous: ambiguous, TraceID: traceID(r.Header["Traceparent"]), Arrived: arrived}
	if refused != nil && caller.TraceID == "" {
		caller.TraceID = translate.NewTraceID() // the lines about the refusal have one
	}
	ctx, served := observe.NewRequest(w, r, caller)
	switch {
	case refused != nil:
		h.refuse(ctx, served.Writer(), r, caller, refused, toAgent, toTools)
	case toTools:
		h.tools.Serve(ctx, served.Writer(), r)
	case toAgent:
		h.agent.Serve(ctx, served.Writer(), r, caller)
	case toFiles:
		h.files.Serve(ctx, served.Writer(), r, caller)
	case h.files != nil:
		h.server.Serve(h.files.Context(ctx, r), served.Writer(), r)
	default:
		h.server.Serve(ctx, served.Writer(), r)
	}
	served.Log(r)
	lifetime.SendAnswer(w)
	return nil
}

// forwarded reports whether a proxy seems to have sent the request: its address is a trusted proxy's, or the request has
// a header field that proxies add, such as Via (RFC 9110, section 7.6.3).
func forwarded(r *http.Request) bool {
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		return true
	}
	for _, name := range []string{"Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-Ip"} {
		if r.Header[name] != nil {
			return true
		}
	}
	return false
}

// traceID returns the trace id of a traceparent header, or nothing unless there is exactly one valid header.
func traceID(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return translate.TraceIDOf(values[0])
}

// Cleanup ends the handler's own use of what it holds. Requests in progress keep theirs.
func (h *Handler) Cleanup() error {
	if h.usage != nil { // else Provision has failed
		h.usage.Leave()
	}
	return nil
}
