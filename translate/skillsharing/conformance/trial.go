package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Result is the result of a check.
type Result string

// The results.
const (
	OK      Result = "ok"
	Failed  Result = "failed"
	Skipped Result = "skipped" // it does not apply, or an earlier check has failed
)

// Check is one rule of the protocol, and whether the provider follows it.
type Check struct {
	Rule   string `json:"check"`
	Result Result `json:"result"`
	What   string `json:"what,omitzero"` // what was found
}

// Trial is the trial of one skill.
type Trial struct {
	Client *skillsharing.Client
	Skill  *discovery.Skill
	// Inputs is a JSON object; nil: an empty object.
	Inputs jsontext.Value
	// Timeout is how long the run may take.
	Timeout time.Duration
	// Limit says what sets Timeout, for messages.
	Limit string

	within string // how long the requests of this part of the trial may take, for messages
	checks []Check
	id     string      // of the run
	first  http.Header // of the answer to the invocation
	last   run.State
}

// The times between two questions about a run.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 5 * time.Second
	// afterTimeout is how long the requests after the run may take.
	afterTimeout = time.Minute
	// longestWait is the largest Retry-After that makes sense for a run.
	longestWait = time.Hour
)

// Bounds of what is said about a check.
const (
	maxWhat   = 4 << 10 // bytes
	maxFaults = 8
)

// add adds a check. The faults may quote the provider, which may repeat the credential that it was sent, so that add removes secrets from them.
func (t *Trial) add(rule string, faults ...string) bool {
	var first []string
	for _, f := range faults {
		if len(first) < maxFaults && !slices.Contains(first, f) {
			first = append(first, f)
		}
	}
	c := Check{Rule: rule, Result: OK}
	if len(first) > 0 {
		c.Result, c.What = Failed, safetext.Clip(t.Client.ScrubText(strings.ReplaceAll(strings.Join(first, "; "), ".; ", "; ")), maxWhat)
	}
	t.checks = append(t.checks, c)
	return len(faults) == 0
}

func (t *Trial) skip(why string, rules ...string) {
	for _, rule := range rules {
		t.checks = append(t.checks, Check{Rule: rule, Result: Skipped, What: why})
	}
}

// The rules.
const (
	ruleWrongKey   = "a wrong credential is refused with 401 or 403"
	ruleAccepted   = "the invocation is answered with an InvocationResponse"
	ruleStates     = "each status is one of the protocol, about this run, and follows the one before"
	ruleRetryAfter = "Retry-After is a number of seconds or a date, at most an hour away"
	ruleCompleted  = "the run completes with an output"
	ruleResult     = "the result is available after completion, twice the same"
	ruleStays      = "the status stays after completion"
	ruleUnknown    = "an unknown execution id is answered with 404"
	ruleStranger   = "the status of a run is refused to a wrong credential"
)

// Run invokes the skill, follows the run to its end, and returns the checks. The skill is executed once if the provider follows the
// protocol. Run returns early when the context ends.
func (t *Trial) Run(ctx context.Context) []Check {
	t.within = t.Timeout.String() + " (" + t.Limit + ")"
	wrong := t.wrong()
	if wrong == nil {
		t.skip("the skill needs no API key or OAuth token", ruleWrongKey)
	} else {
		timed, cancel := context.WithTimeout(ctx, t.Timeout)
		a, failure := t.invoked(timed, wrong)
		t.add(ruleWrongKey, t.statusFaults(timed, a, failure, http.StatusUnauthorized, http.StatusForbidden)...)
		cancel()
	}
	timed, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	started := t.invoke(timed)
	if started {
		t.follow(timed)
	}
	// The run may have used up its time, which says nothing about what is asked after it.
	t.within = afterTimeout.String()
	ctx, stop := context.WithTimeout(ctx, afterTimeout)
	defer stop()
	if started {
		t.afterwards(ctx, wrong)
	} else {
		t.skip("there is no run", ruleStates, ruleRetryAfter, ruleCompleted, ruleResult, ruleStays, ruleStranger)
	}
	if t.Skill.Endpoint.StatusURL == "" {
		t.skip("there is no status_url", ruleUnknown)
		return t.checks
	}
	a, failure := t.asked(ctx, t.Client, run.PhasePoll, "unknown-"+rand.Text())
	t.add(ruleUnknown, t.statusFaults(ctx, a, failure, http.StatusNotFound, http.StatusGone)...)
	return t.checks
}

