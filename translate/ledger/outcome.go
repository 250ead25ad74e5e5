package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// outcome is the JSON of how a run has ended.
type outcome struct {
	// Unkept says that it has ended, but that there is no place for how; see [Entry.Unkept].
	Unkept string `json:"unkept,omitzero"`
	run.Run
}

// jsonOptions keep the bytes of raw values.
var jsonOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true), jsonv1.FormatDurationAsNano(true))

// EncodeOutcome returns how a run has ended, for [Entry.Outcome].
func EncodeOutcome(o *run.Run) ([]byte, error) { return json.Marshal(&outcome{Run: *o}, jsonOptions) }

// DecodeOutcome returns how the run of an entry has ended, from what EncodeOutcome has written.
func DecodeOutcome(e *Entry, data []byte) (run.Run, error) {
	var s outcome
	if json.Unmarshal(data, &s, jsonOptions) != nil { // the error may quote it
		return run.Run{}, fmt.Errorf("the outcome of run %s can't be read: %w", e.ID, run.ErrDamaged)
	}
	o := ended(e)
	if s.Ref, s.State = o.Ref, o.State; s.Failure != nil {
		s.Failure.Ref = e.Ref
	}
	if s.Unkept != "" {
		s.Failure = unkept(e, s.Unkept)
	}
	return s.Run, nil
}

// ended returns the run of an entry without its outcome. A call that was not accepted has no state.
func ended(e *Entry) run.Run {
	o := run.Run{Ref: e.Ref, State: e.State.Run()}
	if o.State == run.Lost && e.Ref.ExecutionID == "" {
		o.State = 0
	}
	return o
}

// unkeptMember begins an outcome that says only that there is none.
const unkeptMember = `{"unkept":`

// Unkept reports whether the run has ended and how can't be learned any more: there was no place for it, and the provider can't be asked.
func (e *Entry) Unkept() bool { return strings.HasPrefix(string(e.Outcome), unkeptMember) }

// Outcome returns how a run has ended, or that it is not known whether the skill was executed. ok is false if it goes on, or if only its provider knows how
// it has ended. room bounds the memory for it; nil: nothing does.
func (l *Ledger) Outcome(ctx context.Context, e *Entry, room exchange.AnswerBudget) (o run.Run, ok bool) {
	o = ended(e)
	switch {
	case e.State == Canceled:
		return o, true
	case e.State == Unknown:
		o.Failure = unknown(e)
		return o, true
	case !e.State.Ended() || e.Outcome == nil && e.Apart == 0:
		return o, false
	}
	size := max(e.Apart, int64(len(e.Outcome))) + 2<<10
	if room != nil && !room.Reserve(size) {
		o.Failure = exchange.NoRoom(room, run.PhaseResult, e.Ref.ExecutionID, executed(e), true)
		return o, true
	}
	data, err := e.Outcome, error(nil)
	if data == nil {
		data, err = l.store.Outcome(ctx, e.Identity())
	}
	if err == nil {
		var stored run.Run
		if stored, err = DecodeOutcome(e, data); err == nil {
			return stored, true
		}
	}
	o.Failure = unread(e, err)
	return o, true
}

// unread is the failure of a call about a run whose outcome may be stored, but can't be read.
func unread(e *Entry, err error) *run.Failure {
	return &run.Failure{
		Kind: run.Internal, Phase: run.PhaseResult, By: run.Bridge, Executed: executed(e), Ref: e.Ref, Retry: &run.Retry{After: 2 * time.Second, Attempts: 5, Joins: true}, Cause: err,
		Message: "Internal error: the bridge can't read the stored outcome of the run at the moment; ask for it again later",
	}
}

// executed says whether the skill of a run was executed.
func executed(e *Entry) run.Executed {
	if e.Ref.ExecutionID == "" {
		return run.ExecutedMaybe
	}
	return run.ExecutedYes
}

// outcomeOf returns the outcome for an entry, within the bounds. Without place, it is nil if the provider can be asked for it.
func (l *Ledger) outcomeOf(e *Entry, o *run.Run, reserved int64) []byte {
	data, exceeded := Viewed{l}.Ended(e.Owner, o, reserved)
	switch {
	case exceeded == "":
		return data
	case !e.Single && o.Ref.ExecutionID != "":
		return nil
	}
	data, _ = json.Marshal(&outcome{Unkept: exceeded}) // a string
	return data
}

// unknown is the failure of a call that was submitted, perhaps, by an instance of which nothing has been heard since.
func unknown(e *Entry) *run.Failure {
	call, again := named(e)
	return &run.Failure{
		Kind: run.Stopped, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe, Ref: e.Ref,
		Message: "The instance of the bridge that submitted " + call + " has ended or does not respond, so it is not known whether the skill was executed. The bridge does not submit it again. " +
			"Ask the provider whether it was; if it was not, or if executing it twice does no harm, " + again,
	}
}

// named returns how to name the call of an entry to its caller, and how to execute it again.
func named(e *Entry) (call, again string) {
	if e.Key != nil {
		return "the call with this key", "call it with a new key"
	}
	return "the call", "call it again"
}

// unkept is the failure of a call whose run has ended, if how it has ended is not known any more.
func unkept(e *Entry, exceeded string) *run.Failure {
	verb := "completed"
	if e.State != Completed {
		verb = "failed"
	}
	call, again := named(e)
	return &run.Failure{
		Kind: run.Internal, Phase: run.PhaseResult, By: run.Bridge, Executed: run.ExecutedYes, Ref: e.Ref, Lost: true,
		Message: "The run of " + call + " has " + verb + ". The bridge has not stored its outcome (it stores at most " + exceeded + "), and the provider " +
			"can't be asked for it. The bridge does not submit it again; if executing it twice does no harm, " + again,
	}
}

// overdue is the failure of a run that has not ended in the time for which it is kept.
func overdue(e *Entry) *run.Failure {
	switch e.State {
	case Submitting, Unknown:
		return unknown(e)
	case Waiting:
		did := run.ExecutedYes
		if e.Ref.ExecutionID == "" {
			did = run.ExecutedNo
		}
		return &run.Failure{
			Kind: run.Stopped, Phase: run.PhaseInvoke, By: run.Bridge, Executed: did, Ref: e.Ref, Lost: true, Message: "What the run waited for did not come in the time for which the bridge keeps runs.",
		}
	}
	return &run.Failure{
		Kind: run.Stopped, Phase: run.PhasePoll, By: run.Bridge, Executed: run.ExecutedYes, Ref: e.Ref, Lost: true,
		Message: "The run had not ended in the time for which the bridge keeps runs, so the bridge follows it no longer. It may go on at the provider.",
	}
}
