package exchange

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Answer is an HTTP answer whose body has been read.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// withoutRoom is the budget that has no room for the whole body, so that Body is only its beginning. nil: Body is
	// complete.
	withoutRoom AnswerBudget
}

// IsWhole reports whether the [AnswerBudget] had room for the whole body.
func (a *Answer) IsWhole() bool { return a.withoutRoom == nil }

// maxRejection limits the details of an answer that is not a unified error, in bytes.
const maxRejection = 2 << 10

// Judge returns the response that a provider's answer contains, or a failure. Only Judge decides this: by an
// InvocationResponse if the answer has one, else by a unified error (section 8.2), else by the HTTP status.
func (s *Sender) Judge(a *Answer, about document.Asked) (*document.Response, *run.Failure) {
	phase, knownID := about.Phase, about.ExecutionID
	if a.withoutRoom != nil {
		return nil, s.noRoom(a, about)
	}
	m := document.ParseMembers(a.Body, document.MaxDepth)
	if m.Deeper {
		e := invalidAnswer(a, phase, knownID, fmt.Sprintf("The provider's answer can't be used: the answer nests deeper than %d levels.", document.MaxDepth))
		e.Limit = &run.Limit{Name: "depth", Max: document.MaxDepth}
		if knownID != "" {
			aboutRun(e)
		}
		return nil, e
	}
	read, warnings := m, []string(nil)
	if !m.Valid {
		read, warnings = s.repaired(a, m)
	}
	r, otherRun := read.Response(about)
	if otherRun {
		return nil, invalidAnswer(a, phase, knownID, fmt.Sprintf("The provider's answer is about a run other than %s.", knownID))
	}
	if r == nil && about.MayBeBare && a.Status < 300 {
		r = read.BareOutput(knownID)
	}
	if r == nil {
		return nil, s.JudgeError(a, &m, phase, knownID)
	}
	if most := s.Limits.OutputSize; r.State == run.Completed && most > 0 && int64(len(r.Output)) > most {
		e := invalidAnswer(a, phase, safetext.Clip(s.ScrubText(r.ExecutionID), document.MaxExecutionID),
			fmt.Sprintf("The run has completed, but its output of %d bytes is larger than the %s that are accepted (limits output_size).", len(r.Output), document.Bytes(most)))
		e.Executed, e.Lost = run.ExecutedYes, true // following the run again would have the same result
		e.Limit = &run.Limit{Name: "output_size", Max: most}
		return nil, e
	}
	if r.Output != nil {
		r.Output = s.secrets().ScrubOutput(r.Output)
	}
	r.RetryAfter, r.Warnings, r.HTTPStatus = RetryAfter(a.Header), warnings, a.Status
	return r, nil
}

// repaired returns the members of an answer that is not valid JSON only because of texts with half of a surrogate pair or bytes that are not UTF-8,
// or of objects with several members of one name, and what to say of that. Otherwise it returns m. A run that has completed is not lost because of them.
func (s *Sender) repaired(a *Answer, m document.Members) (document.Members, []string) {
	body := document.WithoutBOM(a.Body)
	again := document.ParseMembers(document.Repaired(body), document.MaxDepth)
	if !again.Valid {
		return m, nil
	}
	return again, []string{s.faultOf(body) + "; U+FFFD is in place of what is no text, and the last of several members with one name counts"}
}

// isRun reports whether an answer with a 5xx status contains the state of a run. Then the state counts,
// not the HTTP status.
func isRun(a *Answer) bool {
	return a.Status >= http.StatusInternalServerError && document.StateOf(document.ParseMembers(a.Body, document.MaxDepth).Status) != 0
}

// invalidAnswer returns the failure for an answer that can't be used.
func invalidAnswer(a *Answer, phase run.Phase, executionID, message string) *run.Failure {
	return &run.Failure{
		Kind: run.ProviderFault, Phase: phase, By: run.Bridge, Message: message,
		HTTPStatus: a.Status, Ref: run.Ref{ExecutionID: executionID}, Executed: executed(a.Status, phase),
	}
}