// said returns what is said about a failure: which time has passed, if that of the context has.
func (t *Trial) said(ctx context.Context, failure *run.Failure) string {
	if failure.Kind == run.Unreachable && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "there was no answer within " + t.within
	}
	return failure.Message
}

// statusFaults returns what is wrong with an answer that has to have one of some statuses.
func (t *Trial) statusFaults(ctx context.Context, a *exchange.Answer, failure *run.Failure, statuses ...int) []string {
	switch {
	case failure != nil:
		return []string{t.said(ctx, failure)}
	case !slices.Contains(statuses, a.Status):
		return []string{"it was answered with HTTP " + strconv.Itoa(a.Status)}
	}
	return nil
}

// invoked invokes the skill.
func (t *Trial) invoked(ctx context.Context, c *skillsharing.Client) (*exchange.Answer, *run.Failure) {
	return c.Try(ctx, t.Skill, run.PhaseInvoke, &skillsharing.Invocation{Inputs: t.Inputs, TraceID: strings.ToLower(rand.Text()), Timeout: t.Timeout}, "")
}

// asked asks for the status or the result of a run.
func (t *Trial) asked(ctx context.Context, c *skillsharing.Client, phase run.Phase, id string) (*exchange.Answer, *run.Failure) {
	return c.Try(ctx, t.Skill, phase, nil, id)
}

// invoke invokes the skill, and reports whether there is a run.
func (t *Trial) invoke(ctx context.Context) bool {
	a, failure := t.invoked(ctx, t.Client)
	if failure != nil {
		return t.add(ruleAccepted, t.said(ctx, failure))
	}
	r, faults := t.judge(a, document.Asked{Phase: run.PhaseInvoke, Followable: t.Skill.Followable()})
	if r == nil {
		return t.add(ruleAccepted, faults...)
	}
	if r.SkillID != t.Skill.ID && len(faults) == 0 {
		faults = append(faults, fmt.Sprintf("skill_id is %q, but must be %q", r.SkillID, t.Skill.ID))
	}
	t.id, t.first, t.last = r.ExecutionID, a.Header, r.State
	t.add(ruleAccepted, faults...)
	if r.State.Ended() {
		t.end(ctx, r)
	}
	return true
}

// judge returns the response in an answer; nil: there is none that can be used. The faults are what the protocol says against it.
func (t *Trial) judge(a *exchange.Answer, about document.Asked) (*document.Response, []string) {
	r, failure := t.Client.Judge(a, about)
	var faults []string
	switch {
	case failure != nil:
		faults = []string{fmt.Sprintf("HTTP %d: %s", a.Status, failure.Message)}
	case a.Status/100 != 2:
		faults = []string{"HTTP " + strconv.Itoa(a.Status)}
	}
	if failure != nil && a.Status/100 != 2 {
		return nil, faults // the failure says it all
	}
	for _, v := range document.CheckResponse(a.Body) {
		if failure == nil || v.Path != "" && v.Path != "/status" { // the failure says what is wrong with these
			faults = append(faults, sentence(v))
		}
	}
	return r, faults
}

// sentence returns a violation as a sentence without an end: the member, the rule, and the value if the rule does not say it.
func sentence(v run.Violation) string {
	text := v.Path + " " + v.Message
	if v.Actual == nil || string(v.Actual) == `"missing"` {
		return text
	}
	return fmt.Sprintf("%s (expected %s, actual %s)", text, v.Expected, v.Actual)
}

