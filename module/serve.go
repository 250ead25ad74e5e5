package skillbridge

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// ServeHTTP answers every request; it never calls the next handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	arrived := time.Now()
	h.usage.acquire()
	defer h.usage.done()
	h.book.use(h.storage)
	exit.enter()
	defer exit.leave()
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// Package net/http does not tell whether there was a Content-Length, too, by which a proxy in front may have
		// gone: what follows the request on this connection is not to be believed (RFC 9112, section 6.1).
		w.Header().Set("Connection", "close")
	}
	principal := h.principalOf(r)
	if h.browser != nil && r.Method != http.MethodPost {
		return h.browser.serve(r.Context(), w, r, principal)
	}
	ctx := &requestContext{CallerContext: skillsprotocol.CallerContext{Context: r.Context(), Caller: skillsprotocol.Caller{
		Principal: principal,
		TraceID:   traceID(r.Header["Traceparent"]),
		Arrived:   arrived,
	}}}
	ctx.to = answerWriter{w, r.Context()}
	h.server.Serve(ctx, &ctx.to, r)
	ctx.calls.addTo(r)
	return nil
}

// principalOf returns who is asking; empty is anonymous.
func (h *Handler) principalOf(r *http.Request) string {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	if h.principal == defaultPrincipal {
		id, _ := replacer.GetString("http.auth.user.id") // there is nothing to replace around it
		return strings.TrimSpace(id)
	}
	return strings.TrimSpace(replacer.ReplaceAll(h.principal, ""))
}

// traceID returns the trace id of a traceparent header (W3C Trace Context,
// section 3.2), or nothing where there is not exactly one valid header.
func traceID(values []string) string {
	if len(values) != 1 {
		return ""
	}
	fields := strings.Split(values[0], "-")
	if len(fields) != 4 || fields[0] != "00" || !isHex(fields[1], 32) || !isHex(fields[2], 16) || !isHex(fields[3], 2) {
		return ""
	}
	if strings.Trim(fields[1], "0") == "" || strings.Trim(fields[2], "0") == "" {
		return ""
	}
	return fields[1]
}

// isHex reports whether text has the given length and only digits and the
// letters a to f.
func isHex(text string, length int) bool {
	return len(text) == length && strings.Trim(text, "0123456789abcdef") == ""
}

// logRefused tells the operator of callers without a principal: it may be his
// placeholder that is wrong.
func (h *Handler) logRefused(o translate.Observer) func(context.Context, string) {
	a := newAudit(h.logger, h.Audit)
	return func(ctx context.Context, method string) {
		a.refused(method)
		o.Notice(ctx, &skillsharing.Notice{
			Level:   slog.LevelWarn,
			Message: "a caller was refused: require_principal is set and the principal is empty",
			Attrs:   []slog.Attr{slog.String("principal", h.principal), slog.String("method", method)},
		})
	}
}

// logPanic reports a bug.
func (h *Handler) logPanic(_ context.Context, value any, stack []byte) {
	h.logger.Error("panic while serving a call; this is a bug, please report it",
		zap.Any("panic", value), zap.ByteString("stack", stack))
}

// Cleanup gives up what the handler holds. Requests that are still being served
// go on undisturbed.
func (h *Handler) Cleanup() error {
	if h.usage != nil { // else Provision has failed
		h.usage.leave()
	}
	if h.stopped != nil {
		h.stopped()
	}
	return nil
}
