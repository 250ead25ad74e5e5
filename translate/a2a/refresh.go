package a2a

import (
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

// firstRefresh is the time until a waiting request reads its task again. It doubles each time, up to keepAlive.
const firstRefresh = time.Second

// refresh reads the task of a waiting request again, and follows its run unless this process already does: another process may
// have changed the task, or may have ended.
func (r *request) refresh(t *task.Task) {
	if now, err := r.front.Tasks.Get(r.ctx, t.Owner, t.ID); err == nil {
		r.followLater(now)
	}
}

// followLater makes sure that the run of a task is followed.
func (r *request) followLater(t *task.Task) { r.front.FollowLater(r.ctx, t, r.caller) }

// repeat calls a function at growing intervals until a context ends.
func repeat(ctx context.Context, what func()) {
	pause := firstRefresh
	again := time.NewTimer(pause)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			what()
			pause = min(2*pause, keepAlive)
			again.Reset(pause)
		}
	}
}
