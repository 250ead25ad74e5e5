package skillsprotocol

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Reasons for which a param is refused.
const (
	reasonInvalid     run.Reason = "invalid"
	reasonDuplicate   run.Reason = "duplicate"
	reasonUnsupported run.Reason = "unsupported"
	reasonUnknown     run.Reason = "unknown" // also for a method that does not exist
)

// The names of params. Those of the members of notify are paths.
const (
	paramName      = "name"
	paramArgs      = "args"
	paramVersion   = "version"
	paramTimeout   = "timeout_ms"
	paramPriority  = "priority"
	paramWait      = "wait_ms"
	paramRunToken  = "run_token"
	paramBlobs     = "input_blobs"
	paramNamespace = "namespace"
	paramDetail    = "detail"
	paramLimit     = "limit"
	paramCursor    = "cursor"
	paramPath      = "path"
	paramQuery     = "query"
	paramFormat    = "format"
	paramUsable    = "usable"
	paramKey       = keptcalls.ParamKey
	paramNotify    = "notify"
	paramStatus    = "status"
	paramSkill     = "skill"
	paramType      = "capability_type"

	inNotify         = "notify."
	paramNotifyURL   = inNotify + "url"
	paramNotifyToken = inNotify + "token"
)

// params are the named params of one request. Each method reads those that it knows.
// The first wrong one sets failure, and its value is the zero value.
type params struct {
	request *jsonrpc.Request
	ignored []string         // names of members that the method does not have
	unknown []string         // names of arguments that the skill does not have, at most maxIgnored
	faults  []string         // what was wrong with the provider's answer
	skill   *translate.Skill // that has unknown arguments
	hinted  bool             // the answer has a hint already
	advice  string           // the hint of the answer; empty: it has none, or another
	failure *run.Failure     // why the request is answered without calling the bridge
	called  bool             // the bridge was called, so that it reports the call
}

// readParams reads the names of params, which must be unique. It does not parse the values,
// which are slices of the request's Params.
func readParams(req *jsonrpc.Request) params {
	p := params{request: req}
	if len(req.Params) == 0 {
		return p
	}
	if req.Params.Kind() != '{' {
		p.failure = invalidParam("params", reasonInvalid, "params must be an object with named members, or be left out", nil)
		return p
	}
	if req.Members == nil && !req.Params.IsValid(jsontext.AllowDuplicateNames(true)) {
		p.failure = invalidParam("params", reasonInvalid, "params are not a JSON object", nil)
		return p
	}
	p.readNames("", jsonrpc.Object{Text: req.Params, Members: req.Members}, methods[req.Method].params)
	return p
}

// readNames reads the names in params or, with a path, in an object of them. They must be unique, and those that are none of known are ignored.
func (p *params) readNames(path string, object jsonrpc.Object, known []string) {
	if repeated, twice := jsonrpc.Repeated(object); twice {
		name := path + safetext.Line(repeated, maxName)
		p.failure = invalidParam(name, reasonDuplicate, "'"+name+"' stands in params more than once", nil)
		return
	}
	for quoted, value := range object.All() {
		own := jsonrpc.Unquote(quoted)
		isKnown := func(name string) bool { return strings.TrimPrefix(name, path) == string(own) }
		if !jsonrpc.IsNull(value) && !slices.ContainsFunc(known, isKnown) {
			p.ignore(path + string(own))
		}
	}
}

// value returns the value of a param; nil: it is absent, or null.
func (p *params) value(name string) jsontext.Value {
	if own, ok := strings.CutPrefix(name, inNotify); ok {
		return jsonrpc.ValueOf(p.value(paramNotify), own)
	}
	return p.request.Param(name).Value
}

// reject sets the failure, unless another param was rejected before. problem completes a
// sentence that starts with the name of the param.
func (p *params) reject(name string, reason run.Reason, problem string, candidates ...string) {
	if p.failure == nil {
		p.failure = invalidParam(name, reason, "'"+name+"' "+problem, candidates)
	}
}

// refusal returns the error of a request that is answered without calling the bridge.
func (p *params) refusal() *jsonrpc.Error { return failureError(p.failure, subject{}) }

// invalidParam returns the failure for a wrong param (Skills Protocol, JSON-RPC
// Conventions, "Standard error codes").
func invalidParam(name string, reason run.Reason, message string, candidates []string) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidArguments, By: run.Bridge, Executed: run.ExecutedNo, Message: invalidParams + message,
		Argument: &run.Argument{Field: run.FieldOther, Name: name, Reason: reason, Candidates: candidates},
	}
}

// text returns a string, or "" if it is absent.
func (p *params) text(name string) string {
	value := p.value(name)
	if value == nil {
		return ""
	}
	if value.Kind() == '"' {
		if s := jsonrpc.Unquote(value); len(s) > 0 {
			return string(s)
		}
	}
	p.reject(name, reasonInvalid, "must be a non-empty string")
	return ""
}

// required returns a string that must not be absent. what describes it for the message.
func (p *params) required(name string, what string) string {
	if p.value(name) == nil {
		p.reject(name, run.Required, "is required: "+what)
	}
	return p.text(name)
}

