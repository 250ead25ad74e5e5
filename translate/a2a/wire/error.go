package wire

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
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

// maxMessage bounds texts in errors, in characters.
const maxMessage = 1000

// Message returns the standard message of a code; empty: it has none.
func Message(code int) string { return standard[code].message }

// Error returns an error with facts about it. An empty message stands for the standard one of the code.
func Error(v Version, code int, message string, facts map[string]string) *jsonrpc.Error {
	domain := domainBridge
	if code <= CodeTaskNotFound && code >= CodeVersionNotSupported {
		domain = domainA2A
	}
	return newError(v, code, message, nil, standard[code].reason, domain, func(w *factWriter) { w.texts(facts) })
}

// Older returns an error in the form of 1.0, with nothing but facts, in that of another version.
func Older(v Version, e *jsonrpc.Error) *jsonrpc.Error {
	var info [1]struct {
		Reason   string            `json:"reason"`
		Domain   string            `json:"domain"`
		Metadata map[string]string `json:"metadata"`
	}
	if v == V10 || json.Unmarshal(e.Data, &info) != nil {
		return e
	}
	own := *e
	own.Data = newError(v, e.Code, "", nil, info[0].Reason, info[0].Domain, func(w *factWriter) { w.texts(info[0].Metadata) }).Data
	return &own
}

// InvalidParams returns the error for params with violations. candidates are valid values for the client to choose from; nil:
// none.
func InvalidParams(v Version, message string, violations []Violation, candidates []string) *jsonrpc.Error {
	reason := ""
	if len(candidates) > 0 {
		reason = standard[jsonrpc.CodeInvalidParams].reason
	}
	return newError(v, jsonrpc.CodeInvalidParams, message, append([]Violation{}, violations...), reason, domainBridge, func(w *factWriter) {
		if v == V10 {
			w.Text("candidates", strings.Join(candidates, ", "))
		} else {
			w.Texts("candidates", candidates)
		}
	})
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
	name := cmp.Or(string(document.CodeOf(&run.Failure{Kind: f.Kind})), standard[jsonrpc.CodeInternalError].reason) // not the provider's code, which may be any text
	return newError(v, code, message, nil, name, domainBridge, func(w *factWriter) {
		w.Text("code", name)
		w.Text("executed", string(cmp.Or(f.Executed, run.ExecutedMaybe)))
		w.Text("next", string(next))
		w.Text("source", string(cmp.Or(f.By, run.Bridge)))
		w.Optional("phase", string(f.Phase))
		w.Optional("skillId", f.SkillID)
		w.Optional("executionId", f.ExecutionID)
		if f.HTTPStatus != 0 {
			w.value("httpStatus", strconv.AppendInt(nil, int64(f.HTTPStatus), 10))
		}
		details := front.Details(f)
		w.value("details", details)
		if details != nil && f.HasProviderText() {
			w.Text("detailsSource", string(run.Provider))
		}
		w.value("retry", front.Retry(f))
	})
}

// newError returns an error with details: in 1.0 an array of typed objects, whose facts are strings; in older versions one object. If violations are not nil,
// they are a google.rpc.BadRequest, and with a reason, there is a google.rpc.ErrorInfo.
func newError(v Version, code int, message string, violations []Violation, reason, domain string, facts func(*factWriter)) *jsonrpc.Error {
	w := factWriter{version: v}
	begin := func(kind string) {
		if v == V10 {
			w.Open()
			w.Text("@type", "type.googleapis.com/google.rpc."+kind)
		}
	}
	end := func() {
		if v == V10 {
			w.Close()
		}
	}
	brackets := "{}"
	if v == V10 {
		brackets = "[]"
	}
	w.Buf = append(w.Buf, brackets[0])
	if violations != nil {
		begin("BadRequest")
		w.OpenArray("fieldViolations")
		for _, v := range violations {
			w.Open()
			w.Text("field", safetext.Line(v.Field, maxMessage))
			w.Text("description", safetext.Line(v.Description, maxMessage))
			w.Close()
		}
		w.CloseArray()
		end()
	}
	if reason != "" {
		begin("ErrorInfo")
		w.Text("reason", reason)
		w.Text("domain", domain)
		if v == V10 {
			w.OpenMember("metadata")
		}
		facts(&w)
		end()
		end()
	}
	w.Buf = append(w.Buf, brackets[1])
	if message = safetext.Line(message, maxMessage); strings.TrimSpace(message) == "" {
		message = standard[code].message
	}
	return &jsonrpc.Error{Code: code, Message: message, Data: w.Buf}
}

// factWriter appends the facts about an error.
type factWriter struct {
	front.Writer
	version Version
}

// texts adds texts, sorted by name.
func (w *factWriter) texts(facts map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		w.Text(name, task.Quoted(facts[name]))
	}
}

// value adds a JSON value unless it is empty, in 1.0 as a string.
func (w *factWriter) value(name string, value jsontext.Value) {
	if w.version == V10 {
		w.Optional(name, string(value))
	} else {
		w.Raw(name, value)
	}
}
