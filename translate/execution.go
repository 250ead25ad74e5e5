package translate

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// execution is one call on its way.
type execution struct {
	bridge  *Bridge
	call    Call
	caller  callContext
	ctx     context.Context    // caller, or with a deadline
	cancel  context.CancelFunc // of the deadline; may be nil
	stop    stoppable
	finding callContext
	listed  *catalog.Listed // once the name is resolved
	found   *catalog.Found  // once the descriptor is read
	reached catalog.Found   // what found points to then
	timeout time.Duration   // the effective one
	ref     run.Ref         // once the run is accepted
	outcome run.Run
	figures Statistics

	known     document.Response // of the run; no state: none was accepted
	failure   *run.Failure
	operation Operation
	begun     bool // its skill was invoked or its run found, or it is known why not

	admission
}

func (b *Bridge) begin(ctx context.Context, o Operation, call Call) *execution {
	if call.Arrived.IsZero() {
		call.Arrived = time.Now()
	}
	if call.TraceID == "" {
		call.TraceID = newTraceID()
	}
	x := &execution{bridge: b, call: call, operation: o}
	x.caller.Context, x.caller.execution = b.config.Observer.Begin(ctx, &x.call), x
	x.ctx = &x.caller
	x.timeout = b.config.MaxTimeout
	if call.Timeout > 0 {
		x.timeout = min(max(call.Timeout, minTimeout), b.config.MaxTimeout)
	}
	x.stop.call, x.stop.bridge = &x.call, b
	b.config.Stop.add(&x.stop)
	return x
}

// end gives up what the call holds, and reports it.
func (x *execution) end() {
	if x.cancel != nil {
		x.cancel()
	}
	x.bridge.config.Stop.remove(&x.stop)
	x.leave()
	s := &x.figures
	s.Operation, s.Duration = x.operation, time.Since(x.call.Arrived)
	if x.found != nil {
		s.Descriptor = x.found.State
	}
	switch {
	case x.listed != nil:
		s.Source = x.listed.Section.Namespace
	case x.concerned != nil:
		s.Source = x.concerned.Namespace
	}
	x.bridge.config.Observer.Called(x.ctx, &x.call, &x.outcome, s)
}

// setDeadline bounds what follows, counted from the call's arrival.
func (x *execution) setDeadline(timeout time.Duration) {
	x.timeout = timeout
	x.ctx, x.cancel = context.WithDeadline(&x.caller, x.deadline())
	x.stop.waitFor(x.cancel)
}

func (x *execution) deadline() time.Time { return x.call.Arrived.Add(x.timeout) }

// submit finds the skill, checks the arguments and invokes it.
func (x *execution) submit() *run.Failure {
	if failure := x.take(&x.bridge.runs); failure != nil {
		return failure
	}
	if failure := x.discover(x.findByName); failure != nil {
		return failure
	}
	x.figures.Found = time.Now()
	f := x.found
	x.setDeadline(x.effectiveTimeout())
	if e := f.Skill.CheckInputs(x.ctx, x.call.Principal, x.call.Inputs, x.call.Checks); e != nil {
		return e
	}
	if failure := x.withhold(); failure != nil {
		return failure
	}
	// A place is taken before the run is submitted or followed: one that was accepted can't be turned away any more.
	if failure := x.take(&x.bridge.waiting); failure != nil {
		return failure
	}
	response, err := f.Invoker.Client.Submit(x.ctx, f.Skill, &skillsharing.Invocation{
		Inputs: x.call.Inputs.Text, TraceID: x.call.TraceID, Timeout: x.timeout, Until: x.until(), TraceParent: x.call.TraceParent,
	}, &x.figures.Stats)
	x.figures.Submitted = time.Now()
	if err != nil {
		if err.Gone() {
			f.Forget()
		}
		if err.Executed == run.ExecutedYes && !err.Lost { // only the answer is missing
			x.accept(&document.Response{ExecutionID: err.ExecutionID, State: run.Accepted})
		}
		return err
	}
	x.accept(response)
	return nil
}

// accept notes which run the call is about. The response is copied: what it is part of holds the
// arguments.
func (x *execution) accept(r *document.Response) {
	f := x.found
	x.known = *r
	x.ref = run.Ref{
		Source: f.Section.Namespace, SkillID: f.Skill.ID, Version: safetext.Clip(f.Skill.Version, 200),
		ExecutionID: r.ExecutionID, Accepted: x.figures.Submitted,
	}
	x.stop.noteRun(x.ref)
}

// discoveryTimeout bounds what it takes to find a skill. What is being read goes
// on to be read, and may be there for the next call.
const discoveryTimeout = 10 * time.Second

// discover bounds what finds a skill.
func (x *execution) discover(find func(context.Context) *run.Failure) *run.Failure {
	x.finding.Context, x.finding.execution, x.finding.deadline = x.ctx, x, time.Now().Add(discoveryTimeout)
	own := x.deadline()
	if own.Before(x.finding.deadline) {
		x.finding.deadline = own
	}
	defer x.finding.end()
	failure := find(&x.finding)
	if failure != nil && failure.Kind == run.DeadlineExceeded && x.ctx.Err() == nil && time.Now().Before(own) {
		return slowDiscovery(failure, x.bridge.config.Cache.NegativeTTL())
	}
	return failure
}

// findByName resolves the name and reads the descriptor.
func (x *execution) findByName(ctx context.Context) (failure *run.Failure) {
	// A source that a name tells by itself is judged before it is read.
	if failure = x.admitTo(x.bridge.catalog.Owner(x.call.Name)); failure != nil {
		return failure
	}
	if x.listed, failure = x.bridge.catalog.Resolve(ctx, x.call.Name, x.call.Principal); failure != nil {
		return failure
	}
	return x.read(ctx, x.call.Version)
}

