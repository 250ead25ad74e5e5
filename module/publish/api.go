package publish

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// ask sends a request to the API, which is behind the next handler, and returns what its answer means.
func (x *execution) ask(ctx context.Context, r *http.Request) *publish.Result {
	go func() {
		select {
		case <-lifetime.Stopped():
			x.cancel(errLost)
		case <-ctx.Done():
		}
	}()
	o, w := x.skill.Operation, &recorder{header: http.Header{}, of: x}
	r = x.prepare(r, w)
	err := x.guarded(func() error { return x.next.ServeHTTP(w, r) })
	switch cause := context.Cause(ctx); {
	case w.full:
		return publish.Failed(document.RateLimited, "The operation was executed, but the publisher has no memory for its answer at the moment", nil)
	case errors.Is(cause, errLate):
		result := publish.Failed(document.InvocationTimeout, "The operation was not answered in time; it may have been executed", nil)
		result.State = run.TimedOut
		return result
	case errors.Is(cause, errLost):
		result := publish.Failed(codeLost, "The publisher has stopped before the operation was answered; it may have been executed", nil)
		result.State = run.Lost
		return result
	case len(w.body) > publish.MaxAnswer: // so that err says only that it was not read
	case err != nil:
		status, cause := http.StatusInternalServerError, err
		if refusal, ok := errors.AsType[caddyhttp.HandlerError](err); ok && refusal.StatusCode > 0 {
			status, cause = refusal.StatusCode, cmp.Or(refusal.Err, err) // err has a random id
		}
		if status >= http.StatusInternalServerError { // else a handler of the API refuses the request
			x.handler.shared.warnings.Warn("the API can't be asked", cause, zap.String("skill_id", x.skill.ID), zap.Int("status", status))
		}
		if _, unsent := errors.AsType[reverseproxy.DialError](err); unsent {
			result := o.Result(http.StatusServiceUnavailable, http.Header{"Retry-After": {"2"}}, nil)
			result.Failure.Message = "The API can't be reached; nothing was sent to it"
			return result
		}
		result := o.Result(status, nil, nil)
		if status >= http.StatusInternalServerError && result.Refused == 0 {
			result.Failure.Message = "The API gave no whole answer; the operation may have been executed"
		}
		return result
	case w.status == 0 && caddyhttp.GetVar(r.Context(), "unhandled") != nil:
		x.handler.shared.warnings.Warn("no handler behind "+directive+" answers the request of an operation", nil, zap.String("skill_id", x.skill.ID), zap.String("path", r.URL.Path))
		return o.Result(http.StatusNotFound, nil, nil)
	}
	return o.Result(cmp.Or(w.status, http.StatusOK), w.header, w.body)
}

// guarded calls a function that may panic, as handlers do when an answer breaks off. Without a request, that would end the process.
func (x *execution) guarded(call func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if err = caddyhttp.Error(http.StatusBadGateway, errors.New("the answer breaks off")); value != http.ErrAbortHandler { //nolint:errorlint // as package net/http compares it
			x.handler.logger.Error("panic", zap.Any("panic", value), zap.ByteString("stack", debug.Stack()))
		}
	}()
	return call()
}

// prepare makes a request one for Caddy's handlers, which comes from the same client, and may outlive the request of its caller. It has what the
// handlers in front have found out, such as placeholders about the user, but variables of its own.
func (x *execution) prepare(r *http.Request, w http.ResponseWriter) *http.Request {
	from := x.Request
	r.Host, r.RemoteAddr, r.TLS, r.Proto, r.ProtoMajor, r.ProtoMinor = from.Host, from.RemoteAddr, from.TLS, "HTTP/1.1", 1, 1
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"} { // which handlers of the API take from trusted proxies
		if values := from.Header.Values(name); values != nil {
			r.Header[name] = values
		}
	}
	server, _ := from.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	replacer := caddy.NewReplacer()
	r = caddyhttp.PrepareRequest(r, replacer, w, server)
	if before, ok := from.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(before.Get)
	}
	before, _ := from.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	maps.Copy(r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any), before) //nolint:forcetypeassert // PrepareRequest has set it
	return r
}

// recorder keeps the answer of the API, up to one byte more than what is too large.
type recorder struct {
	header http.Header
	status int // 0: there is none yet
	body   []byte
	of     *execution
	full   bool // there is no memory for the body
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Interim answers are left out.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(part []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	part = part[:min(len(part), publish.MaxAnswer+1-len(w.body))]
	w.body = append(w.body, part...)
	if w.full = !w.of.memory.Set(w.of.size + int64(cap(w.body))); w.full || len(w.body) > publish.MaxAnswer {
		w.of.cancel(errLarge)
		return 0, errLarge
	}
	return len(part), nil
}

// Flush implements http.Flusher, for answers that come in parts.
func (w *recorder) Flush() {}
