package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const (
	// MaxTimeout is the max_timeout of the command's bridge, and the longest time to follow a run.
	MaxTimeout = 24 * time.Hour
	// DefaultTimeout is the timeout of the command's bridge: how long a provider may take to accept a run.
	DefaultTimeout = 25 * time.Second
	// followWait is how long the bridge is asked to wait for the end of a run: less than the timeouts of most proxies.
	followWait = 20 * time.Second
	// localWait is the same for the bridge in the process. It is longer than a provider may not know a run that it has accepted, so that the
	// command learns that the run is lost.
	localWait = time.Minute
	// shortestPause is the shortest time between two questions about a run that the bridge has answered at once.
	shortestPause = time.Second
)

// InvalidArguments writes a usage error as JSON if the command was called with --json.
func (s *Screen) InvalidArguments(err error) {
	if s.AsJSON {
		s.JSON(wholeOutcome{Status: "error", Error: newWholeError(run.NotExecuted(run.InvalidArguments, run.PhaseInvoke, err.Error()))})
		s.End(WrongUsage)
	}
}

// wholeOutcome is the result of a call as JSON.
type wholeOutcome struct {
	Status      string         `json:"status"` // of the run; "error" if it is not known
	SkillID     string         `json:"skill_id,omitzero"`
	ExecutionID string         `json:"execution_id,omitzero"`
	ElapsedMS   int64          `json:"elapsed_ms"`
	Output      jsontext.Value `json:"output,omitzero"`
	Error       *wholeError    `json:"error,omitzero"`
	Follow      string         `json:"follow,omitzero"` // the command that follows the unfinished run
}

// outcome is the result of execute_skill and of get_run.
type outcome struct {
	Status   string         `json:"status"` // completed, failed or running
	RunID    string         `json:"run_id"`
	RunToken string         `json:"run_token"`
	Output   jsontext.Value `json:"output"`
	Error    *struct {
		Type document.ErrorCode `json:"type"`
		wholeError
	} `json:"error"`
	RetryAfterMS float64 `json:"retry_after_ms"`
	Warnings     []struct {
		Message string `json:"message"`
	} `json:"warnings"`
}

// running is the status of a run that goes on.
const running = "running"

// endpointCall is the state of a command that follows a run with a bridge.
type endpointCall struct {
	*Endpoint
	timeout  time.Duration // 0: none
	start    time.Time
	skill    string
	outcome  outcome // the newest; without a status: there is none
	failure  *refusal
	runToken string // the newest
}

func (e *Endpoint) calling(timeout time.Duration) *endpointCall {
	return &endpointCall{Endpoint: e, timeout: timeout, start: time.Now()}
}

// left returns how long the command may still wait.
func (c *endpointCall) left() time.Duration {
	if c.timeout == 0 {
		return MaxTimeout
	}
	return min(MaxTimeout, c.timeout-time.Since(c.start))
}

// pause waits for d, but not beyond the timeout. It reports whether there is time left.
func (c *endpointCall) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(min(d, c.left())):
		return c.left() > 0
	}
}

// Call runs a skill and follows the run to its end. If timeout is 0, the skill's timeout applies until the run is accepted, and
// then none.
func (e *Endpoint) Call(ctx context.Context, skill string, args Arguments, timeout time.Duration) int {
	c := e.calling(timeout)
	c.skill = skill
	var described struct {
		Skill struct {
			Manifest manifest `json:"manifest"`
		} `json:"skill"`
	}
	describing, cancel := context.WithTimeout(ctx, c.left())
	defer cancel()
	if err := e.ask(describing, 0, "describe_skill", map[string]any{"name": skill}, &described); err != nil {
		return c.end(ctx, err)
	}
	m := &described.Skill.Manifest
	c.skill = cmp.Or(m.Name, skill)
	object, err := args.object(m.inputs())
	if err != nil {
		r := e.refused(run.NextFixParams, run.ExecutedNo, err.Error())
		r.Code, r.SkillID, r.URL = document.ValidationError, c.skill, ""
		return c.end(ctx, r)
	}
	params := map[string]any{"name": c.skill, "args": object, "wait_ms": 0} // so that the run can be followed if this command is interrupted
	if timeout > document.Milliseconds(m.Timing.TimeoutMS) {
		params["timeout_ms"] = c.left().Milliseconds()
	}
	err = c.submit(ctx, params)
	if r, ok := errors.AsType[*refusal](err); ok && r.Reason == run.OnlyRead {
		r.SkillID = c.skill
	}
	for _, w := range c.outcome.Warnings {
		c.Screen.progress("note: " + w.Message)
	}
	if err == nil && c.outcome.Status == running {
		c.Screen.progress("accepted " + c.outcome.RunID)
		err = c.follow(ctx)
	}
	return c.end(ctx, err)
}

