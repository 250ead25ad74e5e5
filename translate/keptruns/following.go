package keptruns

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// firstPause and longestPause are the pauses between tries to follow a run whose state can't be read. They double.
	firstPause   = time.Second
	longestPause = time.Minute
	// storeTimeout bounds the time for storing a record whose run can't wait.
	storeTimeout = 30 * time.Second
	// lockTimeout bounds the wait for the lock of the end of a run. It is longer than the lock of an instance that has died lasts.
	lockTimeout = 15 * time.Second
	// missingWait is how long a run is followed on whose skill can't be found.
	missingWait = time.Hour
)

// following follows a kept run in this process.
type following struct {
	runs     *Runs
	caller   run.Caller
	reserved int64 // bytes for the outcome
	freed    sync.Once

	mu     sync.Mutex
	record *Record // the newest, which is not changed but replaced
	dirty  bool    // the newest is not stored
	cancel context.CancelCauseFunc
	waits  map[*context.CancelCauseFunc]struct{} // end what waits for the run if it is canceled

	done     chan struct{} // closed when the run is followed no longer
	settling sync.Mutex    // is held while the end of the run is stored
	missing  time.Time     // since when the skill can't be found; zero: it can. Guarded by settling
}

// add registers a run that this process follows.
func (r *Runs) add(f *following) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.register()
}

// register is add while the lock of the runs is held.
func (f *following) register() {
	r := f.runs
	f.done = make(chan struct{})
	r.followed[claim{f.record.Owner, f.record.ID}] = f
	go f.look()
}

// end says that the run is followed no longer, once its newest record is stored.
func (f *following) end() {
	r, of := f.runs, f.current()
	f.free()
	f.storeAgain()
	r.mu.Lock()
	delete(r.followed, claim{of.Owner, of.ID})
	r.mu.Unlock()
	close(f.done)
}

// free gives the place of the run to others, and what was reserved for its outcome. Further calls have no effect.
func (f *following) free() {
	f.freed.Do(func() { f.runs.usage.done(f.current().Owner, f.reserved) })
}

// current returns the newest record.
func (f *following) current() *Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record
}

// follow follows a run in the background, unless this process does already. Without place for it, only requests follow it.
func (r *Runs) follow(found *Record, caller run.Caller) {
	f := &following{runs: r, caller: caller, record: found}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := claim{found.Owner, found.ID}
	if r.followed[at] != nil || !r.usage.resume(found.Owner, r.config.Now()) {
		return
	}
	f.register()
	go func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		defer f.end()
		defer func() {
			if value := recover(); value != nil && r.config.Panicked != nil {
				r.config.Panicked(ctx, value, debug.Stack())
			}
		}()
		f.setCancel(cancel)
		f.work(ctx, new(run.Run))
	}()
}

// storeAgain stores the newest record if that has failed, until it is stored, the record has expired, or the runs are closed. Meanwhile this
// process answers from memory, so that a run has one outcome.
func (f *following) storeAgain() {
	ctx := context.Background()
	for pause := firstPause; f.isDirty() && !f.runs.expired(f.current().Began()) && f.pause(ctx, pause); pause = min(2*pause, longestPause) {
		f.storeOnce(ctx)
	}
}

func (f *following) storeOnce(ctx context.Context) {
	f.settling.Lock()
	defer f.settling.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	next := *f.current()
	if !next.Ended.IsZero() {
		defer f.lockEnd(ctx)()
	}
	if f.adopt(ctx, &next) {
		return
	}
	err := f.store(ctx, &next)
	if err != nil {
		f.runs.config.Trouble(err)
	}
	f.set(&next, err != nil)
}

func (f *following) setCancel(cancel context.CancelCauseFunc) {
	f.mu.Lock()
	f.cancel = cancel
	f.mu.Unlock()
}

