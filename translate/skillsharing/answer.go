package skillsharing

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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Response is an InvocationResponse (section 5.4), read leniently: only the
// status and, while a run is under way, the execution id are insisted on.
type Response struct {
	ExecutionID string
	Status      ExecutionStatus
	SkillID     string
	Output      jsontext.Value // nil: the member is absent, which "null" is not
	Error       *RunError      // why a run failed, if the provider said
	// Elapsed is the time between the run's creation and completion by the provider's clock; 0 when it did not say.
	Elapsed time.Duration
	// RetryAfter is how long the provider asks to wait before the next request.
	RetryAfter time.Duration
}

// RunError is the error member of a [Response].
type RunError struct {
	Code    string
	Message string
	Details jsontext.Value // nil: none
	Retry   jsontext.Value // nil: none
}

// Final reports whether a run in this state will not change any more.
func (s ExecutionStatus) Final() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusTimeout
}

func (s ExecutionStatus) known() bool {
	return s == StatusAccepted || s == StatusRunning || s.Final()
}

// answer is an HTTP answer whose body has been read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// maxDetails bounds what is passed on of a provider's error details, and
// maxRejection of an answer that is no unified error at all, in bytes.
const (
	maxDetails   = 64 << 10
	maxRejection = 2 << 10
)

// judge says what a provider's answer means. It is the only place where that is
// decided: an InvocationResponse counts first, then a unified error (section
// 8.2), then the HTTP status. knownID is the id of the run that was asked about,
// empty for an invocation.
func judge(a *answer, phase Phase, knownID string) (*Response, *Error) {
	m := parseMembers(a.body)
	r, otherRun := m.response(knownID)
	if otherRun {
		return nil, &Error{
			Code: InvalidProviderResponse, Phase: phase, Source: SourceBridge,
			Message:    fmt.Sprintf("The provider answered about another run than %s.", knownID),
			HTTPStatus: a.status, ExecutionID: knownID, Executed: executed(a.status, phase),
		}
	}
	if r != nil {
		r.RetryAfter = retryAfter(a.header)
		return r, nil
	}
	return nil, judgeError(a, m, phase, knownID)
}

// judgeError says what an answer means that is not an InvocationResponse.
func judgeError(a *answer, m *members, phase Phase, knownID string) *Error {
	said := m.runError()
	e := &Error{
		Phase: phase, Source: SourceProvider, HTTPStatus: a.status, ExecutionID: knownID,
		Executed: executed(a.status, phase), Message: said.Message, Details: said.Details, Retry: said.Retry,
	}
	switch code, known := unifiedCode(said.Code); {
	case known:
		e.Code = code
		if code == ValidationError {
			e.Arguments = &ArgumentError{Param: "args", Reason: "rejected_by_provider"}
		}
	case (a.status == http.StatusBadRequest || a.status == http.StatusUnprocessableEntity) && m.valid:
		e.Code = ValidationError
		e.Arguments = &ArgumentError{Param: "args", Reason: "rejected_by_provider"}
		e.Details = boundedDetails(bytes.TrimSpace(a.body), maxRejection)
	default:
		e.Code = codeOfStatus(a.status)
	}
	if knownID != "" {
		e.judgeRun()
	}
	if e.Code == InvalidProviderResponse && a.status < 400 {
		e.Source = SourceBridge // the provider does not call it an error
	}
	e.Message = cmp.Or(e.Message, defaultMessage(e.Code, a))
	if e.Details != nil {
		e.Details, e.DetailsSource = boundedDetails(e.Details, maxDetails), SourceProvider
	}
	if delay := retryAfter(a.header); e.Retry == nil && delay > 0 {
		e.Retry = suggestRetry(delay, 1)
	}
	return e
}

// judgeRun turns codes that speak of the skill into what they mean for a run
// that had been accepted: it exists, or it is lost.
func (e *Error) judgeRun() {
	if e.HTTPStatus == http.StatusNotFound || e.HTTPStatus == http.StatusGone || e.Code == SkillNotFound {
		e.Hint = HintRunLost
	}
	switch e.Code {
	case SkillNotFound, VersionIncompatible, ValidationError:
		e.Code, e.Arguments = InvalidProviderResponse, nil
	}
}