// Follow follows an earlier run to its end: one of a provider by skill and execution id, one of a bridge elsewhere by its run token. If timeout
// is 0, it waits without limit.
func (e *Endpoint) Follow(ctx context.Context, skill, id string, timeout time.Duration) int {
	c := e.calling(timeout)
	if e.Provider == nil {
		c.runToken = id
		c.Screen.progress("following the run")
		return c.end(ctx, c.follow(ctx))
	}
	c.skill, c.outcome.RunID = skill, id
	finding, cancel := context.WithTimeout(ctx, c.left())
	defer cancel()
	var failure *run.Failure
	if c.runToken, failure = e.Provider.Token(finding, skill, id); failure != nil {
		return c.end(ctx, refusalOf(failure))
	}
	c.Screen.progress("following " + id)
	return c.end(ctx, c.follow(ctx))
}

const (
	// paramKey is the param of execute_skill with which a call can be repeated.
	paramKey = "idempotency_key"
	// repetitions is how often a call is sent again after a lost connection, and firstRepetition the pause before the first time. The pauses double.
	repetitions     = 4
	firstRepetition = time.Second
)

// submit sends a call with an idempotency key, and sends it again if the connection is lost: it is not executed twice.
func (c *endpointCall) submit(ctx context.Context, params map[string]any) error {
	if c.Provider != nil {
		return c.submitOnce(ctx, params)
	}
	params[paramKey] = uuid.NewString()
	err := c.submitOnce(ctx, params)
	if r, ok := errors.AsType[*refusal](err); ok && r.Param == paramKey && r.Executed == run.ExecutedNo { // the bridge has no keys
		delete(params, paramKey)
		return c.submitOnce(ctx, params)
	}
	for n, pause := 0, firstRepetition; n < repetitions && isLost(err) && c.pause(ctx, pause); n, pause = n+1, 2*pause {
		knows, asking := c.knowsKeys(ctx)
		switch {
		case asking != nil: // the bridge can't be reached yet
		case !knows:
			return err
		default:
			c.Screen.progress("note: the connection to the bridge was lost; the call is sent again with its idempotency key, so that it is not executed twice")
			err = c.submitOnce(ctx, params)
		}
	}
	return err
}

// isLost reports whether a call was sent to a bridge, and has no answer.
func isLost(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.URL != "" && r.Code == document.EndpointUnreachable && r.Executed == run.ExecutedMaybe
}

func (c *endpointCall) submitOnce(ctx context.Context, params map[string]any) error {
	starting, cancel := context.WithTimeout(ctx, c.left())
	defer cancel()
	return c.asked(c.ask(starting, c.left(), methodExecute, params, &c.outcome))
}

// knowsKeys asks whether the OpenRPC document of the bridge has idempotency keys. Another bridge may ignore a param that it does not know.
func (c *endpointCall) knowsKeys(ctx context.Context) (knows bool, err error) {
	var discovered jsontext.Value
	err = c.ask(ctx, 0, "rpc.discover", map[string]any{}, &discovered)
	if r, ok := errors.AsType[*refusal](err); ok && r.Code != document.EndpointUnreachable {
		return false, nil // the bridge has answered
	}
	return bytes.Contains(discovered, []byte(`"`+paramKey+`"`)), err
}

// asked keeps the token of the run, and returns err.
func (c *endpointCall) asked(err error) error {
	if r, refused := errors.AsType[*refusal](err); refused {
		c.outcome.RunID = cmp.Or(c.outcome.RunID, r.ExecutionID)
		c.runToken = cmp.Or(r.RunToken, c.runToken)
		r.RunToken = c.runToken
	}
	c.runToken = cmp.Or(c.outcome.RunToken, c.runToken)
	return err
}

