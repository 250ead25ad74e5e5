package translate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// setDeadline sets the deadline of the call, counted from its arrival.
func (x *execution) setDeadline(timeout time.Duration) {
	x.timeout = timeout
	x.ctx, x.cancel = context.WithDeadline(x.ctx, x.call.deadline(x.timeout))
}

// submit finds the skill, checks the arguments and invokes it.
func (x *execution) submit() *run.Failure {
	if failure := x.acquire(&x.bridge.runs); failure != nil {
		return failure
	}
	priority, failure := priorityOf(x.call.Priority, x.bridge.config.Priority)
	if failure != nil {
		return failure
	}
	if failure := x.discover(x.findByName); failure != nil {
		return failure
	}
	x.figures.Found = time.Now()
	f := x.found
	if f.Skill.Files != nil {
		return unexecutable(f)
	}
	if failure := f.Skill.Unsupported(); failure != nil {
		return failure
	}
	x.setDeadline(x.timeoutFor(x.call.Timeout))
	prepared, failure := prepare(x)
	if failure != nil {
		return failure
	}
	x.figures.Unknown = f.Skill.UnknownInputs(x.call.Inputs, maxUnknown)
	if prepared == nil || !prepared.hasChecked(x.call.Inputs.Text) {
		if failure := f.Skill.CheckInputs(x.ctx, x.call.Principal, x.call.Inputs, x.call.Checks); failure != nil {
			return failure
		}
	}
	if x.call.Inputs, failure = f.Skill.RestoredInputs(x.call.Inputs); failure != nil {
		return failure
	}
	if failure := x.withhold(); failure != nil {
		return failure
	}
	if failure := f.Unconnected(x.ctx, x.call.Principal); failure != nil {
		return failure
	}
	caller, failure := callerOf(x)
	if failure != nil {
		return failure
	}
	x.count(&x.bridge.waiting)
	if prepared != nil {
		if failure := x.call.Prepare.Invoke(x.ctx, prepared); failure != nil {
			return failure
		}
	}
	response, err := f.Invoker.Client.Submit(x.ctx, f.Skill, &skillsharing.Invocation{
		Inputs: x.call.Inputs.Text, Caller: caller, Priority: priority, TraceID: x.call.TraceID, Timeout: toldTimeout(x), TraceParent: x.call.TraceParent,
	}, &x.figures.Stats)
	x.figures.Submitted = time.Now()
	if err != nil {
		f.NoteCall(x.call.Principal, err)
		if err.Gone() {
			f.Forget()
		}
		if err.Executed == run.ExecutedYes && !err.Lost { // it can be followed
			x.accept(&document.Response{ExecutionID: err.ExecutionID, State: run.Accepted})
		}
		return err
	}
	f.NoteCall(x.call.Principal, skillsharing.Refusal(f.Invoker.Client, f.Skill, response))
	x.accept(response)
	return nil
}

// callerOf returns who the provider is told is calling; zero: the bridge. A skill of a registry is the provider's that its descriptor came from.
func callerOf(x *execution) (skillsharing.Caller, *run.Failure) {
	told, invoker := x.bridge.config.CallerOf, x.found.Invoker
	switch {
	case told == nil, x.call.Principal == "", !x.found.Skill.SendsBody():
		return skillsharing.Caller{}, nil
	case invoker.Kind == catalog.RegistrySource:
		return told(x.ctx, x.call.Principal, x.found.Skill.URL)
	}
	return told(x.ctx, x.call.Principal, invoker.URL)
}

// accept notes the run of the call. It copies the response, which is part of something that holds the inputs.
func (x *execution) accept(r *document.Response) {
	x.known = *r
	x.ref = refOf(x.found)
	x.ref.ExecutionID, x.ref.Accepted = r.ExecutionID, x.figures.Submitted
	x.stop.noteRun(x.ref)
}

// refOf returns what a run of a skill is known by before it is submitted.
func refOf(f *catalog.Found) run.Ref {
	return run.Ref{Source: f.Section.Namespace, SkillID: cmp.Or(f.ID, f.Skill.ID), Version: f.Skill.Version}
}

// discoveryTimeout bounds how long a call waits for the documents of a skill. The reading itself goes
// on, so that the documents may be cached for the next call.
const discoveryTimeout = 10 * time.Second

