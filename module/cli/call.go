package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const (
	// MaxTimeout is the max_timeout of the command's bridge, and the longest time to follow a run.
	MaxTimeout = 24 * time.Hour
	// DefaultTimeout is the timeout of the command's bridge: how long a provider may take to accept a run.
	DefaultTimeout = 25 * time.Second
)

// Call implements [Skills].
func (p *Provider) Call(ctx context.Context, skill string, args Arguments, timeout time.Duration) int {
	f := p.following(timeout)
	defer f.progress.end()
	d, failure := p.Bridge.Describe(ctx, translate.Call{Name: skill, Timeout: timeout})
	if failure != nil {
		return f.end(ctx, run.Run{Failure: failure})
	}
	object, unknown, err := args.object(d.Descriptor.Inputs)
	if err != nil {
		return f.end(ctx, run.Run{Ref: run.Ref{SkillID: d.Descriptor.ID}, Failure: invalidArguments(d.Descriptor.ID, err)})
	}
	for _, name := range unknown {
		f.progress.line(fmt.Sprintf("note: the skill does not name an input %q", name))
	}
	// Only a timeout that exceeds the skill's is sent to the provider.
	longer := time.Duration(0)
	if timeout > cmp.Or(time.Duration(d.Descriptor.Endpoint.TimeoutMS*float64(time.Millisecond)), DefaultTimeout) {
		longer = f.left()
	}
	starting, cancel := context.WithTimeout(ctx, f.left())
	defer cancel()
	// Wait is 0, so that the id of an accepted run can be shown at once.
	r := p.Bridge.Start(starting, translate.Call{Name: skill, Inputs: jsonrpc.Object{Text: object}, Timeout: longer, Wait: new(time.Duration)}).Wait()
	if r.GoesOn() {
		f.progress.running("accepted " + r.ExecutionID)
		if f.pause(ctx, r.RetryAfter) {
			r = f.follow(ctx, r.Ref)
		}
	}
	return f.end(ctx, r)
}

// Follow implements [Skills].
func (p *Provider) Follow(ctx context.Context, skill, executionID string, timeout time.Duration) int {
	f := p.following(timeout)
	defer f.progress.end()
	d, failure := p.Bridge.Describe(ctx, translate.Call{Name: skill, Timeout: timeout})
	if failure != nil {
		about := *failure // a copy that says that the run exists, so that the advice is not to start another one
		about.ExecutionID, about.Executed, about.SkillID = executionID, run.ExecutedYes, cmp.Or(about.SkillID, skill)
		return f.end(ctx, run.Run{Ref: run.Ref{SkillID: skill}, Failure: &about})
	}
	f.progress.running("following " + executionID)
	return f.end(ctx, f.follow(ctx, run.Ref{
		Source: d.Namespace, SkillID: d.Descriptor.ID, Version: d.Descriptor.Version, ExecutionID: executionID,
	}))
}

// InvalidArguments writes a usage error as JSON if the command was called with --json.
func (s *Screen) InvalidArguments(err error) {
	if s.AsJSON {
		f := invalidArguments("", err)
		s.JSON(wholeOutcome{Status: "error", Error: newWholeError(f, f.Next())})
		s.End(WrongUsage)
	}
}

func invalidArguments(skillID string, err error) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidArguments, Message: err.Error(), Phase: run.PhaseInvoke,
		By: run.Bridge, Ref: run.Ref{SkillID: skillID}, Executed: run.ExecutedNo,
	}
}

// waiting is how long a command that follows a run may wait, and its progress.
type waiting struct {
	timeout  time.Duration // 0: none
	progress *progress
	start    time.Time
}

func newWaiting(s *Screen, timeout time.Duration) waiting {
	return waiting{timeout, newProgress(s), time.Now()}
}

// left returns how long the command may still wait.
func (w *waiting) left() time.Duration {
	if w.timeout == 0 {
		return MaxTimeout
	}
	return min(MaxTimeout, w.timeout-time.Since(w.start))
}

// pause waits for d, but not beyond the timeout. It reports whether there is time left.
func (w *waiting) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(min(d, w.left()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return w.left() > 0
	}
}

// following is the state of a command that follows a run.
type following struct {
	*Provider
	waiting
}

