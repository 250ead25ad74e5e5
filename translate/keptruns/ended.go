package keptruns

import (
	"context"
	"errors"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// ErrTooLarge is the error for an outcome that is larger than it may be, or was not stored because there are too many.
var ErrTooLarge = errors.New("the outcome is too large")

// Continue returns the record of a run, and makes sure that this process follows the run if it goes on and there is place. The
// error is [run.ErrNoRecord] if there is none, if it has expired, or if nothing was executed. Here says that this process
// submits or follows the run.
func Continue(ctx context.Context, r *Runs, owner, id string, caller run.Caller) (record *Record, here bool, err error) {
	began, _ := run.TimeOfID(id)
	if r.expired(began) {
		return nil, false, run.ErrNoRecord
	}
	record, err = r.read(ctx, owner, id)
	if err == nil && record.free {
		err = run.ErrNoRecord
	}
	if err != nil {
		return nil, false, err
	}
	if record.goesOn() {
		r.follow(record, caller)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return record, r.followed[claim{owner, id}] != nil, nil
}

// Outcome returns how the run of a record has ended, if that has at most a number of bytes; otherwise the error is [ErrTooLarge]. For a run
// that was not accepted as far as the record tells, that is that it was lost.
func Outcome(ctx context.Context, r *Runs, of *Record, most int64) (run.Run, error) {
	switch {
	case of.State == run.Canceled:
		return run.Run{Ref: of.Ref, State: of.State}, nil
	case of.small != nil:
		return decodeOutcome(of, of.small)
	case of.outcome:
		return readOutcome(run.WithRoom(ctx, func(size int64) error {
			if size > most {
				return ErrTooLarge
			}
			return nil
		}), r, of)
	case of.State == 0:
		return run.Run{Ref: of.Ref, Failure: lost(of)}, nil
	}
	return run.Run{}, ErrTooLarge
}
