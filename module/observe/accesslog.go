package observe

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Request collects the fields about the calls of a request for its line in Caddy's access log.
type Request struct {
	calls servedCalls
	to    answerWriter
}

// NewRequest returns the context for the calls of a request, and adds the placeholders about them to the request's
// replacer. Write the answer to the Writer of the returned Request.
func NewRequest(w http.ResponseWriter, r *http.Request, caller run.Caller) (context.Context, *Request) {
	served := &Request{to: answerWriter{w, r.Context()}}
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(served.calls.placeholder)
	}
	return context.WithValue(translate.WithCaller(r.Context(), caller), servedCallsKey{}, &served.calls), served
}

// Writer returns the writer for the answer.
func (c *Request) Writer() http.ResponseWriter { return &c.to }

// answerWriter writes an answer. If the client has left, the access log shows
// statusCallerGone instead of a status that no client has seen.
type answerWriter struct {
	http.ResponseWriter
	client context.Context //nolint:containedctx // of the request, which ends when the client goes
}

// statusCallerGone is the status that Caddy's reverse_proxy logs, too, when the client has left.
const statusCallerGone = 499

// WriteHeader implements http.ResponseWriter.
func (w *answerWriter) WriteHeader(status int) {
	if w.client.Err() != nil {
		status = statusCallerGone
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type servedCallsKey struct{}

// servedCalls are the calls of one HTTP request.
type servedCalls struct {
	mu    sync.Mutex // those of a batch end at the same time
	count int
	first servedCall
}

type servedCall struct {
	method, source, skill, outcome, executionID, task, traceID string
	left                                                       bool // its run goes on
}

func (s *servedCalls) add(c *translate.Call, o *run.Run, stats *translate.Statistics) {
	call := servedCall{method: c.Method, source: stats.Source, skill: o.SkillID, outcome: outcomeOf(o, stats), task: taskOf(c), traceID: c.TraceID}
	if o.State != 0 {
		call.executionID = o.ExecutionID
	}
	s.note(call)
}

func (s *servedCalls) note(call servedCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.left && s.first.task == call.task { // its run has ended before the request was logged
		s.first = call
		return
	}
	if s.count++; s.count == 1 {
		s.first = call
	}
}

// Log adds the calls to the access log.
func (c *Request) Log(r *http.Request) {
	extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if server, served := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); !ok || !served || server.Logs == nil {
		return // there is no access log
	}
	for _, f := range c.calls.fields("skill_bridge_") {
		extra.Add(f)
	}
}

// fields returns the fields, whose names begin with a prefix. For a batch, they describe the
// call that ended first and the number of calls.
func (s *servedCalls) fields(prefix string) []zap.Field {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return nil
	}
	fields := make([]zap.Field, 0, 8)
	for _, f := range s.first.texts() {
		if f.value != "" {
			fields = append(fields, zap.String(prefix+f.name, f.value))
		}
	}
	if s.count > 1 {
		fields = append(fields, zap.Int(prefix+"calls", s.count))
	}
	return fields
}

// texts returns what is known of the call, with its names in logs.
func (c *servedCall) texts() []struct{ name, value string } {
	return []struct{ name, value string }{
		{"method", c.method},
		{"source", c.source},
		{"skill", safetext.Field(c.skill, MaxLogged)},
		{"outcome", c.outcome},
		{"execution_id", safetext.Field(c.executionID, MaxLogged)},
		{"task", c.task},
		{"trace_id", c.traceID},
	}
}

// placeholders are the placeholders about a call, with their names in logs.
var placeholders = map[string]string{"source": "source", "skill": "skill", "outcome": "outcome", "run_id": "execution_id"}

// placeholder returns the value of a placeholder about the call, as the access log has it. Without a call, and for a
// batch of several, whose calls differ, it is empty.
func (s *servedCalls) placeholder(key string) (any, bool) {
	name, ok := strings.CutPrefix(key, "http.skill_bridge.")
	if name = placeholders[name]; !ok || name == "" {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var call servedCall
	if s.count == 1 {
		call = s.first
	}
	i := slices.IndexFunc(call.texts(), func(f struct{ name, value string }) bool { return f.name == name })
	return call.texts()[i].value, true
}