// oneOf returns one of the choices, or the first if the param is absent.
func (p *params) oneOf(name string, choices ...string) string {
	if p.value(name) == nil {
		return choices[0]
	}
	s := p.text(name)
	if !slices.Contains(choices, s) {
		p.reject(name, reasonInvalid, "must be one of "+strings.Join(choices, ", "), choices...)
	}
	return s
}

// optionalOneOf returns one of the choices, or "" if the param is absent.
func (p *params) optionalOneOf(name string, choices []string) string {
	if p.value(name) == nil {
		return ""
	}
	return p.oneOf(name, choices...)
}

// typeOf returns the capability_type of skills, or "" if it is absent.
func typeOf(p *params) document.CapabilityType {
	choices := make([]string, len(document.CapabilityTypes))
	for i, t := range document.CapabilityTypes {
		choices[i] = string(t)
	}
	return document.CapabilityType(p.optionalOneOf(paramType, choices))
}

// inputs returns args as they were sent.
func (p *params) inputs() jsonrpc.Object {
	given := p.request.Param(paramArgs)
	args := jsonrpc.Object{Text: given.Value, Members: given.Members}
	if args.Text != nil && args.Text.Kind() != '{' {
		problem := "must be an object"
		if args.Text.Kind() == '"' { // models return the arguments of a tool as JSON in a text
			problem += ", not a text: send the JSON in it"
		}
		p.reject(paramArgs, reasonInvalid, problem)
	}
	return args
}

// boolean returns a boolean, or false if it is absent.
func (p *params) boolean(name string) bool {
	value := p.value(name)
	if value == nil {
		return false
	}
	if kind := value.Kind(); kind != 't' && kind != 'f' {
		p.reject(name, reasonInvalid, "must be true or false")
	}
	return value.Kind() == 't'
}

// milliseconds returns a duration of at least so much; nil: it is absent or wrong. kind completes the message, and says
// the same as least: 0 permits 0, a positive one does not.
func (p *params) milliseconds(name string, least time.Duration, kind string) *time.Duration {
	value := p.value(name)
	if value == nil {
		return nil
	}
	ms, ok := number(value)
	if !ok || ms < 0 || ms == 0 && least > 0 {
		p.reject(name, reasonInvalid, "must be a number of milliseconds"+kind)
		return nil
	}
	d := time.Duration(math.MaxInt64)
	if ns := ms * float64(time.Millisecond); ns < math.MaxInt64 {
		d = max(time.Duration(ns), least)
	}
	return &d
}

// wait returns how long the caller waits for the end of the run; nil: to its end.
func (p *params) wait() *time.Duration { return p.milliseconds(paramWait, 0, ", 0 or greater") }

// integer returns an integer between low and high. If it is absent, integer returns otherwise.
// 50.0 and 5e1 are integers, since JSON has only one kind of number (RFC 8259,
// section 6).
func (p *params) integer(name string, low, high, otherwise int) int {
	value := p.value(name)
	if value == nil {
		return otherwise
	}
	n, ok := number(value)
	if !ok || n != math.Trunc(n) || n < float64(low) || n > float64(high) {
		p.reject(name, reasonInvalid, "must be an integer from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
		return otherwise
	}
	return int(n)
}

// number returns a JSON number. If it is too large, it is infinity.
func number(value jsontext.Value) (float64, bool) {
	if value.Kind() != '0' {
		return 0, false
	}
	n, _ := strconv.ParseFloat(string(value), 64) // valid JSON can only be out of range
	return n, true
}

// noBlobs rejects blobs, which the Skill Sharing Protocol does not have.
func (p *params) noBlobs() {
	value := p.value(paramBlobs)
	switch {
	case value == nil:
	case value.Kind() != '[':
		p.reject(paramBlobs, reasonInvalid, "must be an array")
	case len(bytes.TrimSpace(value[1:len(value)-1])) > 0:
		p.reject(paramBlobs, reasonUnsupported, "is not supported by this bridge: put the data into args")
	}
}

// cursorVersion is the first byte of a cursor, so that its format can change.
const cursorVersion = 1

// cursor returns the name after which a page starts, or "" for the first page.
func (p *params) cursor() string {
	text := p.text(paramCursor)
	if text == "" {
		return ""
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 2 || raw[0] != cursorVersion || !utf8.Valid(raw) {
		p.rejectCursor()
		return ""
	}
	return string(raw[1:])
}

func (p *params) rejectCursor() {
	p.reject(paramCursor, reasonInvalid, "must be the next_cursor of an earlier answer; leave it out to start from the beginning")
}

// cursorAfter returns the cursor of the page that starts after a name. It has the name and
// not an index, since skills may be added or removed between pages.
func cursorAfter(name string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorVersion}, name...))
}

// Param returns the name of the param for an argument.
func Param(a *run.Argument) string {
	switch a.Field {
	case run.FieldSkill:
		return paramName
	case run.FieldVersion:
		return paramVersion
	case run.FieldInputs:
		return paramArgs
	}
	return a.Name
}
