package wire

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// The codes of errors (A2A 1.0, section 5.4).
const (
	CodeTaskNotFound           = -32001
	CodeTaskNotCancelable      = -32002
	CodePushNotSupported       = -32003
	CodeUnsupportedOperation   = -32004
	CodeContentTypeUnsupported = -32005
	CodeVersionNotSupported    = -32009
)

// standard has the reason and the message of the standard errors (A2A 1.0, sections 3.3.2 and 9.5).
var standard = map[int]struct{ reason, message string }{
	jsonrpc.CodeParseError:     {"PARSE_ERROR", "Invalid JSON payload"},
	jsonrpc.CodeInvalidRequest: {"INVALID_REQUEST", "Request payload validation error"},
	jsonrpc.CodeMethodNotFound: {"METHOD_NOT_FOUND", "Method not found"},
	jsonrpc.CodeInvalidParams:  {"INVALID_PARAMS", "Invalid parameters"},
	jsonrpc.CodeInternalError:  {"INTERNAL_ERROR", "Internal error"},
	CodeTaskNotFound:           {"TASK_NOT_FOUND", "Task not found"},
	CodeTaskNotCancelable:      {"TASK_NOT_CANCELABLE", "Task cannot be canceled"},
	CodePushNotSupported:       {"PUSH_NOTIFICATION_NOT_SUPPORTED", "Push Notification is not supported"},
	CodeUnsupportedOperation:   {"UNSUPPORTED_OPERATION", "This operation is not supported"},
	CodeContentTypeUnsupported: {"CONTENT_TYPE_NOT_SUPPORTED", "Incompatible content types"},
	CodeVersionNotSupported:    {"VERSION_NOT_SUPPORTED", "A2A version not supported"},
}

// The domains of reasons.
const (
	domainA2A    = "a2a-protocol.org"
	domainBridge = "github.com/skill-bridge"
)

// Bounds of texts in errors, in characters.
const (
	maxMessage   = 1000
	maxQuotation = 200
)

// Message returns the standard message of a code; empty: it has none.
func Message(code int) string { return standard[code].message }

// Error returns an error with facts about it. An empty message stands for the standard one of the code.
func Error(v Version, code int, message string, facts map[string]string) *jsonrpc.Error {
	domain := domainBridge
	if code <= CodeTaskNotFound && code >= CodeVersionNotSupported {
		domain = domainA2A
	}
	w := detailWriter{version: v}
	w.open()
	w.info(standard[code].reason, domain)
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		w.Next()
		w.Buf = append(front.AppendText(w.Buf, name), ':')
		w.Buf = front.AppendText(w.Buf, safetext.Line(facts[name], maxQuotation))
	}
	w.closeInfo()
	w.close()
	return newError(code, message, &w)
}

// InvalidParams returns the error for params with violations. candidates are valid values for the client to choose from; nil:
// none.
func InvalidParams(v Version, message string, violations []Violation, candidates []string) *jsonrpc.Error {
	w := detailWriter{version: v}
	w.open()
	w.badRequest(violations)
	if len(candidates) > 0 {
		w.info(standard[jsonrpc.CodeInvalidParams].reason, domainBridge)
		if v == V10 {
			w.Text("candidates", strings.Join(candidates, ", "))
		} else {
			w.Texts("candidates", candidates)
		}
		w.closeInfo()
	}
	w.close()
	return newError(jsonrpc.CodeInvalidParams, message, &w)
}

// NextGetTask is the next step that clients of A2A have instead of [run.NextFollowRun]: read the task.
const NextGetTask run.Next = "get_task"

// BridgeError returns the error for a failure of the bridge or of a provider. unshown says that the failure is only that a
// task can't be shown now.
func BridgeError(v Version, code int, message string, f *run.Failure, unshown bool) *jsonrpc.Error {
	next := cmp.Or(f.Next(), run.NextNone)
	if unshown || next == run.NextFollowRun {
		next = NextGetTask
	}
	w := detailWriter{version: v}
	w.open()
	name := cmp.Or(string(document.CodeOf(&run.Failure{Kind: f.Kind})), standard[jsonrpc.CodeInternalError].reason) // not the provider's code, which may be any text
	w.info(name, domainBridge)
	w.Text("code", name)
	w.Text("executed", string(cmp.Or(f.Executed, run.ExecutedMaybe)))
	w.Text("next", string(next))
	w.Text("source", string(cmp.Or(f.By, run.Bridge)))
	w.Optional("phase", string(f.Phase))
	w.Optional("skillId", f.SkillID)
	w.Optional("executionId", f.ExecutionID)
	if f.HTTPStatus != 0 {
		w.fact("httpStatus", strconv.AppendInt(nil, int64(f.HTTPStatus), 10))
	}
	if details := front.Details(f); details != nil {
		w.fact("details", details)
		if f.HasProviderText() {
			w.Text("detailsSource", string(run.Provider))
		}
	}
	if retry := front.Retry(f); retry != nil {
		w.fact("retry", retry)
	}
	w.closeInfo()
	w.close()
	return newError(code, message, &w)
}

func newError(code int, message string, w *detailWriter) *jsonrpc.Error {
	if message = safetext.Line(message, maxMessage); strings.TrimSpace(message) == "" {
		message = standard[code].message
	}
	return &jsonrpc.Error{Code: code, Message: message, Data: w.Buf}
}

// detailWriter appends the details of an error: in 1.0 an array of typed objects, whose facts are strings; in older versions
// one object.
type detailWriter struct {
	front.Writer
	version Version
}

func (w *detailWriter) open() {
	if w.version == V10 {
		w.Buf = append(w.Buf, '[')
	} else {
		w.Buf = append(w.Buf, '{')
	}
}

func (w *detailWriter) close() {
	if w.version == V10 {
		w.CloseArray()
	} else {
		w.Close()
	}
}

// info opens a google.rpc.ErrorInfo.
func (w *detailWriter) info(reason, domain string) {
	if w.version != V10 {
		w.Text("reason", reason)
		w.Text("domain", domain)
		return
	}
	w.Open()
	w.Text("@type", "type.googleapis.com/google.rpc.ErrorInfo")
	w.Text("reason", reason)
	w.Text("domain", domain)
	w.OpenMember("metadata")
}

// closeInfo closes the google.rpc.ErrorInfo that info has opened.
func (w *detailWriter) closeInfo() {
	if w.version == V10 {
		w.Close()
		w.Close()
	}
}

// fact adds a JSON value, in 1.0 as a string.
func (w *detailWriter) fact(name string, value []byte) {
	if w.version == V10 {
		w.Text(name, string(value))
	} else {
		w.Raw(name, value)
	}
}

// badRequest adds a google.rpc.BadRequest.
func (w *detailWriter) badRequest(violations []Violation) {
	if w.version == V10 {
		w.Open()
		w.Text("@type", "type.googleapis.com/google.rpc.BadRequest")
	}
	w.OpenArray("fieldViolations")
	for _, v := range violations {
		w.Open()
		w.Text("field", safetext.Line(v.Field, maxMessage))
		w.Text("description", safetext.Line(v.Description, maxMessage))
		w.Close()
	}
	w.CloseArray()
	if w.version == V10 {
		w.Close()
	}
}
