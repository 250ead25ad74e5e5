package skillsharing

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/nesting"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// answer is an HTTP answer whose body has been read.
type answer struct {
	status int
	header http.Header
	body   []byte
	// withoutRoom is the budget that had no room for more than the beginning of the body; nil: it is whole.
	withoutRoom AnswerBudget

	response Response // if it is one, here, so that it takes no memory of its own
}

// asked is what an answer is about.
type asked struct {
	phase       run.Phase
	executionID string // of the run that was asked about; empty: it was an invocation
	skillID     string
	mayBeBare   bool // a result may come bare: as an object that only has an output
	followable  bool // a run that was accepted can be asked about later
}

// maxDetails bounds what is passed on of a provider's error details, and
// maxRejection of an answer that is no unified error at all, in bytes.
const (
	maxDetails   = 64 << 10
	maxRejection = 2 << 10
)

// judge says what a provider's answer means. It is the only place where that is
// decided: an InvocationResponse counts first, then a unified error (section
// 8.2), then the HTTP status.
func (c *Client) judge(a *answer, about asked) (*Response, *run.Failure) {
	phase, knownID := about.phase, about.executionID
	if a.withoutRoom != nil {
		return nil, c.noRoom(a, about)
	}
	if depth := c.Limits.depth(); nesting.Deeper(a.body, depth) {
		e := invalidAnswer(a, phase, knownID, fmt.Sprintf("The provider's answer can't be used: the answer nests deeper than %d levels (limits depth).", depth))
		e.Limit = limitOf("depth", int64(depth))
		if knownID != "" {
			judgeRun(e)
		}
		return nil, e
	}
	m := parseMembers(a.body)
	r, otherRun := m.response(&a.response, about)
	if otherRun {
		return nil, invalidAnswer(a, phase, knownID, fmt.Sprintf("The provider answered about another run than %s.", knownID))
	}
	if r == nil && about.mayBeBare && a.status < 300 {
		r = m.bareOutput(knownID)
	}
	if r == nil {
		return nil, judgeError(a, &m, phase, knownID)
	}
	if most := c.Limits.OutputSize; r.State == run.Completed && most > 0 && int64(len(r.Output)) > most {
		e := invalidAnswer(a, phase, clip(c.scrubText(r.ExecutionID), maxExecutionID),
			fmt.Sprintf("The run has completed, but its output of %d bytes is larger than the %d bytes that are accepted (limits output_size).", len(r.Output), most))
		e.Executed, e.Lost = run.ExecutedYes, true // following it again brings the same
		e.Limit = limitOf("output_size", most)
		return nil, e
	}
	r.Output = c.scrubOutput(r.Output)
	r.RetryAfter = retryAfter(a.header)
	return r, nil
}

// isRun reports whether an answer to a request for a run says how it is: that, and
// not the HTTP status, is then what counts.
func (c *Client) isRun(a *answer) bool {
	if a.status < http.StatusInternalServerError || nesting.Deeper(a.body, c.Limits.depth()) {
		return false
	}
	return stateOf(parseMembers(a.body).status) != 0
}

// invalidAnswer is the error of an answer that can't be used, whatever it means.
func invalidAnswer(a *answer, phase run.Phase, executionID, message string) *run.Failure {
	return &run.Failure{
		Kind: run.ProviderFault, Phase: phase, By: run.Bridge, Message: message,
		HTTPStatus: a.status, ExecutionID: executionID, Executed: executed(a.status, phase),
	}
}

// judgeError says what an answer means that is not an InvocationResponse.
func judgeError(a *answer, m *members, phase run.Phase, knownID string) *run.Failure {
	said := m.runError()
	e := &run.Failure{
		Phase: phase, By: run.Provider, HTTPStatus: a.status, ExecutionID: knownID,
		Executed: executed(a.status, phase), Message: said.Message,
	}
	switch kind, known := kinds[ErrorCode(said.Code)]; {
	case known:
		e.Kind = kind
		if kind == run.InvalidArguments {
			e.Argument = &run.Argument{Reason: run.Rejected}
		}
	case (a.status == http.StatusBadRequest || a.status == http.StatusUnprocessableEntity) && m.valid:
		e.Kind = run.InvalidArguments
		e.Argument = &run.Argument{Reason: run.Rejected}
		said.Details = boundedDetails(bytes.TrimSpace(withoutBOM(a.body)), maxRejection)
	default:
		e.Kind = kindOfStatus(a.status)
	}
	if knownID != "" {
		judgeRun(e)
	}
	if e.Kind == run.ProviderFault && a.status < 400 {
		e.By = run.Bridge // the provider does not call it an error
	}
	e.Message = cmp.Or(e.Message, defaultMessage(e.Kind, a))
	e.Provider = said.quoted("")
	if delay := retryAfter(a.header); said.Retry == nil && delay > 0 {
		e.Retry = run.Again(delay, 1)
	}
	return e
}