// work follows the run until it has ended or its record has expired. last is the outcome of the call that has followed it so far.
func (f *following) work(ctx context.Context, last *run.Run) {
	r := f.runs
	f.caller.Method, f.caller.TraceID, f.caller.TraceParent = MethodFollow, "", ""
	pause := firstPause
	for {
		if last.Failure == nil || last.Failure.Kind == run.DeadlineExceeded {
			pause = firstPause
		} else {
			if last.Failure.Kind == run.Stopped || !f.pause(ctx, max(pause, min(last.RetryAfter, longestPause))) {
				return
			}
			pause = min(2*pause, longestPause)
		}
		now := f.current()
		follower := r.followers.Of(now.Owner)
		if follower == nil || ctx.Err() != nil || r.expired(now.Began()) {
			return
		}
		if r.canceled(ctx, now, f.caller.Principal) {
			f.cancelRun(ctx)
			return
		}
		f.caller.Arrived = time.Now()
		ref := now.Ref
		ref.Kept = "" // this is what Follow relies on
		execution := follower.Resume(ctx, ref, translate.Call{Caller: f.caller, Detached: true, Answer: follower.Room(f.caller.Principal)})
		for o := range execution.Watch() {
			f.settle(ctx, &o, false)
			*last = o
		}
		last.Output = nil
		if !f.current().goesOn() {
			return
		}
	}
}

// pause waits. It returns false if the run is not to be followed any more.
func (f *following) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.runs.closed:
	case <-ctx.Done():
	}
	return false
}

// settle stores what a state of the run has changed. first says that the state is of the call that has submitted the run. It returns
// false if it is known already that the run has ended, so that the state is not the outcome.
func (f *following) settle(ctx context.Context, o *run.Run, first bool) bool {
	f.settling.Lock()
	defer f.settling.Unlock()
	r, now := f.runs, f.runs.config.Now()
	next := *f.current()
	failure, again := o.Failure, f.mayBeFound(o.Failure, now)
	switch {
	case !next.Ended.IsZero() || next.free:
		return false
	case failure == nil && o.State.Ended(), failure != nil && failure.Kind == run.RunFailed:
		next.Ended, next.State, next.Ref = now, o.State, o.Ref
	case failure != nil && failure.Lost && !again:
		next.Ended, next.State = now, run.Lost
		if o.Ref.ExecutionID != "" {
			next.Ref = o.Ref
		}
	case first && failure != nil && o.State == 0 && failure.Executed == run.ExecutedNo:
		next.free = true
	case first && failure != nil && o.State == 0:
		next.Ended = now
	case next.Ref.ExecutionID == "" && o.Ref.ExecutionID != "":
		next.Ref, next.State = o.Ref, run.Working
	case f.isDirty(): // it is tried again
	default:
		return true
	}
	next.Ref.Kept = next.ID
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if !next.Ended.IsZero() {
		defer f.lockEnd(ctx)()
		if f.adopt(ctx, &next) {
			return false
		}
		if f.current().goesOn() && r.canceled(ctx, &next, f.caller.Principal) {
			f.storeCanceled(ctx)
			return false
		}
		f.storeOutcome(ctx, &next, o)
	}
	err := f.store(ctx, &next)
	if err != nil {
		r.config.Trouble(err)
	}
	f.set(&next, err != nil)
	if follower := r.followers.Of(next.Owner); follower != nil && !next.Ended.IsZero() {
		follower.Ended(ctx, &next, o)
	}
	return true
}

// mayBeFound reports whether a run that can't be followed, because its skill can't be found, may be followed later: the configuration, or what the
// provider lists, may be wrong for a while only.
func (f *following) mayBeFound(failure *run.Failure, now time.Time) bool {
	if failure == nil || !failure.Lost || failure.By != run.Bridge || failure.Phase != run.PhaseDiscovery && failure.Phase != run.PhaseDescriptor {
		f.missing = time.Time{}
		return false
	}
	if f.missing.IsZero() {
		f.missing = now
	}
	return now.Sub(f.missing) < missingWait
}