// unifiedCode returns the code that a provider's word for it stands for. The
// protocol's other documents call a timeout EXECUTION_TIMEOUT.
func unifiedCode(code string) (ErrorCode, bool) {
	if code == "EXECUTION_TIMEOUT" {
		return InvocationTimeout, true
	}
	return ErrorCode(code), slices.Contains(unifiedCodes, ErrorCode(code))
}

var unifiedCodes = []ErrorCode{
	ValidationError, AuthRequired, PermissionDenied, SkillNotFound,
	InvocationTimeout, EndpointUnreachable, VersionIncompatible, RateLimited,
}

// codeOfStatus is the code that an HTTP status stands for where the body says
// nothing (section 8.1).
func codeOfStatus(status int) ErrorCode {
	if code, ok := statusCodes[status]; ok {
		return code
	}
	return InvalidProviderResponse
}

var statusCodes = map[int]ErrorCode{
	http.StatusUnauthorized:        AuthRequired,
	http.StatusForbidden:           PermissionDenied,
	http.StatusNotFound:            SkillNotFound,
	http.StatusGone:                SkillNotFound,
	http.StatusRequestTimeout:      InvocationTimeout,
	http.StatusGatewayTimeout:      InvocationTimeout,
	http.StatusBadGateway:          EndpointUnreachable,
	http.StatusServiceUnavailable:  EndpointUnreachable,
	http.StatusUnprocessableEntity: VersionIncompatible,
	http.StatusTooManyRequests:     RateLimited,
}

// executed says what an HTTP status tells about the execution of a skill.
func executed(status int, phase Phase) Executed {
	if phase == PhasePoll || phase == PhaseResult {
		return ExecutedYes
	}
	if phase != PhaseInvoke || slices.Contains(refusals, status) {
		return ExecutedNo
	}
	return ExecutedMaybe
}

// refusals are the statuses with which an endpoint says that it did nothing.
var refusals = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusGone, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
}

func defaultMessage(code ErrorCode, a *answer) string {
	switch {
	case a.status >= 300 && a.status < 400:
		return fmt.Sprintf("The provider answered HTTP %d, and redirects are not followed here.", a.status)
	case code == InvalidProviderResponse && a.status < 300:
		return fmt.Sprintf("The provider answered HTTP %d with something that is not an InvocationResponse.", a.status)
	case http.StatusText(a.status) == "":
		return fmt.Sprintf("The provider answered HTTP %d.", a.status)
	}
	return fmt.Sprintf("The provider answered HTTP %d %s.", a.status, http.StatusText(a.status))
}

// boundedDetails cuts nothing: details that are too large are named instead,
// since half a JSON value is none.
func boundedDetails(details []byte, limit int) jsontext.Value {
	if len(details) <= limit {
		return details
	}
	return mustMarshal(fmt.Sprintf("%d bytes of details, more than the %d that are passed on", len(details), limit))
}

// members are the top-level members of an answer that have a meaning in an
// InvocationResponse or a unified error.
type members struct {
	valid       bool // the body is one JSON value
	status      jsontext.Value
	executionID jsontext.Value
	skillID     jsontext.Value
	output      jsontext.Value
	failure     jsontext.Value
	timestamps  jsontext.Value
}

// parseMembers never fails: a body that is not a JSON object has no members.
func parseMembers(body []byte) *members {
	m := new(members)
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	if dec.PeekKind() != '{' {
		_, err := dec.ReadValue()
		m.valid = err == nil && atEnd(dec)
		return m
	}
	if _, err := dec.ReadToken(); err != nil {
		return m
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return new(members)
		}
		field := m.field(name.String())
		value, err := dec.ReadValue()
		if err != nil {
			return new(members)
		}
		if field != nil { // a slice of the body: outputs can be large
			end := dec.InputOffset()
			*field = body[end-int64(len(value)) : end]
		}
	}
	if _, err := dec.ReadToken(); err != nil || !atEnd(dec) {
		return new(members)
	}
	m.valid = true
	return m
}

