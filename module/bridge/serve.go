package bridge

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Answers reports whether the handler answers a request, and does not pass it on. Warnings about routes ask for it.
func (h *Handler) Answers(r *http.Request) bool {
	return !h.Any() || h.IsRPC(r.URL.Path) || h.agent != nil && h.agent.Serves(r) || h.tools != nil && h.tools.Serves(r) || h.files != nil && h.files.Serves(r)
}

// ServeHTTP answers a request. If protocols have paths of their own, it passes requests for other paths on to the next handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	toAgent := h.agent != nil && h.agent.Serves(r)
	toTools := h.tools != nil && h.tools.Serves(r)
	toFiles := h.files != nil && h.files.Serves(r)
	if !toAgent && !toTools && !toFiles && h.Any() && !h.IsRPC(r.URL.Path) {
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
	var refused *noKey
	if h.keys != nil {
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
