package runs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Pause is how long after a try to read the state of a run the next one is made.
const Pause = time.Minute

// Follower follows the runs of tasks.
type Follower interface {
	// Owns reports whether the tasks of an owner belong to the Follower.
	Owns(owner string) bool
	// Continue follows the run of a task, unless this process does. It calls [Retries.Take] if it does.
	Continue(ctx context.Context, t *task.Task)
}

// Retries makes the tries. Like the tasks, it is kept over reloads: each try is made by the newest Follower that owns the task, so
// that a new configuration can end an outage. Its zero value is ready for use, and a nil one makes no tries.
type Retries struct {
	followers run.Owners[Follower]

	mu      sync.Mutex
	closed  bool
	waiting map[runKey]*retry
}

// runKey identifies the task of a run.
type runKey struct{ owner, id string }

// retry is a run that is followed again when its timer fires.
type retry struct {
	timer *time.Timer
	skew  time.Duration
}

// Begin makes the Retries use a Follower.
func (r *Retries) Begin(f Follower) { r.followers.Add(f, f.Owns) }

// End makes the Retries no longer use a Follower.
func (r *Retries) End(f Follower) { r.followers.Remove(f) }

// Close ends all further tries of this process. The next request about a task follows its run.
func (r *Retries) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, again := range r.waiting {
		again.timer.Stop()
	}
	clear(r.waiting)
}

// Later follows the run of a task again after a pause, or when its time is up: skew after its deadline. A run has at most one timer.
func (r *Retries) Later(kept *tasks.Tasks, t *task.Task, skew time.Duration) {
	if r == nil || t.Deadline.IsZero() {
		return
	}
	key, own := runKey{t.Owner, t.ID}, &retry{skew: skew}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.waiting[key] != nil {
		return
	}
	if r.waiting == nil {
		r.waiting = map[runKey]*retry{}
	}
	r.waiting[key] = own
	own.timer = time.AfterFunc(max(time.Second, min(Pause, time.Until(t.Deadline.Add(skew)))), func() {
		if f := r.followers.Of(key.owner); f != nil {
			now, err := kept.Get(context.Background(), key.owner, key.id)
			if err == nil {
				f.Continue(context.Background(), now)
			} else if !errors.Is(err, tasks.ErrNoTask) && r.again(key, own) {
				return
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.waiting[key] == own {
			delete(r.waiting, key)
		}
	})
}

// again sets the timer of a retry again. It returns false if the retry does not wait any more.
func (r *Retries) again(key runKey, own *retry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[key] != own {
		return false
	}
	own.timer.Reset(Pause)
	return true
}

// Take ends the wait for the next try to follow the run of a task, because its run is followed now. It returns the skew of that
// try; ok is false if there is none.
func (r *Retries) Take(t *task.Task) (skew time.Duration, ok bool) {
	if r == nil {
		return 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := runKey{t.Owner, t.ID}
	again, ok := r.waiting[key]
	if !ok {
		return 0, false
	}
	again.timer.Stop()
	delete(r.waiting, key)
	return again.skew, true
}
