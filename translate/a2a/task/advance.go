package task

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// stateOf is the state of a task whose call failed.
var stateOf = map[run.Kind]State{
	run.AuthRequired:        AuthRequired,
	run.PermissionDenied:    Rejected,
	run.InvalidDocument:     Rejected,
	run.NotSupported:        Rejected,
	run.VersionIncompatible: Rejected,
	run.SkillNotFound:       Rejected,
	// The state for all other kinds is Failed.
}

// Advance implements [ledger.View]: it gives a task what was learned of its run without a request.
func (f *Tasks) Advance(next *ledger.Entry, o *run.Run) error {
	if next.State == ledger.Unknown {
		o = &run.Run{Failure: &run.Failure{
			Kind: run.Stopped, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe,
			Message: "The bridge was stopped while it invoked the skill, so it does not know whether the skill was executed.",
		}}
		return f.progress(new(made), o, nil)(next)
	}
	waits := next.State == ledger.Waiting || next.State == ledger.Submitting // and its time is over
	own := *o
	return f.progress(new(made), &own, func(t *Task) bool { return waits || f.IsNews(t, &own) })(next)
}

// IsNews reports whether a state of a run is news for its task. That the state can't be read for the moment is none, until the time of the task is up.
func (f *Tasks) IsNews(t *Task, o *run.Run) bool {
	if o.Failure == nil {
		if !o.State.Ended() && f.isLate(t) {
			o.Failure = TimeIsUp(t, nil)
		}
		return true
	}
	switch failure := o.Failure; {
	case failure.EndsRun(), failure.Kind == run.AuthRequired, failure.Kind == run.PermissionDenied:
		return true
	case failure.Kind == run.Stopped, failure.Kind == run.CallerGone, failure.Kind == run.CallerCanceled, !f.isLate(t):
		return false
	default:
		o.Failure = TimeIsUp(t, failure)
		return true
	}
}

// isLate reports whether the time of a task is up.
func (f *Tasks) isLate(t *Task) bool {
	return !t.Deadline.IsZero() && !f.Ledger.Now().Before(t.Deadline)
}

// progress returns a function that gives the next version of an entry the state of its run, and a change the task. wanted reports whether that is news, and may
// change the state; nil: it is.
func (f *Tasks) progress(m *made, o *run.Run, wanted func(*Task) bool) func(next *ledger.Entry) error {
	at := f.Ledger.Now()
	return func(next *ledger.Entry) error {
		var outcome []byte
		said := *o
		err := m.change(next, func(t *Task) error {
			if wanted != nil && !wanted(t) {
				return ledger.ErrUnchanged
			}
			said = *o
			outcome = f.kept(t, &said)
			if !f.Give(t, &said, at) {
				return ledger.ErrUnchanged
			}
			return nil
		})
		if err != nil {
			return err
		}
		if next.State.Ended() {
			next.Outcome = outcome
			next.State = stateOfEntry(next.State, &said)
		}
		return nil
	}
}

// Learn gives a task the state of its run, unless the task waits for an answer meanwhile, perhaps since the change was written though the database did not say
// so, or has got one. It returns the newest version, if the task could be changed. A draft for which isReply holds then is not written.
func (f *Tasks) Learn(t *Task, o *run.Run, isReply func(*Task) bool) (*Task, error) {
	m := made{known: t}
	progress, reply := f.progress(&m, o, func(now *Task) bool {
		return !now.Status.State.Interrupted() && bytes.Equal(now.Entry.Args, t.Entry.Args)
	}), false
	e, err := f.Ledger.Write(t.Entry, func(next *ledger.Entry) error {
		err := progress(next)
		if reply = err == nil && next.Version == 0 && isReply(m.task); reply {
			return ledger.ErrUnchanged
		}
		return err
	})
	switch {
	case reply:
		return m.task, nil
	case e == nil || err != nil && !errors.Is(err, ledger.ErrEnded):
		return nil, err
	}
	return m.of(f, e)
}

// stateOfEntry returns how a run has ended, for those who don't read tasks.
func stateOfEntry(s ledger.State, o *run.Run) ledger.State {
	switch {
	case s != ledger.Failed:
		return s
	case o.State == run.TimedOut:
		return ledger.TimedOut
	case o.Failure != nil && o.Failure.Lost:
		return ledger.Lost
	}
	return s
}

// kept returns what is stored of the end of a run. If there is no place for it, the run fails.
func (f *Tasks) kept(t *Task, o *run.Run) []byte {
	if o.GoesOn() {
		return nil
	}
	outcome, exceeded := f.Ledger.Ended(t.Owner, o, 0)
	if exceeded == "" {
		return outcome
	}
	o.State, o.Output, o.Failure = run.Failed, nil, &run.Failure{
		Kind: run.Internal, Phase: run.PhaseResult, By: run.Bridge, Executed: run.ExecutedYes, Ref: o.Ref,
		Message: "The run has ended, but the bridge has no place for its output: it stores at most " + exceeded + ".",
	}
	outcome, _ = f.Ledger.Ended(t.Owner, o, 0)
	return outcome
}