// lockEnd waits until no other caller, on any instance, stores the end of the run, so that the end that was stored first is the outcome. If the
// lock can't be had, since the storage fails, the end is stored nevertheless.
func (f *following) lockEnd(ctx context.Context) (unlock func()) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	of := f.current()
	unlock, err := f.runs.config.Store.Lock(ctx, of.Owner, "end "+of.ID)
	if err != nil {
		return func() {}
	}
	return unlock
}

// adopt looks whether another instance has stored how the run has ended, which is the outcome then.
func (f *following) adopt(ctx context.Context, of *Record) bool {
	other, err := f.runs.config.Store.Newer(ctx, of.Owner, of.ID, run.Version{Event: of.event, Standing: run.Running})
	if err != nil || other == nil || other.Standing != run.Final {
		return false
	}
	ended, err := decode(other)
	if err != nil {
		return false
	}
	ended.Owner = of.Owner
	f.set(ended, false)
	return true
}

const (
	// firstLook and longestLook are the intervals in which a process looks whether another one has stored that a run has ended. They double.
	firstLook   = 4 * time.Second
	longestLook = time.Minute
)

// look looks for that while the run is followed.
func (f *following) look() {
	for every := firstLook; f.current().Ended.IsZero(); every = min(2*every, longestLook) {
		timer := time.NewTimer(every)
		select {
		case <-timer.C:
		case <-f.done:
			timer.Stop()
			return
		}
		f.lookOnce()
	}
}

func (f *following) lookOnce() {
	f.settling.Lock()
	defer f.settling.Unlock()
	if now := f.current(); now.goesOn() {
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		f.adopt(ctx, now)
	}
}

// set replaces the record. If the run was canceled, what follows the run and waits for it ends.
func (f *following) set(record *Record, dirty bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record, f.dirty = record, dirty
	if record.State != run.Canceled {
		return
	}
	if f.cancel != nil {
		f.cancel(run.ErrCallerCanceled)
	}
	for cancel := range f.waits {
		(*cancel)(run.ErrCallerCanceled)
	}
}

// wait returns a context that ends when the run is canceled, and a function that releases it.
func (f *following) wait(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waits == nil {
		f.waits = map[*context.CancelCauseFunc]struct{}{}
	}
	f.waits[&cancel] = struct{}{}
	if f.record.State == run.Canceled {
		cancel(run.ErrCallerCanceled)
	}
	return ctx, func() {
		f.mu.Lock()
		delete(f.waits, &cancel)
		f.mu.Unlock()
		cancel(nil)
	}
}

func (f *following) isDirty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dirty
}

// store stores a record, which is not shared yet.
func (f *following) store(ctx context.Context, record *Record) error {
	to, err := record.encode(f.runs.config.Now())
	if err != nil {
		return err
	}
	if err := f.runs.config.Store.Put(ctx, to); err != nil {
		return err
	}
	record.event = to.Event
	return nil
}

// maxSmall is the size of the largest outcome that is stored in the record itself, in bytes. It counts as a run only.
const maxSmall = 4 << 10

// storeOutcome stores how the run has ended, if there is place for it, and notes that in the record.
func (f *following) storeOutcome(ctx context.Context, record *Record, o *run.Run) {
	r := f.runs
	data, err := encodeOutcome(o)
	switch {
	case err != nil:
	case len(data) <= maxSmall:
		record.outcome, record.small = true, data
	default:
		if record.unkept = r.usage.store(record.Owner, int64(len(data)), f.reserved, r.config.Now()); record.unkept != "" {
			return
		}
		err = r.config.Store.Put(ctx, &run.Record{ // its event is its size, for count
			Owner: outcomesOf(record.Owner), ID: record.ID, Event: uint64(len(data)), At: record.Ended, Data: data, Standing: run.Final,
		})
		record.outcome = err == nil
	}
	if err != nil {
		r.config.Trouble(err)
	}
}