// end adds the check of the end of the run.
func (t *Trial) end(ctx context.Context, r *document.Response) {
	switch {
	case r.State == run.Completed && r.Output == nil && t.Skill.Endpoint.ResultURL == "":
		t.add(ruleCompleted, "there is no output, and no result_url")
	case r.State == run.Completed:
		t.add(ruleCompleted, t.outputFaults(ctx, r.Output)...)
	case r.Error != nil && r.Error.Code != "" && r.Error.Message != "":
		t.add(ruleCompleted, fmt.Sprintf("its status is %s: %s: %s", r.State, r.Error.Code, r.Error.Message))
	default:
		t.add(ruleCompleted, fmt.Sprintf("its status is %s, without an error that has a code and a message", r.State))
	}
}

// outputFaults returns what the schema of the descriptor says against an output; nil: nothing, or there is no output or no schema.
func (t *Trial) outputFaults(ctx context.Context, output jsontext.Value) []string {
	if output == nil {
		return nil
	}
	if failure := t.Skill.CheckOutput(ctx, "", output, nil); failure != nil {
		return []string{"the output does not fit output.schema of the descriptor: " + failure.Message}
	}
	return nil
}

// follow asks for the status of the run until it has ended.
func (t *Trial) follow(ctx context.Context) {
	if t.last.Ended() {
		t.skip("the run ended with its invocation", ruleStates, ruleRetryAfter)
		return
	}
	if !t.Skill.Followable() {
		t.skip("there is no status_url", ruleStates, ruleRetryAfter)
		t.add(ruleCompleted, fmt.Sprintf("its status is %s, but the descriptor has neither a status_url nor a result_url, so that its end can't be learned: "+
			"answer with completed and the output, or add endpoint.status_url", t.last))
		return
	}
	asked := document.Asked{Phase: run.PhasePoll, ExecutionID: t.id}
	if t.Skill.Endpoint.StatusURL == "" { // as a bridge, which follows the run by its result
		asked.Phase, asked.MayBeBare = run.PhaseResult, true
	}
	var wrongStates []string
	wait, wrongWaits := t.waitOf(t.first)
	for pause := firstPause; !t.last.Ended(); pause = min(2*pause, lastPause) {
		select {
		case <-ctx.Done():
			t.add(ruleStates, append(wrongStates, "the run had not ended after "+t.within)...)
			t.add(ruleRetryAfter, wrongWaits...)
			t.skip("the run has not ended", ruleCompleted)
			return
		case <-time.After(wait):
		}
		a, failure := t.asked(ctx, t.Client, asked.Phase, t.id)
		if failure != nil {
			wrongStates = append(wrongStates, t.said(ctx, failure))
			break
		}
		asks, wrong := t.waitOf(a.Header)
		wait, wrongWaits = max(pause, asks), append(wrongWaits, wrong...)
		r, faults := t.judge(a, asked)
		wrongStates = append(wrongStates, faults...)
		if r == nil {
			break
		}
		if t.last == run.Working && r.State == run.Accepted {
			wrongStates = append(wrongStates, "it is accepted after it was running")
		}
		if t.last = r.State; r.State.Ended() {
			defer t.end(ctx, r)
			break
		}
	}
	t.add(ruleStates, wrongStates...)
	t.add(ruleRetryAfter, wrongWaits...)
	if !t.last.Ended() {
		t.skip("its end is not known", ruleCompleted)
	}
}

// waitOf returns how long an answer asks to wait, or what is wrong with that.
func (t *Trial) waitOf(h http.Header) (time.Duration, []string) {
	if faults := retryFaults(t.Client.ScrubText(h.Get("Retry-After")), h); faults != nil {
		return 0, faults
	}
	return exchange.RetryAfter(h), nil
}