// Give gives a task that is being changed the state of its run. It reports whether this has changed the task.
func (f *Tasks) Give(t *Task, now *run.Run, at time.Time) (changed bool) {
	t.Warnings = now.Warnings
	if now.State != 0 && now.ExecutionID != "" && (t.Status.State != Working || t.Ref.ExecutionID == "") {
		changed = true
		t.Ref = now.Ref
		t.Inputs = nil // they are needed only until the run is accepted
		if t.Status.State != Working {
			t.SetStatus(Working, nil, at)
		}
	}
	switch {
	case now.Failure != nil && now.Failure.Kind == run.Stopped && now.State != 0 && !now.Failure.Lost:
		return changed // The run goes on at the provider. This or another instance will follow it.
	case now.Failure != nil:
		state := cmp.Or(stateOf[now.Failure.Kind], Failed)
		if now.Failure.Next() == run.NextConnect { // also if the provider wants further scopes
			state = AuthRequired
		}
		t.SetStatus(state, f.Say(failed(now.Failure)), at)
	case now.State == run.Completed:
		if parts := Output(now.Output, t.OutputType); len(parts) > 0 {
			t.SetArtifact(parts)
		}
		t.SetStatus(Completed, nil, at)
	default:
		return changed
	}
	return true
}

// Say returns a message of the bridge.
func (f *Tasks) Say(text string, data jsontext.Value) *Message {
	return &Message{ID: f.Ledger.NewID(), Role: Agent, Parts: []Part{
		{Part: front.Part{Kind: front.PartText, Text: text}},
		{Part: front.Part{Kind: front.PartData, Data: data}},
	}}
}

// IsOutage reports whether a failure of a run that was accepted says only that its provider can't be reached for the moment.
func IsOutage(r *run.Run) bool {
	f := r.Failure
	return f != nil && r.State != 0 && r.ExecutionID != "" && f.Executed == run.ExecutedYes && !f.Lost && !f.Permanent() &&
		f.Kind != run.Stopped && f.Kind != run.CallerGone && f.Kind != run.CallerCanceled
}

// Quoted returns a text of a client or provider for a message, cleaned and bounded.
func Quoted(s string) string { return safetext.Line(s, 200) }

// maxText bounds the text of a failure, in characters.
const maxText = 1000

// Text returns the text of a failure, cleaned and bounded.
func Text(f *run.Failure) string {
	return cmp.Or(safetext.TrimmedLine(f.TextBefore("the task then continues by itself: do not send it again"), maxText), "The call failed.")
}

// failed returns the text and the data of the status message for a failure.
func failed(failure *run.Failure) (text string, data jsontext.Value) {
	text = Text(failure)
	return text, front.Object(func(w *front.Writer) {
		w.Text("code", cmp.Or(Quoted(string(document.CodeOf(failure))), "INTERNAL_ERROR"))
		w.Text("message", text)
		w.Text("executed", string(cmp.Or(failure.Executed, run.ExecutedMaybe)))
		w.Text("next", string(nextOf(failure)))
		w.Text("source", string(cmp.Or(failure.By, run.Bridge)))
		w.Raw("details", front.Details(failure))
		w.Raw("retry", front.Retry(failure))
	})
}

// nextOf returns the next step after a run that is not followed any more.
func nextOf(f *run.Failure) run.Next {
	next := f.Next()
	switch {
	case next != run.NextFollowRun:
		return next
	case f.Kind == run.AuthRequired, f.Kind == run.PermissionDenied:
		return run.NextAskOperator
	}
	return run.NextNone
}

// Abandoned returns the text and the data of the status message of a task that is canceled although its run was submitted. accepted
// says that the provider has accepted the run.
func Abandoned(accepted bool) (text string, data jsontext.Value) {
	executed := run.ExecutedMaybe
	if accepted {
		executed = run.ExecutedYes
	}
	return "The bridge no longer follows the run. The provider's protocol has no cancellation: the run goes on there, and what it does is done.",
		jsontext.Value(`{"code":"ABANDONED","executed":"` + string(executed) + `","next":"none","source":"bridge"}`)
}

// TimeIsUp is the failure of a run that has not ended at the deadline of its task. unknown says why its state can't be read; nil: the
// run goes on.
func TimeIsUp(t *Task, unknown *run.Failure) *run.Failure {
	f := &run.Failure{
		Kind: run.DeadlineExceeded, Phase: run.PhasePoll, By: run.Bridge, Executed: run.ExecutedYes, Ref: t.Ref,
		Message: "The skill had not finished when its time was up. The run may still be going on, but the bridge no longer follows it. A new message may state a longer timeoutMs.",
	}
	switch {
	case unknown == nil:
	case unknown.Kind == run.DeadlineExceeded:
		f.Timeout = unknown.Timeout
	default:
		f.Phase, f.Reach, f.HTTPStatus, f.URL, f.Cause = unknown.Phase, unknown.Reach, unknown.HTTPStatus, unknown.URL, unknown.Cause
		f.Message = "The time of the run is up, and its state can't be read: " + unknown.Message
	}
	return f
}