// discover calls find within the discovery timeout and the deadline of the call.
func (x *execution) discover(find func(context.Context) *run.Failure) *run.Failure {
	own := x.call.deadline(x.timeout)
	end := time.Now().Add(discoveryTimeout)
	if own.Before(end) {
		end = own
	}
	ctx, cancel := context.WithDeadline(x.ctx, end)
	defer cancel()
	failure := find(ctx)
	if failure != nil && failure.Kind == run.DeadlineExceeded && x.ctx.Err() == nil && time.Now().Before(own) {
		return slowDiscovery(failure, sourceOf(x), x.bridge.config.Cache.NegativeTTL())
	}
	return failure
}

// findByName resolves the name and reads the descriptor.
func (x *execution) findByName(ctx context.Context) (failure *run.Failure) {
	// If the name alone tells the source, the call is admitted to it before it is read.
	if failure = x.admitTo(x.bridge.catalog.Owner(x.call.Name, x.call.Principal)); failure != nil {
		return failure
	}
	if x.listed, failure = x.bridge.catalog.Resolve(ctx, x.call.Name, x.call.Principal); failure != nil {
		return failure
	}
	if failure = takeQuota(x); failure != nil {
		return failure
	}
	if failure = x.read(ctx, x.call.Version); failure != nil {
		return x.readAgain(ctx, failure)
	}
	return nil
}

// readAgain reads the index of a site again, if it seems to be older than a file, since the file is gone or has another digest, and then the
// file that it lists now. If there is none, it returns the failure of the first reading.
func (x *execution) readAgain(ctx context.Context, failure *run.Failure) *run.Failure {
	s := x.listed.Section
	if s.Kind != catalog.SiteSource || !failure.Gone() && !skillsite.IsChange(failure) {
		return failure
	}
	s.Reread(ctx, time.Now().Add(-rereadPause))
	listed, unknown := x.bridge.catalog.Resolve(ctx, x.call.Name, x.call.Principal)
	if unknown != nil || listed == x.listed {
		return failure
	}
	x.listed = listed
	return x.read(ctx, x.call.Version)
}

// read reads the descriptor of the listed skill. A registry's skill may be invoked with the credentials
// of a provider: then the call has to be admitted to both.
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
	x.found = &found
	return nil
}

// withhold is the failure of a call whose skill needs a credential that it may not use.
func (x *execution) withhold() *run.Failure {
	e, notice := x.found.Withhold()
	if e == nil {
		return nil
	}
	x.bridge.config.Observer.Notice(x.ctx, notice)
	return e
}

// lookForGrant is the time between two looks for the grant of a user that a call waits for, since announcements may be lost.
const lookForGrant = time.Second

