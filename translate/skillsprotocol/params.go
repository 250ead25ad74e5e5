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

// param is a known member of params.
type param int

const (
	paramUnknown param = iota
	paramName
	paramArgs
	paramVersion
	paramTimeout
	paramPriority
	paramWait
	paramRunToken
	paramBlobs
	paramNamespace
	paramDetail
	paramLimit
	paramCursor
	paramPath
	paramQuery
	paramFormat
	paramUsable
	paramKey
	paramNotify
	paramStatus
	paramSkill
	paramType
	paramNotifyURL
	paramNotifyToken
	paramCount
)

var paramNames = [paramCount]string{
	paramName:      "name",
	paramArgs:      "args",
	paramVersion:   "version",
	paramTimeout:   "timeout_ms",
	paramPriority:  "priority",
	paramWait:      "wait_ms",
	paramRunToken:  "run_token",
	paramBlobs:     "input_blobs",
	paramNamespace: "namespace",
	paramDetail:    "detail",
	paramLimit:     "limit",
	paramCursor:    "cursor",
	paramPath:      "path",
	paramQuery:     "query",
	paramFormat:    "format",
	paramUsable:    "usable",
	paramKey:       keptcalls.ParamKey,
	paramNotify:    "notify",
	paramStatus:    "status",
	paramSkill:     "skill",
	paramType:      "capability_type",

	paramNotifyURL:   inNotify + "url",
	paramNotifyToken: inNotify + "token",
}

// inNotify begins the paths of the members of notify, which are params, too.
const inNotify = "notify."

// knows reports whether a method has a param.
func knows(method string, id param) bool { return slices.Contains(methods[method].params, id) }

// paramOf returns the param with a name in the object of params with a path: empty, or ends in a dot.
func paramOf(in string, name []byte) param {
	for i, n := range paramNames {
		if own, ok := strings.CutPrefix(n, in); ok && own == string(name) && !strings.Contains(own, ".") {
			return param(i)
		}
	}
	return paramUnknown
}

// params are the named params of one request. Each method reads those that it knows.
// The first wrong one sets failure, and its value is the zero value.
type params struct {
	values    [paramCount]jsontext.Value // nil: absent, or null
	arguments []jsonrpc.Member           // members of args, if they are known
	request   *jsonrpc.Request
	ignored   []string         // names of members that the method does not have
	unknown   []string         // names of arguments that the skill does not have, at most maxIgnored
	faults    []string         // what was wrong with the provider's answer
	skill     *translate.Skill // that has unknown arguments
	hinted    bool             // the answer has a hint already
	advice    string           // the hint of the answer; empty: it has none, or another
	failure   *run.Failure     // why the request is answered without calling the bridge
	called    bool             // the bridge was called, so that it reports the call
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
	members := req.Members
	if members == nil { // there are none or too many
		if !req.Params.IsValid(jsontext.AllowDuplicateNames(true)) {
			p.failure = invalidParam("params", reasonInvalid, "params are not a JSON object", nil)
			return p
		}
		members = jsonrpc.MembersOf(req.Params)
	}
	if repeated := p.assign("", members); repeated != "" {
		p.ignored = nil
		name := safetext.Line(repeated, maxName)
		p.failure = invalidParam(name, reasonDuplicate, "'"+name+"' stands in params more than once", nil)
	}
	return p
}

// release frees the memory of all values, before a method waits for a run.
func (p *params) release() {
	p.values, p.arguments = [paramCount]jsontext.Value{}, nil
	p.request.Release()
}

// assign sets the values of the members of the object with a path. It returns the first repeated name, if there is one.
func (p *params) assign(in string, members []jsonrpc.Member) (repeated string) {
	var others map[string]bool // unknown names
	var seen [paramCount]bool
	for _, m := range members {
		name := jsonrpc.Unquote(m.Name)
		id := paramOf(in, name)
		null := jsonrpc.IsNull(m.Value)
		switch {
		case id != paramUnknown && seen[id]:
			return paramNames[id]
		case id != paramUnknown:
			if seen[id] = true; null {
				continue
			}
			p.values[id] = m.Value
			if id == paramArgs {
				p.arguments = m.Members
			}
			if in == "" && !knows(p.request.Method, id) {
				p.ignore(string(name))
			}
			continue
		case in == "" && others[string(name)]:
			return string(name)
		case others == nil:
			others = map[string]bool{}
		}
		others[string(name)] = true
		if !null {
			p.ignore(in + string(name))
		}
	}
	return ""
}

