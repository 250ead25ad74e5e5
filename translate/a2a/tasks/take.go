package tasks

import (
	"bytes"
	"context"
	"errors"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Take is [Tasks.Change] for a message after which the skill may be invoked: it is the claim. It is sent until the database answers, and a version with its
// mark is the claim itself. If that is not known in time, the claim is undone in the background.
func (f *Tasks) Take(ctx context.Context, t *task.Task, change func(*task.Task) error) (*task.Task, error) {
	mark := []byte(f.Ledger.NewID())
	isMade := func(e *ledger.Entry) bool { return bytes.Equal(e.Args, mark) && e.State != ledger.Unknown }
	var taken *task.Task
	var final error // of an attempt that the database has answered
	perhaps, err := ledger.Insist(ctx, func(ctx context.Context) error {
		var decided, err error
		taken, err = f.change(ctx, t, func(next *ledger.Entry, m *made) error {
			if isMade(next) {
				return ledger.ErrUnchanged
			}
			next.Args, decided = mark, m.change(next, change)
			return decided
		})
		_, full := errors.AsType[FullError](err)
		if final = nil; full || decided != nil && errors.Is(err, decided) || errors.Is(err, ledger.ErrEnded) || errors.Is(err, ledger.ErrNoEntry) {
			final, err = err, nil
		}
		return err
	})
	switch {
	case err == nil:
		return taken, final
	case perhaps:
		f.Ledger.WriteLater(t.Entry, func(next *ledger.Entry) error {
			if isMade(next) {
				_, err := task.Change(next, func(now *task.Task) error { now.Undo(t); return nil })
				return err
			}
			if next.Version != t.Entry.Version {
				return ledger.ErrUnchanged
			}
			return nil // a claim that arrives late finds another version
		})
	}
	return nil, err
}