func (m *members) field(name string) *jsontext.Value {
	switch name {
	case "status":
		return &m.status
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

func atEnd(dec *jsontext.Decoder) bool {
	_, err := dec.ReadToken()
	return errors.Is(err, io.EOF)
}

// response returns the InvocationResponse that the members make, or nil if they
// make none, or one about another run than the known one.
func (m *members) response(knownID string) (r *Response, otherRun bool) {
	status, ok := text(m.status)
	r = &Response{Status: ExecutionStatus(status), Output: m.output}
	if !ok || !r.Status.known() {
		return nil, false
	}
	if r.ExecutionID, ok = m.answeredID(knownID); !ok {
		return nil, true
	}
	if r.ExecutionID == "" && !r.Status.Final() {
		return nil, false // nothing names the run that this is about
	}
	r.SkillID, _ = text(m.skillID)
	r.Elapsed = elapsed(m.timestamps)
	if r.Status == StatusFailed || r.Status == StatusTimeout {
		r.Error = m.runError()
	}
	return r, false
}

// bareOutput reads the short form of a result, an object with an output and
// nothing that contradicts it. It returns nil if the members are not that.
func (m *members) bareOutput(knownID string) *Response {
	id, ok := m.answeredID(knownID)
	if m.output == nil || m.status != nil || m.failure != nil && m.failure.Kind() != 'n' || !ok {
		return nil
	}
	return &Response{ExecutionID: id, Status: StatusCompleted, Output: m.output}
}

// answeredID is the id of the run that an answer is about, empty if it names
// none. It is not ok if it names, or may name, another than the known one.
func (m *members) answeredID(knownID string) (id string, ok bool) {
	id, isText := text(m.executionID)
	switch {
	case knownID == "", id == knownID:
		return id, true
	case m.executionID == nil, m.executionID.Kind() == 'n', isText && id == "":
		return knownID, true
	}
	return "", false
}

// runError reads the error member, which is an object by the protocol but a
// mere text with some providers. What is missing or of a wrong type is left out.
func (m *members) runError() *RunError {
	e := new(RunError)
	if message, ok := text(m.failure); ok {
		e.Message = message
		return e
	}
	if m.failure.Kind() != '{' {
		return e
	}
	var parts struct {
		Code    jsontext.Value `json:"code"`
		Message jsontext.Value `json:"message"`
		Details jsontext.Value `json:"details"`
		Retry   jsontext.Value `json:"retry"`
	}
	if err := json.Unmarshal(m.failure, &parts); err != nil {
		return e
	}
	e.Code, _ = text(parts.Code)
	e.Message, _ = text(parts.Message)
	if parts.Details.Kind() != 'n' {
		e.Details = parts.Details
	}
	if parts.Retry.Kind() == '{' {
		e.Retry = parts.Retry
	}
	return e
}

// text returns the text of a JSON string.
func text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// elapsed is how long a run took by the provider's own clock, 0 if it does not
// say or contradicts itself.
func elapsed(timestamps jsontext.Value) time.Duration {
	if timestamps.Kind() != '{' {
		return 0
	}
	var t struct {
		CreatedAt   jsontext.Value `json:"created_at"`
		CompletedAt jsontext.Value `json:"completed_at"`
	}
	if err := json.Unmarshal(timestamps, &t); err != nil {
		return 0
	}
	created, ok1 := instant(t.CreatedAt)
	completed, ok2 := instant(t.CompletedAt)
	if !ok1 || !ok2 {
		return 0
	}
	return max(0, completed.Sub(created))
}

func instant(v jsontext.Value) (time.Time, bool) {
	s, ok := text(v)
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}

// maxRetryAfter bounds what a provider can ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the field of RFC 9110, section 10.2.3: seconds or a date.
// 0 if there is none that makes sense.
func retryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	seconds, err := strconv.ParseUint(value, 10, 32)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the largest there is
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, time.Until(date)), maxRetryAfter)
}

// suggestRetry makes the retry member of a unified error.
func suggestRetry(delay time.Duration, attempts int) jsontext.Value {
	return fmt.Appendf(nil, `{"suggested_delay_ms":%d,"max_attempts":%d}`, delay.Milliseconds(), attempts)
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