// follow asks for the run until it has ended, or until the timeout.
func (c *endpointCall) follow(ctx context.Context) error {
	for c.runToken != "" && c.left() > 0 {
		asked, wait := time.Now(), min(followWait, c.left())
		if c.Provider != nil {
			wait = min(localWait, c.left())
		}
		err := c.asked(c.ask(ctx, wait, methodGetRun, map[string]any{"run_token": c.runToken, "wait_ms": wait.Milliseconds()}, &c.outcome))
		if err != nil || c.outcome.Status != running {
			return err
		}
		if time.Since(asked) < shortestPause && !c.pause(ctx, max(shortestPause, min(followWait, document.Milliseconds(c.outcome.RetryAfterMS)))) {
			return ctx.Err()
		}
	}
	return nil
}

// followCommand returns the command with which to continue.
func (c *endpointCall) followCommand() string {
	if c.Provider != nil {
		return c.command("follow", c.skill, c.outcome.RunID)
	}
	return c.command("follow", c.runToken)
}

// goesOn reports whether the run can be followed.
func (c *endpointCall) goesOn(ctx context.Context) bool {
	switch {
	case c.runToken == "":
		return false
	case c.failure != nil:
		return c.failure.Next == run.NextFollowRun || ctx.Err() != nil
	}
	return c.outcome.Status == running || c.outcome.Error != nil && c.outcome.Error.Next == run.NextFollowRun
}

// end writes the result of a call and returns the exit status.
func (c *endpointCall) end(ctx context.Context, err error) int {
	elapsed := time.Since(c.start)
	if err != nil {
		c.failure, _ = errors.AsType[*refusal](err)
	}
	if c.failure != nil && c.failure.SkillID != "" {
		c.failure.SkillID = c.skill
	}
	status := c.report(ctx, err, seconds(elapsed))
	s := c.Screen
	if c.outcome.Status != "" {
		s.ifLost = "the skill was executed: calling it again executes it again"
		if c.runToken != "" {
			s.ifLost += "; this gets the result: " + c.followCommand()
		}
	}
	switch {
	case s.AsJSON:
		s.JSON(c.whole(ctx, elapsed))
	case status == OK:
		s.JSON(c.outcome.Output)
	}
	return status
}

// report writes the outcome of a call to Err and returns the exit status.
func (c *endpointCall) report(ctx context.Context, err error, elapsed string) int {
	s, o := c.Screen, &c.outcome
	switch {
	case ctx.Err() != nil && c.goesOn(ctx):
		s.note("interrupted; the run continues. Follow it with")
		s.note("  " + safetext.Escape(c.followCommand(), ""))
		return Interrupted
	case ctx.Err() != nil && (c.failure == nil || c.failure.Executed == run.ExecutedNo):
		s.note("interrupted; nothing was executed")
		return Interrupted
	case ctx.Err() != nil:
		s.note("interrupted before there was an answer; the skill may have been executed")
		return Interrupted
	case c.failure != nil && c.timeout > 0 && c.left() <= 0 && c.failure.Executed == run.ExecutedNo:
		c.explain(c.failure, "nothing was executed; a longer --timeout gives it more time")
		return ProtocolError
	case c.failure != nil:
		c.explain(c.failure, c.next(c.failure))
		return ProtocolError
	case err != nil:
		s.Complain("%v", err)
		return ProtocolError
	case o.Status == "completed":
		s.note("completed in " + elapsed)
		return OK
	case c.goesOn(ctx):
		s.Complain("the run had not ended after %s", elapsed)
		s.Advise("it continues; follow it: " + c.followCommand())
		return ProtocolError
	case o.Error == nil:
		s.Complain("the bridge's answer has the status %q, and no reason for that", o.Status)
		return ProtocolError
	}
	s.Complain("failed after %s: %s: %s", elapsed, o.Error.Type, o.Error.Message)
	if o.Error.Details != nil {
		s.note("       details: " + printable(string(o.Error.Details)))
	}
	return FailedRun
}

// whole returns the result of a call as JSON.
func (c *endpointCall) whole(ctx context.Context, elapsed time.Duration) wholeOutcome {
	o := &c.outcome
	w := wholeOutcome{Status: cmp.Or(o.Status, "error"), SkillID: c.skill, ExecutionID: o.RunID, ElapsedMS: elapsed.Milliseconds(), Output: o.Output}
	if c.goesOn(ctx) {
		w.Follow = c.followCommand()
	}
	switch {
	case c.failure != nil && (ctx.Err() == nil || w.Follow == ""):
		w.Error = &c.failure.wholeError
	case o.Error != nil:
		w.Error = &o.Error.wholeError
		w.Error.Code = o.Error.Type
	}
	return w
}
