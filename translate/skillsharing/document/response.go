package document

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// Response is an InvocationResponse (section 5.4). Only the status is required
// and, if the run has not ended, the execution id.
type Response struct {
	ExecutionID string
	State       run.State
	SkillID     string
	Output      jsontext.Value // nil: there is no such member; "null" is an output
	Error       *RunError      // why the run failed; nil: the provider has not said
	// Elapsed is the time between the run's creation and completion by the provider's clock; 0: not known.
	Elapsed time.Duration
	// RetryAfter is how long the provider asks to wait before the next request.
	RetryAfter time.Duration
	// NotBefore is the earliest time at which the provider asks to be asked again about a run that no caller waits for;
	// zero: it has not said.
	NotBefore time.Time
	// Warnings say what was wrong with the JSON of the answer, and how it was read nevertheless.
	Warnings []string
	// HTTPStatus is the status of the answer. It does not decide about the run; a 401 or 403 does about the credential.
	HTTPStatus int
}

// RunError is the error member of a [Response].
type RunError struct {
	Code    string
	Message string
	Details jsontext.Value // nil: none
	Retry   jsontext.Value // nil: none
}

// Members are the top-level members of an answer that have a meaning in an
// InvocationResponse or a unified error.
type Members struct {
	Valid       bool // the body is one JSON value
	Deeper      bool // the body nests too deep to be read
	Status      jsontext.Value
	executionID jsontext.Value
	skillID     jsontext.Value
	output      jsontext.Value
	failure     jsontext.Value
	timestamps  jsontext.Value
}

// ParseMembers reads the members of a body. A body that is not a JSON object, or in which objects and arrays nest deeper than depth, has none.
func ParseMembers(body []byte, depth int) (m Members) {
	body = WithoutBOM(body)
	reader := strictjson.Borrow(body, depth, false)
	defer reader.GiveBack()
	if m.read(reader); m.Valid {
		return m
	}
	if jsonrpc.Deeper(body, depth) {
		return Members{Deeper: true}
	}
	if strictjson.Fault(body, false) == nil { // there are names with escape sequences
		again := strictjson.Borrow(body, depth, true)
		defer again.GiveBack()
		m.read(again)
	}
	return m
}

// read reads the whole body. If it is not valid, there are no members.
func (m *Members) read(from *strictjson.Reader) {
	*m = Members{}
	if from.Kind() == '{' && from.Bracket() {
		for from.More() {
			name := from.Value()
			if name == nil {
				break
			}
			if field, value := m.field(name), from.Value(); field != nil {
				*field = value
			}
		}
		from.Bracket()
	} else {
		from.Value()
	}
	if m.Valid = from.End(); !m.Valid {
		*m = Members{}
	}
}

// field returns where to store the value of the member with a name; nil: the member has no meaning.
func (m *Members) field(name jsontext.Value) *jsontext.Value {
	switch string(jsonrpc.Unquote(name)) {
	case "status":
		return &m.Status
	case "execution_id":
		return &m.executionID
	case "skill_id":
		return &m.skillID
	case "output":
		return &m.output
	case "error":
		return &m.failure
	case "timestamps":
		return &m.timestamps
	}
	return nil
}

// Response returns the InvocationResponse that has these members.
// It returns nil if they are not an InvocationResponse, or one about another run;
// otherRun tells these cases apart.
func (m *Members) Response(about Asked) (r *Response, otherRun bool) {
	state := StateOf(m.Status)
	if state == 0 {
		return nil, false
	}
	id, ok := m.answeredID(about.ExecutionID)
	if !ok {
		return nil, true
	}
	r = &Response{ExecutionID: id, State: state, Output: m.output}
	if r.ExecutionID == "" && !r.State.Ended() {
		return nil, false // it does not name its run
	}
	r.SkillID, _ = Text(m.skillID)
	r.Elapsed = elapsed(m.timestamps)
	if r.State == run.Failed || r.State == run.TimedOut {
		r.Error = m.RunError()
	}
	return r, false
}

// BareOutput returns the response for the short form of a result: an object
// with an output, and without a status or an error. It returns nil if the
// members are not that.
func (m *Members) BareOutput(knownID string) *Response {
	id, ok := m.answeredID(knownID)
	if m.output == nil || m.Status != nil || m.failure != nil && m.failure.Kind() != 'n' || !ok {
		return nil
	}
	return &Response{ExecutionID: id, State: run.Completed, Output: m.output}
}

// answeredID returns the id of the run that an answer is about; empty: it has
// none, and none is known. If the answer may be about another run than the
// known one, ok is false.
func (m *Members) answeredID(knownID string) (id string, ok bool) {
	id, isText := Text(m.executionID)
	switch {
	case knownID == "", id == knownID:
		return id, true
	case m.executionID == nil, m.executionID.Kind() == 'n', isText && id == "":
		return knownID, true
	}
	return "", false
}

// maxRetry bounds a provider's retry member, in bytes.
const maxRetry = 1 << 10

