package keptruns

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Cancel stores that an owner's run was canceled, unless it has ended, and ends its following. It returns the state of the run; 0: there is
// no record of it. Other instances find the record when they look at the run the next time.
func (r *Runs) Cancel(ctx context.Context, owner string, ref *run.Ref) run.State {
	found, err := r.recordOf(ctx, owner, ref)
	if err != nil {
		return 0
	}
	return r.end(ctx, found).State
}

// State returns the state of an owner's run; 0: there is no record of it, or it can't be read.
func (r *Runs) State(ctx context.Context, owner string, ref *run.Ref) run.State {
	found, err := r.recordOf(ctx, owner, ref)
	if err != nil {
		return 0
	}
	return found.State
}

// canceled reports whether the principal of a run has canceled it.
func (r *Runs) canceled(ctx context.Context, of *Record, principal string) bool {
	follower := r.followers.Of(of.Owner)
	return follower != nil && follower.Canceled(context.WithoutCancel(ctx), principal, &of.Ref)
}

// end stores that a run was canceled, unless it has ended, and ends its following in this process. It returns the newest record.
func (r *Runs) end(ctx context.Context, of *Record) *Record {
	f := r.followingOf(of, run.Caller{})
	f.cancelRun(ctx)
	return f.current()
}

// cancelRun stores that the run was canceled, unless it has ended, and ends the following.
func (f *following) cancelRun(ctx context.Context) {
	f.settling.Lock()
	defer f.settling.Unlock()
	if f.current().goesOn() {
		defer f.lockEnd(context.WithoutCancel(ctx))()
	}
	f.storeCanceled(ctx)
}

// storeCanceled is cancelRun while settling and the lock of the end are held.
func (f *following) storeCanceled(ctx context.Context) {
	next := *f.current()
	if !next.goesOn() {
		return
	}
	next.State, next.Ended = run.Canceled, f.runs.config.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if f.adopt(ctx, &next) {
		return
	}
	if err := f.store(ctx, &next); err != nil {
		f.runs.config.Trouble(err)
	}
	f.set(&next, false)
	if follower := f.runs.followers.Of(next.Owner); follower != nil {
		follower.Ended(ctx, &next, &run.Run{Ref: next.Ref, State: run.Canceled})
	}
}