// awaitConsent waits until the user of the principal has connected the account that the skill needs, as long as the call says.
func (x *execution) awaitConsent() (failure *run.Failure) {
	ctx, cancel := context.WithTimeout(x.ctx, x.call.Consent)
	defer cancel()
	for {
		granted := (<-chan struct{})(nil)
		if x.bridge.config.Grants != nil {
			granted = x.bridge.config.Grants()
		}
		if failure = x.found.Unconnected(x.ctx, x.call.Principal, x.call.Scopes...); failure == nil || ctx.Err() != nil {
			return failure
		}
		timer := time.NewTimer(lookForGrant)
		select {
		case <-granted:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// timeoutFor is the agent's timeout, else (0) the descriptor's, else the default, within the bounds. The default of a
// patient call is the maximum.
func (x *execution) timeoutFor(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		timeout = x.found.Skill.Timeout()
	}
	if timeout <= 0 {
		if x.call.Patient {
			return x.bridge.config.MaxTimeout
		}
		timeout = x.bridge.config.DefaultTimeout
	}
	return min(max(timeout, minTimeout), x.bridge.config.MaxTimeout)
}

// toldTimeout is the timeout that is sent to the provider; 0: none. A provider that can't be asked about its run gets that of the call, which has
// to wait for the answer.
func toldTimeout(x *execution) time.Duration {
	if !x.call.Unattended || !x.found.Skill.Followable() {
		return x.timeout
	}
	return cmp.Or(max(x.call.Timeout, 0), x.found.Skill.Timeout())
}

// minTimeout is the shortest timeout: agents and descriptors state whole milliseconds.
const minTimeout = time.Millisecond

// findRun finds the skill of a run that was accepted before. Its failures say that the run exists.
func (x *execution) findRun(ref run.Ref) (failure *run.Failure) {
	defer func() {
		if failure != nil {
			failure = aboutRun(failure, ref.ExecutionID)
		}
	}()
	if failure = x.acquire(&x.bridge.runs); failure != nil {
		return failure
	}
	failure = x.discover(func(ctx context.Context) *run.Failure {
		var failure *run.Failure
		if x.kept != nil {
			limited, cancel := context.WithTimeout(ctx, keptDiscovery)
			defer cancel()
			ctx = limited
		}
		if x.listed, failure = x.bridge.catalog.ByRef(ctx, ref, x.call.Principal); failure != nil {
			return failure
		}
		return x.read(ctx, "")
	})
	if x.kept != nil && x.bridge.Permits(&ref, x.call.Principal) {
		return nil
	}
	if failure != nil {
		return failure
	}
	x.figures.Found = time.Now()
	if failure = x.withhold(); failure != nil {
		return failure
	}
	x.count(&x.bridge.waiting)
	return nil
}

// keptDiscovery bounds the time for finding the skill of a run whose outcome is known: it only tells the type of the output.
const keptDiscovery = 2 * time.Second

// answerMembers is an upper bound of the size of an answer without the output of the run, in bytes.
const answerMembers = 2 << 10

// fit reserves room in the answer for the response of a run that has ended, or fails.
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
	known.Output, known.Error = nil, nil // so that the buffer behind them is freed
	return &known, e
}

// judge makes a Run of the newest response about it and of the failure of the call, if there is one.
func (x *execution) judge(r *document.Response, failure *run.Failure) run.Run {
	var o run.Run
	switch {
	case x.found != nil:
		o.SkillID = x.found.Skill.ID
	case x.listed != nil:
		o.SkillID = x.listed.ID
	}
	if r != nil && r.State != 0 && errors.Is(context.Cause(x.ctx), run.ErrLeft) {
		failure = nil
	}
	if failure != nil {
		if (failure.Kind == run.DeadlineExceeded || failure.Kind == run.Unreachable) && failure.By == run.Bridge && callerLeft(x) {
			failure.Kind = run.CallerGone
			if errors.Is(context.Cause(x.ctx), run.ErrCallerCanceled) {
				failure.Kind, failure.Message = run.CallerCanceled, "The caller has canceled the call. A run that was accepted goes on, since the protocol of the provider has no cancellation."
			}
		}
		if failure.SkillID == "" {
			failure.SkillID = o.SkillID
		}
		addTimeout(failure, sourceOf(x), x.timeout)
		o.Failure = mentionHeld(failure, x.found)
	}
	if r == nil || r.State == 0 {
		return o
	}
	x.ref.NotBefore = r.NotBefore
	o.Ref, o.State, o.Output, o.Elapsed, o.RetryAfter = x.ref, r.State, r.Output, r.Elapsed, r.RetryAfter
	o.Warnings = r.Warnings
	if o.ExecutionID == "" {
		o.ExecutionID = "run_" + rand.Text() // it completed in the first answer, which has none
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

// callerLeft reports whether the caller has closed its connection.
func callerLeft(x *execution) bool {
	return errors.Is(x.ctx.Err(), context.Canceled) && !errors.Is(context.Cause(x.ctx), run.ErrStopping)
}

// priorityOf returns the priority of an execution for which an agent has asked for one; empty: it has not. The highest is the operator's; empty: normal.
func priorityOf(asked string, highestAllowed skillsharing.Priority) (skillsharing.Priority, *run.Failure) {
	all := skillsharing.Priorities
	highest := slices.Index(all, cmp.Or(highestAllowed, skillsharing.PriorityNormal))
	if asked == "" {
		return all[min(highest, slices.Index(all, skillsharing.PriorityNormal))], nil
	}
	i := slices.Index(all, asked)
	if 0 <= i && i <= highest {
		return all[i], nil
	}
	reason := run.WrongSchema
	if i > highest {
		reason = run.OverLimit
	}
	allowed := all[:highest+1]
	return "", run.WrongArgument(run.Argument{Field: run.FieldOther, Name: "priority", Reason: reason, Candidates: allowed},
		"The priority "+safetext.Field(asked, maxPriority)+" is none of those that callers of this bridge may ask for: "+strings.Join(allowed, ", ")+".")
}

// maxPriority bounds a priority in a message, in bytes.
const maxPriority = 20