// retryFaults returns what is wrong with the text of the field Retry-After of an answer.
func retryFaults(text string, answer http.Header) []string {
	if text == "" {
		return nil
	}
	var wait time.Duration
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		wait = exchange.Until(answer, date)
	} else {
		return []string{fmt.Sprintf("it is %.40q", text)}
	}
	if wait > longestWait {
		return []string{"it asks to wait for " + wait.Round(time.Second).String()}
	}
	return nil
}

// afterwards adds the checks of a run that has ended.
func (t *Trial) afterwards(ctx context.Context, wrong *skillsharing.Client) {
	hasStatus, hasResult := t.Skill.Endpoint.StatusURL != "", t.Skill.Endpoint.ResultURL != ""
	switch {
	case !hasResult:
		t.skip("there is no result_url", ruleResult)
	case t.last != run.Completed || t.id == "":
		t.skip("the run has not completed", ruleResult)
	default:
		t.add(ruleResult, t.resultFaults(ctx)...)
	}
	switch {
	case !hasStatus:
		t.skip("there is no status_url", ruleStays)
	case !t.last.Ended() || t.id == "":
		t.skip("the run has not ended", ruleStays)
	default:
		a, failure := t.asked(ctx, t.Client, run.PhasePoll, t.id)
		if failure != nil {
			t.add(ruleStays, t.said(ctx, failure))
			break
		}
		r, faults := t.judge(a, document.Asked{Phase: run.PhasePoll, ExecutionID: t.id})
		if r != nil && r.State != t.last {
			faults = append(faults, fmt.Sprintf("it was %s, and is %s", t.last, r.State))
		}
		t.add(ruleStays, faults...)
	}
	if wrong == nil || !hasStatus || t.id == "" {
		t.skip("there is no credential, or no status_url", ruleStranger)
		return
	}
	a, failure := t.asked(ctx, wrong, run.PhasePoll, t.id)
	t.add(ruleStranger, t.statusFaults(ctx, a, failure, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound)...)
}

// resultFaults reads the result twice.
func (t *Trial) resultFaults(ctx context.Context) []string {
	var first jsontext.Value
	for i := range 2 {
		a, failure := t.asked(ctx, t.Client, run.PhaseResult, t.id)
		if failure != nil {
			return []string{t.said(ctx, failure)}
		}
		r, failure := t.Client.Judge(a, document.Asked{Phase: run.PhaseResult, ExecutionID: t.id, MayBeBare: true})
		switch {
		case failure != nil:
			return []string{fmt.Sprintf("HTTP %d: %s", a.Status, failure.Message)}
		case r.Output == nil:
			return []string{"it has no output"}
		}
		if faults := t.outputFaults(ctx, r.Output); faults != nil {
			return faults
		}
		output := r.Output.Clone()
		if err := output.Canonicalize(); err != nil { // so that the order of members does not matter
			return []string{"its output is not valid: " + err.Error()}
		}
		if i > 0 && !bytes.Equal(first, output) {
			return []string{"the second one has another output"}
		}
		first = output
	}
	return nil
}

// wrong returns a client with a credential that the provider can't know; nil: the skill needs none, or one of its own kind.
func (t *Trial) wrong() *skillsharing.Client {
	if auth := t.Skill.Auth.Type; auth != document.AuthAPIKey && auth != document.AuthOAuth2 {
		return nil
	}
	return t.Client.WithCredentials(wrongCredential("wrong-" + rand.Text()))
}

// wrongCredential is a credential that no provider knows.
type wrongCredential string

// Supports implements [credential.Credentials].
func (wrongCredential) Supports(*document.Auth) bool { return true }

// Authenticate implements [credential.Credentials].
func (w wrongCredential) Authenticate(_ context.Context, a *credential.Authentication) error {
	name, value := "Authorization", "Bearer "+string(w)
	if a.Auth != nil && a.Auth.Type == document.AuthAPIKey {
		name, value = a.Auth.ApiKeyHeader(), string(w)
	}
	a.Request.Header.Set(name, value)
	return nil
}

// Secrets implements [credential.Credentials].
func (wrongCredential) Secrets() []string { return nil }
