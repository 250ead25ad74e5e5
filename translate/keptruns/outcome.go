package keptruns

import (
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Follow is [translate.Config.Kept] for the runs of an owner: a run has one outcome, also for calls that ask about it by other means than its key.
func (r *Runs) Follow(ctx context.Context, owner string, ref *run.Ref, call *translate.Call) (asking context.Context, known *run.Run, end func(said run.Run) run.Run) {
	found, err := r.recordOf(ctx, owner, ref)
	if err != nil {
		return ctx, nil, nil
	}
	if o, ok := r.ended(ctx, found, call.Answer); ok {
		return ctx, &o, nil
	}
	f := r.followingOf(found, call.Caller)
	asking, release := f.wait(ctx)
	return asking, nil, func(said run.Run) run.Run {
		defer release()
		return f.agree(ctx, said, call.Answer)
	}
}

// agree returns the outcome of a call about the run from what the provider has said: the one that was stored first.
func (f *following) agree(ctx context.Context, said run.Run, room exchange.AnswerBudget) run.Run {
	failure := said.Failure
	switch {
	case failure == nil && said.State.Ended(), failure != nil && (failure.Kind == run.RunFailed || failure.Lost):
		if f.settle(ctx, &said, false) {
			return said
		}
	case failure == nil:
		return said
	case !f.current().Ended.IsZero(): // it ended while the provider was asked
	default:
		return said
	}
	if o, ok := f.runs.ended(ctx, f.current(), room); ok && ctx.Err() == nil {
		return o
	}
	return said
}

// followingOf returns what follows a run in this process, or stands for it while nothing does.
func (r *Runs) followingOf(found *Record, caller run.Caller) *following {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.followed[claim{found.Owner, found.ID}]; f != nil {
		return f
	}
	return &following{runs: r, caller: caller, record: found}
}

// recordOf returns the record of a run.
func (r *Runs) recordOf(ctx context.Context, owner string, ref *run.Ref) (*Record, error) {
	found, err := r.read(ctx, owner, ref.Kept)
	if err == nil && (found.Ref.Source != ref.Source || found.Ref.SkillID != ref.SkillID || found.Ref.ExecutionID != ref.ExecutionID) {
		err = run.ErrNoRecord
	}
	return found, err
}

// ended returns how a run has ended, from its record. ok is false if it goes on, or if only its provider knows the output.
func (r *Runs) ended(ctx context.Context, found *Record, room exchange.AnswerBudget) (o run.Run, ok bool) {
	o = run.Run{Ref: found.Ref, State: found.State}
	switch {
	case found.Ended.IsZero():
		return o, false
	case found.outcome:
		stored, failure := r.outcome(ctx, found, room)
		if failure == nil {
			return stored, true
		}
		o.Failure = failure
	case found.State == run.Canceled:
	case found.State == 0:
		o.Failure = lost(found)
	case found.Unkept():
		o.Failure = unkept(found)
	default:
		return o, false
	}
	return o, true
}

// lost is the failure of a call that was submitted, perhaps, by a process that did not live to see the answer.
func lost(found *Record) *run.Failure {
	call, again := "the call", "call it again"
	if found.Key {
		call, again = "the call with this idempotency key", "call it with a new key"
	}
	return &run.Failure{
		Kind: run.Stopped, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe, Ref: found.Ref,
		Message: "The bridge ended while it submitted " + call + ", so it is not known whether the skill was executed. The bridge does not submit it again. " +
			"Ask the provider whether it was; if it was not, or if executing it twice does no harm, " + again,
	}
}

// unkept is the failure of a call whose run has ended, if how it has ended is not known any more.
func unkept(found *Record) *run.Failure {
	ended, why := "completed", "its storage failed"
	if found.State != run.Completed {
		ended = "failed"
	}
	if found.unkept != "" {
		why = "it stores at most " + found.unkept
	}
	return &run.Failure{
		Kind: run.Internal, Phase: run.PhaseResult, By: run.Bridge, Executed: run.ExecutedYes, Ref: found.Ref, Lost: true,
		Message: "The run of the call with this idempotency key has " + ended + ", and the first call got its outcome. The bridge has not stored it (" + why + "), and the provider " +
			"can't be asked for it. The bridge does not execute the call again with this key; if executing it twice does no harm, call it with a new key",
	}
}

// outcome reads how a run has ended, within the memory for the answer.
func (r *Runs) outcome(ctx context.Context, of *Record, room exchange.AnswerBudget) (run.Run, *run.Failure) {
	reading := ctx
	if room != nil {
		reading = run.WithRoom(ctx, func(size int64) error {
			if !room.Reserve(size) {
				return run.ErrNoRoom
			}
			return nil
		})
	}
	if of.small != nil {
		o, err := decodeOutcome(of, of.small)
		if err == nil && (room == nil || room.Reserve(int64(len(of.small))+2<<10)) {
			return o, nil
		}
		if err == nil {
			return run.Run{}, exchange.NoRoom(room, run.PhaseResult, of.Ref.ExecutionID, run.ExecutedYes, true)
		}
	}
	o, err := readOutcome(reading, r, of)
	if err == nil {
		return o, nil
	}
	if errors.Is(err, run.ErrNoRoom) {
		return run.Run{}, exchange.NoRoom(room, run.PhaseResult, of.Ref.ExecutionID, run.ExecutedYes, true)
	}
	return run.Run{}, &run.Failure{
		Kind: run.Internal, Phase: run.PhaseResult, By: run.Bridge, Executed: executedOf(of), Ref: of.Ref, Retry: run.RetryIn(2*time.Second, 5), Cause: err,
		Message: "Internal error: the bridge can't read the stored outcome of the run at the moment; try again later with the same key",
	}
}

// readOutcome reads the stored outcome of a run.
func readOutcome(ctx context.Context, r *Runs, of *Record) (run.Run, error) {
	from, err := r.config.Store.Get(ctx, outcomesOf(of.Owner), of.ID)
	if err != nil {
		return run.Run{}, err
	}
	return decodeOutcome(of, from.Data)
}

// executedOf says whether the skill of an ended run was executed.
func executedOf(r *Record) run.Executed {
	if r.Ref.ExecutionID == "" {
		return run.ExecutedMaybe
	}
	return run.ExecutedYes
}

// outcomesOf is the owner of the outcomes of runs. The ids are those of the runs.
func outcomesOf(owner string) string { return owner + "\nkept outcome" }