// reject sets the failure, unless another param was rejected before. problem completes a
// sentence that starts with the name of the param.
func (p *params) reject(id param, reason run.Reason, problem string, candidates ...string) {
	if p.failure == nil {
		p.failure = invalidParam(paramNames[id], reason, "'"+paramNames[id]+"' "+problem, candidates)
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
func (p *params) text(id param) string {
	value := p.values[id]
	if value == nil {
		return ""
	}
	if value.Kind() == '"' {
		if s := jsonrpc.Unquote(value); len(s) > 0 {
			return string(s)
		}
	}
	p.reject(id, reasonInvalid, "must be a non-empty string")
	return ""
}

// required returns a string that must not be absent. what describes it for the message.
func (p *params) required(id param, what string) string {
	if p.values[id] == nil {
		p.reject(id, run.Required, "is required: "+what)
	}
	return p.text(id)
}

// oneOf returns one of the choices, or the first if the param is absent.
func (p *params) oneOf(id param, choices ...string) string {
	if p.values[id] == nil {
		return choices[0]
	}
	s := p.text(id)
	if !slices.Contains(choices, s) {
		p.reject(id, reasonInvalid, "must be one of "+strings.Join(choices, ", "), choices...)
	}
	return s
}

// optionalOneOf returns one of the choices, or "" if the param is absent.
func (p *params) optionalOneOf(id param, choices []string) string {
	if p.values[id] == nil {
		return ""
	}
	return p.oneOf(id, choices...)
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
	args := jsonrpc.Object{Text: p.values[paramArgs], Members: p.arguments}
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
func (p *params) boolean(id param) bool {
	value := p.values[id]
	if value == nil {
		return false
	}
	if kind := value.Kind(); kind != 't' && kind != 'f' {
		p.reject(id, reasonInvalid, "must be true or false")
	}
	return value.Kind() == 't'
}

// milliseconds returns a duration, or 0 if it is absent. It may have a fraction. If it is
// too long for a time.Duration, it is the longest one.
func (p *params) milliseconds(id param) time.Duration {
	value := p.values[id]
	if value == nil {
		return 0
	}
	ms, ok := number(value)
	if !ok || ms <= 0 {
		p.reject(id, reasonInvalid, "must be a number of milliseconds greater than 0")
		return 0
	}
	if ns := ms * float64(time.Millisecond); ns < math.MaxInt64 {
		return max(time.Duration(ns), 1) // 0 would mean that it is absent
	}
	return math.MaxInt64
}

// wait returns wait_ms, or nil if it is absent.
func (p *params) wait() *time.Duration {
	value := p.values[paramWait]
	if value == nil {
		return nil
	}
	ms, ok := number(value)
	if !ok || ms < 0 {
		p.reject(paramWait, reasonInvalid, "must be a number of milliseconds, 0 or greater")
		return nil
	}
	wait := time.Duration(math.MaxInt64)
	if ns := ms * float64(time.Millisecond); ns < math.MaxInt64 {
		wait = time.Duration(ns)
	}
	return &wait
}

// integer returns an integer between low and high. If it is absent, integer returns otherwise.
// 50.0 and 5e1 are integers, since JSON has only one kind of number (RFC 8259,
// section 6).
func (p *params) integer(id param, low, high, otherwise int) int {
	value := p.values[id]
	if value == nil {
		return otherwise
	}
	n, ok := number(value)
	if !ok || n != math.Trunc(n) || n < float64(low) || n > float64(high) {
		p.reject(id, reasonInvalid, "must be an integer from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
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
	value := p.values[paramBlobs]
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
		return paramNames[paramName]
	case run.FieldVersion:
		return paramNames[paramVersion]
	case run.FieldInputs:
		return paramNames[paramArgs]
	}
	return a.Name
}
