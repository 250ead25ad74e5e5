package publish

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// request is a request for what is published.
type request struct {
	*http.Request
	w       paced
	caller  string // by private_for; empty: anonymous
	handler *Handler
	next    caddyhttp.Handler
	invoked string // the id of the skill, until the end of its invocation is counted
}

// count counts the end of an invocation, once.
func (q *request) count(state run.State, code document.ErrorCode) {
	if q.invoked != "" {
		observe.Published(q.invoked, state, code)
		q.invoked = ""
	}
}

// callerOf returns the value of private_for.
func (h *Handler) callerOf(r *http.Request) string {
	caller, _ := callers.PrincipalBy(r, cmp.Or(h.PrivateFor, callers.DefaultPrincipal))
	return caller
}

// source is whose invocations are bounded together: those of a caller, or of an address.
func (q *request) source() string {
	if q.caller != "" {
		return "caller " + q.caller
	}
	text, _ := caddyhttp.GetVar(q.Context(), caddyhttp.ClientIPVarKey).(string)
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	if network, err := address.Prefix(64); err == nil && address.Is6() && !address.Is4In6() {
		return network.String()
	}
	return address.Unmap().String()
}

// serve answers the request.
func (q *request) serve(c *catalog) {
	rest, ok := strings.CutPrefix(q.URL.Path, q.handler.Path+"/")
	id, isRun := strings.CutPrefix(rest, "runs/")
	name, isDescriptor := strings.CutSuffix(rest, ".json")
	described, invoked := c.skills[name], c.skills[rest]
	switch {
	case !ok, rest == "skills":
		q.serveIndex(c)
	case isRun:
		q.serveRun(c, id)
	case isDescriptor && q.sees(described):
		q.serveDescriptor(c, described)
	case q.sees(invoked) && invoked.Operation != nil:
		if extra, ok := q.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok { // of the access log
			extra.Add(zap.String("skill_id", invoked.ID))
		}
		if q.allows(http.MethodPost) {
			q.invoked = invoked.ID
			q.invoke(c, invoked)
		}
	default:
		q.fail(http.StatusNotFound, document.SkillNotFound, "There is no such skill here; the index is at "+document.WellKnownPath, map[string]string{"skill_id": name})
	}
}

// sees reports whether there is a skill, and the caller may know that.
func (q *request) sees(s *publish.Skill) bool {
	return s != nil && (s.Access != document.Private || q.caller != "")
}

// base returns where the skills are served, as the consumer sees it; ok is false if that is not known.
func (q *request) base() (base string, ok bool) {
	h := q.handler
	if h.URL != "" {
		return h.URL + h.Path, true
	}
	host, port, err := net.SplitHostPort(q.Host)
	if err != nil {
		host, port = q.Host, ""
	}
	local := ""
	if address, ok := q.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		_, local, _ = net.SplitHostPort(address.String())
	}
	host = strings.ToLower(host)
	if (port == "" || port == local) && slices.Contains(h.site().hosts, strings.Trim(host, "[]")) {
		origin := "http://"
		if q.TLS != nil {
			origin = "https://"
		}
		if port != "" {
			host = net.JoinHostPort(host, port)
		}
		return origin + host + h.Path, true
	}
	return "", false
}

// allows reports whether the method is one of some, and otherwise answers.
func (q *request) allows(methods ...string) bool {
	if slices.Contains(methods, q.Method) {
		return true
	}
	q.w.Header().Set("Allow", strings.Join(methods, ", "))
	q.fail(http.StatusMethodNotAllowed, document.ValidationError, "The method has to be "+strings.Join(methods, " or "), nil)
	return false
}

// failure is the error of an answer, or of a run (sections 5.4 and 8.2).
type failure struct {
	Code    document.ErrorCode `json:"code"`
	Message string             `json:"message"`
	Details jsontext.Value     `json:"details,omitzero"`
	Retry   jsontext.Value     `json:"retry,omitzero"`
}

// jsonOptions keep the bytes of raw values.
var jsonOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// refuse answers with an error.
func (q *request) refuse(status int, f *failure) {
	q.count(run.Failed, f.Code)
	q.write(status, struct {
		Error *failure `json:"error"`
	}{f})
}

// fail answers with an error of the publisher. Details may be nil.
func (q *request) fail(status int, code document.ErrorCode, message string, details any) {
	f := &failure{Code: code, Message: message}
	if details != nil {
		f.Details = jsonvalue.Marshal(details)
	}
	q.refuse(status, f)
}

// failForNow is fail for a request that may be sent again after a delay.
func (q *request) failForNow(status int, code document.ErrorCode, message string, delay time.Duration) {
	q.refuse(status, &failure{Code: code, Message: message, Retry: publish.Retry(delay)})
}

// write writes an answer that nothing may keep.
func (q *request) write(status int, value any) {
	text, err := json.Marshal(value, jsonOptions)
	if err != nil { // of an output that is no JSON
		q.handler.logger.Error("an answer can't be encoded", zap.Error(err))
		status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"INTERNAL_ERROR","message":"The publisher failed because of a bug"}}`)
	}
	header := q.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	q.w.WriteHeader(status)
	if q.Method != http.MethodHead {
		_, _ = q.w.Write(text)
	}
}

// paced writes an answer in parts. A client that takes too long to read one is disconnected, since its answer takes memory that others need.
type paced struct {
	http.ResponseWriter
	server *http.Server // nil: it is none of package net/http, such as that of HTTP/3
}

// Unwrap is for [http.ResponseController].
func (w paced) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements [io.Writer].
func (w paced) Write(text []byte) (n int, err error) {
	for part := range slices.Chunk(text, maxPart) {
		if w.server == nil || w.server.WriteTimeout <= 0 { // otherwise it has a deadline
			_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(patience)) // not supported: a handler in front buffers
		}
		written, err := w.ResponseWriter.Write(part)
		if n += written; err != nil { // the client has left
			return n, err
		}
	}
	return n, nil
}