// JudgeError returns the failure for an answer that is not an InvocationResponse.
func (s *Sender) JudgeError(a *Answer, m *document.Members, phase run.Phase, knownID string) *run.Failure {
	said := m.RunError()
	e := &run.Failure{
		Phase: phase, By: run.Provider, HTTPStatus: a.Status, Ref: run.Ref{ExecutionID: knownID},
		Executed: executed(a.Status, phase), Message: said.Message,
	}
	switch kind, known := document.Kinds[document.ErrorCode(said.Code)]; {
	case known:
		e.Kind = kind
		if kind == run.InvalidArguments {
			e.Argument = &run.Argument{Reason: run.Rejected}
		}
	case (a.Status == http.StatusBadRequest || a.Status == http.StatusUnprocessableEntity) && m.Valid:
		e.Kind = run.InvalidArguments
		e.Argument = &run.Argument{Reason: run.Rejected}
		said.Details = document.BoundedDetails(bytes.TrimSpace(document.WithoutBOM(a.Body)), maxRejection)
	default:
		e.Kind = document.KindOfStatus(a.Status)
	}
	if knownID != "" {
		aboutRun(e)
	}
	if e.Kind == run.ProviderFault && a.Status < 400 {
		e.By = run.Bridge // the status says that there is no error
	}
	e.Message = cmp.Or(e.Message, s.defaultMessage(e, a, m))
	e.Provider = said.Quoted("")
	if delay := RetryAfter(a.Header); said.Retry == nil && delay > 0 {
		e.Retry = run.RetryIn(delay, 1)
	}
	return e
}

// aboutRun changes a failure that says that a skill can't be found or invoked into one about a run
// that was accepted: the run exists, or it is lost.
func aboutRun(e *run.Failure) {
	if e.HTTPStatus == http.StatusNotFound || e.HTTPStatus == http.StatusGone || e.Kind == run.SkillNotFound {
		e.Lost = true
	}
	switch e.Kind {
	case run.SkillNotFound, run.VersionIncompatible, run.InvalidArguments:
		e.Kind, e.Argument = run.ProviderFault, nil
	}
}

// Denied reports whether the provider's answer about a run says that there is no such run.
func Denied(e *run.Failure) bool { return e.Lost && e.Limit == nil }

// executed returns whether the skill was executed, as far as the HTTP status of the answer tells.
func executed(status int, phase run.Phase) run.Executed {
	if phase == run.PhasePoll || phase == run.PhaseResult {
		return run.ExecutedYes
	}
	if phase != run.PhaseInvoke || slices.Contains(refusals, status) {
		return run.ExecutedNo
	}
	return run.ExecutedMaybe
}

// refusals are the statuses of answers that mean that the skill was not executed.
var refusals = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusGone, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
}

func (s *Sender) defaultMessage(e *run.Failure, a *Answer, m *document.Members) string {
	switch kind := e.Kind; {
	case a.Status >= 300 && a.Status < 400:
		return fmt.Sprintf("The provider answered HTTP %d, and redirects are not followed here.", a.Status)
	case kind == run.ProviderFault && a.Status < 300:
		if fault := s.faultOf(a.Body); fault != "" {
			return fmt.Sprintf("The provider answered HTTP %d with JSON that can't be used: %s.", a.Status, fault)
		}
		lack := s.lackOf(a.Body, m, e.Phase)
		if !m.Valid && len(a.Body) > 0 {
			lack = cmp.Or(UnknownCoding(a.Header), lack)
		}
		return fmt.Sprintf("The provider answered HTTP %d without an InvocationResponse: %s.", a.Status, lack)
	case http.StatusText(a.Status) == "":
		return fmt.Sprintf("The provider answered HTTP %d.", a.Status)
	}
	return fmt.Sprintf("The provider answered HTTP %d %s.", a.Status, http.StatusText(a.Status))
}