// judgeRun turns failures that speak of the skill into what they mean for a run
// that had been accepted: it exists, or it is lost.
func judgeRun(e *run.Failure) {
	if e.HTTPStatus == http.StatusNotFound || e.HTTPStatus == http.StatusGone || e.Kind == run.SkillNotFound {
		e.Lost = true
	}
	switch e.Kind {
	case run.SkillNotFound, run.VersionIncompatible, run.InvalidArguments:
		e.Kind, e.Argument = run.ProviderFault, nil
	}
}

// executed says what an HTTP status tells about the execution of a skill.
func executed(status int, phase run.Phase) run.Executed {
	if phase == run.PhasePoll || phase == run.PhaseResult {
		return run.ExecutedYes
	}
	if phase != run.PhaseInvoke || slices.Contains(refusals, status) {
		return run.ExecutedNo
	}
	return run.ExecutedMaybe
}

// refusals are the statuses with which an endpoint says that it did nothing.
var refusals = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusGone, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
}

func defaultMessage(kind run.Kind, a *answer) string {
	switch {
	case a.status >= 300 && a.status < 400:
		return fmt.Sprintf("The provider answered HTTP %d, and redirects are not followed here.", a.status)
	case kind == run.ProviderFault && a.status < 300:
		if fault := faultOf(a.body); fault != "" {
			return fmt.Sprintf("The provider answered HTTP %d with JSON that can't be used: %s.", a.status, fault)
		}
		return fmt.Sprintf("The provider answered HTTP %d with something that is not an InvocationResponse.", a.status)
	case http.StatusText(a.status) == "":
		return fmt.Sprintf("The provider answered HTTP %d.", a.status)
	}
	return fmt.Sprintf("The provider answered HTTP %d %s.", a.status, http.StatusText(a.status))
}

// faultOf says what about a text that looks like JSON is not, and where; empty: it is
// JSON, or nothing like it. Other parsers take what is refused here for one thing or
// another.
func faultOf(text []byte) string {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if kind := dec.PeekKind(); kind != '{' && kind != '[' {
		return ""
	}
	_, err := dec.ReadValue()
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return ""
	}
	what := "its syntax is wrong"
	switch reason := syntax.Error(); {
	case errors.Is(err, jsontext.ErrDuplicateName):
		what = "two members of an object have the same name"
	case strings.Contains(reason, "UTF-8"):
		what = "a text is not UTF-8"
	case strings.Contains(reason, "surrogate"):
		what = "a text has half of a surrogate pair (\\ud800 to \\udfff)"
	case errors.Is(err, io.ErrUnexpectedEOF):
		what = "it ends too early"
	}
	return fmt.Sprintf("%s, at %q (byte %d)", what, clip(string(syntax.JSONPointer), maxPointer), syntax.ByteOffset)
}

// maxPointer bounds what is said of a place in a provider's answer, in bytes.
const maxPointer = 100

// quoted is what is passed on of what a provider has said; nil: nothing.
func (e *RunError) quoted(code string) *run.ProviderError {
	if code == "" && e.Details == nil && e.Retry == nil {
		return nil
	}
	return &run.ProviderError{Code: code, Details: boundedDetails(e.Details, maxDetails), Retry: e.Retry}
}

// boundedDetails cuts nothing: details that are too large are named instead,
// since half a JSON value is none.
func boundedDetails(details []byte, limit int) jsontext.Value {
	if len(details) <= limit {
		return details
	}
	return mustMarshal(fmt.Sprintf("%d bytes of details, more than the %d that are passed on", len(details), limit))
}

// mustMarshal is for values made here of strings, numbers, lists and maps,
// which always have a JSON form.
func mustMarshal(v any) jsontext.Value {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return jsontext.Value("null")
	}
	return b
}

// clip shortens a text to n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
