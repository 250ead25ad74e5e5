package fronts

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Stored yields the newest tasks in the storage, up to most of them and only those that are needed, for the operator. They have no owner,
// since the storage has only hashes of owners. Damaged tasks are left out.
func (l *Live) Stored(ctx context.Context, most int, need func(id string) bool) iter.Seq2[*task.Task, error] {
	return func(yield func(*task.Task, error) bool) {
		if l.records == nil {
			return
		}
		for r, err := range l.records.Newest(ctx, push.IndexOwner, most, need) {
			t, err := l.decoded(r, err)
			if (t != nil || err != nil) && !yield(t, err) {
				return
			}
		}
	}
}

// FindStored returns a task in the storage by its id, for the operator; nil: there is none, or only a damaged one. It has no owner.
func (l *Live) FindStored(ctx context.Context, id string) (*task.Task, error) {
	if l.records == nil {
		return nil, nil
	}
	r, err := l.records.Find(ctx, push.IndexOwner, id)
	if errors.Is(err, run.ErrNoRecord) {
		return nil, nil
	}
	return l.decoded(r, err)
}

// decoded returns the task of a record that was read; nil: it is damaged, or expired and not deleted yet.
func (l *Live) decoded(r *run.Record, err error) (*task.Task, error) {
	if err != nil {
		if errors.Is(err, run.ErrDamaged) {
			err = nil
		}
		return nil, err
	}
	if t, err := task.Decode(r); err == nil && time.Since(r.At) <= l.ttl+task.ClockSkew {
		return t, nil
	}
	return nil, nil
}

// IsLost reports whether a task is told as failed since its invocation was lost with its instance.
func (l *Live) IsLost(t *task.Task) bool {
	at := t.LostAt()
	if at.IsZero() || time.Now().Before(at) {
		return false
	}
	release, ok := l.Claim(t.Owner, t.ID, nil)
	if ok { // else this process still invokes it
		release()
	}
	return ok
}