// RunError reads the error member. By the protocol it is an object, but some
// providers send a string. It leaves out members of a wrong type.
func (m *Members) RunError() *RunError {
	e := new(RunError)
	if message, ok := Text(m.failure); ok {
		e.Message = message
		return e
	}
	if m.failure.Kind() != '{' {
		return e
	}
	e.Code, _ = Text(jsonrpc.ValueOf(m.failure, "code"))
	e.Message, _ = Text(jsonrpc.ValueOf(m.failure, "message"))
	e.Details = jsonrpc.ValueOf(m.failure, "details").Clone() // the whole answer would stay in memory
	if retry := jsonrpc.ValueOf(m.failure, "retry"); retry.Kind() == '{' && len(retry) <= maxRetry {
		e.Retry = retry.Clone()
	}
	return e
}

// Text returns the text of a JSON string.
func Text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	return string(jsonrpc.Unquote(v)), true
}

// Statuses names the statuses that the protocol has, for messages.
const Statuses = "accepted, running, completed, failed or timeout"

// states are the states for the statuses (section 3.4.4).
var states = map[string]run.State{"accepted": run.Accepted, "running": run.Working, "completed": run.Completed, "failed": run.Failed, "timeout": run.TimedOut}

// StateOf returns the state for a status; 0: the protocol has no such status.
func StateOf(status jsontext.Value) run.State {
	if status.Kind() != '"' {
		return 0
	}
	return states[string(jsonrpc.Unquote(status))]
}

// elapsed returns how long a run took by the provider's clock; 0: the
// timestamps are missing or contradictory.
func elapsed(timestamps jsontext.Value) time.Duration {
	at := func(name string) (t time.Time) {
		if value := jsonrpc.ValueOf(timestamps, name); value.Kind() == '"' {
			_ = t.UnmarshalText(jsonrpc.Unquote(value)) // or it stays zero
		}
		return t
	}
	created, completed := at("created_at"), at("completed_at")
	took := completed.Sub(created)
	if created.IsZero() || completed.IsZero() || took < 0 || took > longestRun {
		return 0
	}
	return took
}

// longestRun is the longest plausible duration of a run: the longest for which one is kept.
const longestRun = 90 * 24 * time.Hour

// Asked says what an answer must be about.
type Asked struct {
	Phase       run.Phase
	ExecutionID string // of the run that was asked about; empty: it was an invocation
	MayBeBare   bool   // the answer may be a result in the short form (see BareOutput)
	Followable  bool   // an accepted run can be followed
}

// maxDetails bounds a provider's error details, in bytes.
const maxDetails = 64 << 10

// Quoted is the part of the error that callers get; nil: there is none.
func (e *RunError) Quoted(code string) *run.ProviderError {
	if code == "" && e.Details == nil && e.Retry == nil {
		return nil
	}
	return &run.ProviderError{Code: code, Details: BoundedDetails(e.Details, maxDetails), Retry: e.Retry}
}

// BoundedDetails returns details or, if they are too large, a sentence instead of them. They
// can't be cut, since a part of a JSON value is not valid.
func BoundedDetails(details []byte, limit int) jsontext.Value {
	if len(details) <= limit {
		return details
	}
	return jsonvalue.Marshal(fmt.Sprintf("%d bytes of details, more than the %d that are passed on", len(details), limit))
}

// maxRepaired is the size of the largest JSON text of which a repaired copy is made, in bytes: the names of an object are in memory meanwhile, and
// U+FFFD has three bytes.
const maxRepaired = 1 << 20

// Repaired returns a copy of a JSON text without bytes that are not UTF-8 and halves of surrogate pairs, in whose places is U+FFFD, and with the last of
// several members of one name. It returns nil if the text has other faults, or does not say clearly which run it is about, or its state.
func Repaired(text []byte) []byte {
	whole := jsontext.Value(bytes.Clone(text))
	if len(text) > maxRepaired || whole.Format(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	said := map[string]string{}
	for name, value := range jsonrpc.Members(whole) {
		key, now := string(jsonrpc.Unquote(name)), jsonrpc.Text(value)
		before, again := said[key]
		if said[key] = now; (key == "status" || key == "execution_id") && (strings.ContainsRune(now, utf8.RuneError) || again && before != now) {
			return nil
		}
	}
	return lastMembers(whole)
}

// lastMembers returns a valid text without white space whose objects have the last of several members of one name. It copies the text once, however
// deep that nests.
func lastMembers(text jsontext.Value) jsontext.Value {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	others := earlierMembers(d, nil)
	slices.SortFunc(others, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	kept, at := make(jsontext.Value, 0, len(text)), 0
	for _, other := range others {
		if other[0] >= at { // or it is within another one
			kept, at = append(kept, text[at:other[0]]...), other[1]
		}
	}
	return append(kept, text[at:]...)
}

// earlierMembers reads a valid value and appends where those members begin and end, each with its comma, that have the name of a later one.
func earlierMembers(d *jsontext.Decoder, all [][2]int) [][2]int {
	token, _ := d.ReadToken()
	kind := token.Kind()
	if kind != '{' && kind != '[' {
		return all
	}
	var begins []int
	last := map[string]int{}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		if kind == '{' {
			name, _ := d.ReadValue()
			begins = append(begins, int(d.InputOffset())-len(name))
			key := string(jsonrpc.Unquote(name))
			if before, again := last[key]; again {
				all = append(all, [2]int{begins[before], begins[before+1]})
			}
			last[key] = len(begins) - 1
		}
		all = earlierMembers(d, all)
	}
	_, _ = d.ReadToken()
	return all
}