// maxStatus limits a status that is not of the protocol, in messages, in bytes.
const maxStatus = 40

// lackOf returns what an answer with these members lacks, so that it is not an InvocationResponse, and what would be right.
func (s *Sender) lackOf(body []byte, m *document.Members, phase run.Phase) string {
	value, status := jsontext.Value(bytes.TrimSpace(document.WithoutBOM(body))), m.Status
	switch {
	case len(value) == 0:
		return "its body is empty"
	case !m.Valid:
		return "its body is not JSON"
	case value.Kind() != '{':
		return "its body is " + jsonvalue.WithArticle(jsonvalue.TypeName(value)) + ", not an object"
	case status == nil && phase == run.PhaseResult:
		return "it has neither an output nor a status, which must be " + document.Statuses
	case status == nil:
		return "it has no status, which must be " + document.Statuses
	case document.StateOf(status) != 0:
		return "it has no execution_id, which must be a text that is not empty"
	}
	text, isText := document.Text(status)
	if !isText {
		return "its status is " + jsonvalue.WithArticle(jsonvalue.TypeName(status)) + ", but must be " + document.Statuses
	}
	return fmt.Sprintf("its status is %q, but must be %s", safetext.Line(s.ScrubText(text), maxStatus), document.Statuses)
}

// faultOf returns what is wrong with a text that starts like JSON, and where; empty: it is valid JSON,
// or does not start like JSON. Other JSON parsers accept some texts with such faults, and read them
// differently.
func (s *Sender) faultOf(text []byte) string {
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
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		what = "two members of an object have the same name"
	case errors.Is(err, io.ErrUnexpectedEOF):
		what = "it ends too early"
	case !isEncodingError(text, syntax.ByteOffset):
	case text[syntax.ByteOffset] == '\\':
		what = `a text has half of a surrogate pair (\ud800 to \udfff)`
	default:
		what = "a text is not UTF-8"
	}
	var at jsontext.Pointer
	for name := range syntax.JSONPointer.Tokens() {
		at = at.AppendToken(s.ScrubText(name)) // before it is escaped and cut: parts of a secret could not be found
	}
	return fmt.Sprintf("%s, at %q (byte %d)", what, safetext.Clip(string(at), maxPointer), syntax.ByteOffset)
}

// maxPointer limits a JSON Pointer into a provider's answer, in bytes.
const maxPointer = 100

// isEncodingError reports whether the syntax error at an offset disappears if strings need not be valid Unicode. Package
// jsontext exports no error for this.
func isEncodingError(text []byte, offset int64) bool {
	_, err := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true)).ReadValue()
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	return !ok || syntax.ByteOffset != offset
}

// SuggestedDelay returns the retry delay that the provider or the bridge suggests; 0:
// neither does.
func SuggestedDelay(f *run.Failure) time.Duration {
	retry := f.ProviderSaid().Retry
	if retry == nil && f.Retry != nil {
		return f.Retry.After
	}
	ms, _ := strconv.ParseFloat(string(jsonrpc.ValueOf(retry, "suggested_delay_ms")), 64) // 0: it is no number; infinite: it is too large
	return min(document.Milliseconds(ms), maxRetryAfter)
}

// maxRetryAfter bounds the delay that a provider can ask for.
const maxRetryAfter = 24 * time.Hour

// RetryAfter returns the delay in the Retry-After field (RFC 9110, section
// 10.2.3), which is a number of seconds or a date. It returns 0 if there is no
// field, or if it is invalid. A date is compared with that of the answer, since the
// clock of the bridge may be another.
func RetryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, _ := strconv.ParseUint(value, 10, 32) // out of range: the largest uint32
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, Until(h, date)), maxRetryAfter)
}

// Until returns the time from an answer until a date in its header, by the clock of the answer's Date if it has one.
func Until(h http.Header, date time.Time) time.Duration {
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return date.Sub(now)
}