func (p *Provider) following(timeout time.Duration) *following {
	return &following{p, newWaiting(p.Screen, timeout)}
}

func (f *following) follow(ctx context.Context, ref run.Ref) run.Run {
	for {
		wait := f.left()
		r := f.Bridge.Resume(ctx, ref, translate.Call{Wait: &wait}).Wait()
		if !r.GoesOn() || f.left() <= 0 {
			return r
		}
	}
}

// end writes the result of a call and returns the exit status.
func (f *following) end(ctx context.Context, r run.Run) int {
	f.progress.end()
	elapsed := time.Since(f.start)
	if ctx.Err() == nil {
		waited := elapsed
		if f.timeout > 0 {
			waited = min(elapsed, f.timeout) // the timer fires a little late
		}
		r.Failure = late(r.Failure, waited)
	}
	status := f.report(ctx, r, seconds(elapsed))
	if r.State != 0 {
		f.Screen.ifLost = "the skill was executed: calling it again executes it again; if it has a status or result URL, this gets the result: " +
			f.command("follow", r.SkillID, r.ExecutionID)
	}
	switch {
	case f.Screen.AsJSON:
		f.Screen.JSON(f.whole(ctx, r, elapsed))
	case status == OK:
		f.Screen.JSON(r.Output)
	}
	return status
}

// report writes the outcome of a call to Err and returns the exit status.
func (f *following) report(ctx context.Context, r run.Run, elapsed string) int {
	s, failure := f.Screen, r.Failure
	switch {
	case failure == nil && r.State.Ended():
		s.note("completed in " + elapsed)
		return OK
	case failure != nil && failure.Kind == run.RunFailed:
		s.Complain("failed after %s: %s: %s", elapsed, document.CodeOf(failure), failure.OperatorMessage())
		if details := front.Details(failure); details != nil {
			s.note("       details: " + printable(string(details)))
		}
		return FailedRun
	case ctx.Err() != nil && r.State != 0: // the protocol can't cancel a run
		s.note("interrupted; the run continues. Follow it with")
		s.note("  " + safetext.Escape(f.command("follow", r.SkillID, r.ExecutionID), ""))
		return Interrupted
	case ctx.Err() != nil && failure.Executed == run.ExecutedMaybe:
		s.note("interrupted before the provider answered; the skill may have been executed")
		return Interrupted
	case ctx.Err() != nil:
		s.note("interrupted; nothing was executed")
		return Interrupted
	case failure == nil:
		s.Complain("the run had not ended after %s", elapsed)
		s.Advise("it continues; follow it: " + f.command("follow", r.SkillID, r.ExecutionID))
	case isLate(failure) && f.timeout > 0 && failure.Executed == run.ExecutedNo:
		f.explain(failure, "nothing was executed; a longer --timeout gives it more time")
	default:
		f.explain(failure, f.next(failure))
	}
	return ProtocolError
}

// wholeOutcome is the result of a call as JSON.
type wholeOutcome struct {
	Status      string         `json:"status"` // of the run; "error" if none was accepted
	SkillID     string         `json:"skill_id,omitzero"`
	ExecutionID string         `json:"execution_id,omitzero"`
	ElapsedMS   int64          `json:"elapsed_ms"`
	Output      jsontext.Value `json:"output,omitzero"`
	Error       *wholeError    `json:"error,omitzero"`
	Follow      string         `json:"follow,omitzero"` // the command that follows the unfinished run
}

func (f *following) whole(ctx context.Context, r run.Run, elapsed time.Duration) wholeOutcome {
	w := wholeOutcome{Status: "error", SkillID: r.SkillID, ElapsedMS: elapsed.Milliseconds()}
	unfinished := r.State != 0 && !r.State.Ended()
	if r.State != 0 {
		w.Status, w.ExecutionID, w.Output = r.State.String(), r.ExecutionID, r.Output
	}
	if unfinished && (r.Failure == nil || ctx.Err() != nil || r.Failure.Next() == run.NextFollowRun) {
		w.Follow = f.command("follow", r.SkillID, r.ExecutionID)
	}
	if r.Failure != nil && (ctx.Err() == nil || !unfinished) { // else the command was interrupted, and the run continues
		w.Error = newWholeError(r.Failure, r.Failure.Next())
	}
	return w
}