// read reads the descriptor of the skill that was found. Who lists a skill and
// who runs it may be two sources, and both have a say.
func (x *execution) read(ctx context.Context, version string) *run.Failure {
	if failure := x.admitTo(x.listed.Section); failure != nil {
		return failure
	}
	found, failure := x.bridge.catalog.Read(ctx, x.listed, version)
	if failure != nil {
		return failure
	}
	if failure := x.admitTo(found.Invoker); failure != nil {
		return failure
	}
	x.reached = found
	x.found = &x.reached
	return nil
}

// withhold is the failure of a call that would need a credential which its skill may
// not use.
func (x *execution) withhold() *run.Failure {
	e, notice := x.found.Withhold()
	if e == nil {
		return nil
	}
	x.bridge.config.Observer.Notice(x.ctx, notice)
	return e
}

// effectiveTimeout is the caller's, else the descriptor's, else the default.
func (x *execution) effectiveTimeout() time.Duration {
	timeout := x.call.Timeout
	if timeout <= 0 {
		timeout = x.found.Skill.Timeout()
	}
	if timeout <= 0 {
		timeout = x.bridge.config.DefaultTimeout
	}
	return min(max(timeout, minTimeout), x.bridge.config.MaxTimeout)
}

// minTimeout is the shortest timeout, one unit of those that agents and
// descriptors state.
const minTimeout = time.Millisecond

// findRun finds the skill of a run that was submitted before. Whatever keeps it
// from being found, the run exists.
func (x *execution) findRun(ref run.Ref) (failure *run.Failure) {
	defer func() {
		if failure != nil {
			failure = aboutRun(failure, ref.ExecutionID)
		}
	}()
	if failure = x.take(&x.bridge.runs); failure != nil {
		return failure
	}
	failure = x.discover(func(ctx context.Context) *run.Failure {
		var failure *run.Failure
		if x.listed, failure = x.bridge.catalog.ByRef(ctx, ref); failure != nil {
			return failure
		}
		return x.read(ctx, "")
	})
	if failure != nil {
		return failure
	}
	x.figures.Found = time.Now()
	if failure = x.withhold(); failure != nil {
		return failure
	}
	return x.take(&x.bridge.waiting)
}

// until is when the agent wants to hear how the run is; zero: not before its end.
func (x *execution) until() time.Time {
	if x.call.Wait == nil {
		return time.Time{}
	}
	return x.call.Arrived.Add(min(*x.call.Wait, x.timeout))
}

// answerMembers is more than what stands around the output of a run in an answer, in bytes.
const answerMembers = 2 << 10

// fit sees to it that there is room for what is known of a run in the answer.
func (x *execution) fit(r *document.Response, failure *run.Failure) (*document.Response, *run.Failure) {
	budget := x.call.Answer
	if budget == nil || failure != nil || !r.State.Ended() {
		return r, failure
	}
	size := len(r.Output) + answerMembers
	if r.Error != nil {
		size += len(r.Error.Details)
	}
	if budget.Reserve(int64(size)) {
		return r, nil
	}
	skill, known := x.found.Skill, *r
	followable := known.ExecutionID != "" && skill.Followable()
	e := exchange.NoRoom(budget, run.PhaseResult, known.ExecutionID, run.ExecutedYes, followable)
	if !followable {
		return nil, e
	}
	known.Output, known.Error = nil, nil // what it was read from is not kept either
	return &known, e
}

// judge makes the outcome of a run's last known state.
func (x *execution) judge(r *document.Response, failure *run.Failure) run.Run {
	var o run.Run
	switch {
	case x.found != nil:
		o.SkillID = x.found.Skill.ID
	case x.listed != nil:
		o.SkillID = x.listed.ID
	}
	if failure != nil {
		if (failure.Kind == run.DeadlineExceeded || failure.Kind == run.Unreachable) && failure.By == run.Bridge && x.left() {
			failure.Kind = run.ClientGone // whatever it was that could not be waited for
		}
		if failure.SkillID == "" {
			failure.SkillID = o.SkillID
		}
		addTimeout(failure, x.timeout)
		o.Failure = failure
	}
	if r == nil || r.State == 0 {
		return o
	}
	x.ref.NotBefore = r.NotBefore
	o.Ref, o.State, o.Output, o.Elapsed, o.RetryAfter = x.ref, r.State, r.Output, r.Elapsed, r.RetryAfter
	if o.ExecutionID == "" {
		o.ExecutionID = newRunID()
	}
	switch {
	case failure != nil:
	case r.State == run.Completed && r.Output == nil:
		o.Output = jsontext.Value("null")
	case r.State == run.Failed, r.State == run.TimedOut:
		e := x.found.Invoker.Client.RunError(x.found.Skill, r)
		e.ExecutionID = o.ExecutionID
		o.Failure = e
	}
	return o
}

// left reports whether the agent has hung up.
func (x *execution) left() bool {
	return errors.Is(x.ctx.Err(), context.Canceled) && !x.stop.Stopping()
}

// newRunID invents an id for a run that completed without having one.
func newRunID() string { return "run_" + rand.Text() }

// newTraceID makes a W3C trace id.
func newTraceID() string {
	var id [16]byte
	var text [2 * len(id)]byte
	binary.NativeEndian.PutUint64(id[:8], mathrand.Uint64()|1) //nolint:gosec // unique, and never all zeros; no secret
	binary.NativeEndian.PutUint64(id[8:], mathrand.Uint64())   //nolint:gosec // as above
	hex.Encode(text[:], id[:])
	return string(text[:])
}
