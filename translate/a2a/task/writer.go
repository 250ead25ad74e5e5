package task

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// writeTimeout is how long the Store may take to write.
	writeTimeout = 30 * time.Second
	// batch is how many ended tasks are stored at once before Flush is over.
	batch = 512
	// writers is how many records or batches are written at the same time.
	writers = 8
)

// writer is the queue of what the background goroutine stores. It belongs to the lock of the [Tasks].
type writer struct {
	dirty    []*entry
	ended    int           // of dirty, at most
	kick     chan struct{} // of capacity 1: the queue is no longer empty, or is long
	failures int           // in a row
	reported time.Time     // when StoreFailed was called last
	usage    usage         // what was written since the Store was trimmed
}

type usage struct {
	records int
	bytes   int64
}

// flight is one write of a version, which several callers wait for.
type flight struct {
	done chan struct{}
	err  error // once done is closed
}

// soil queues an entry for the writer. The lock of the Tasks is held.
func (s *Tasks) soil(e *entry, t *Task) {
	w := &s.writer
	if s.store == nil || e.place.stored && t.Status.State.Terminal() {
		return
	}
	if !e.place.dirty {
		e.place.dirty, e.place.since = true, time.Now()
		w.dirty = append(w.dirty, e)
	}
	if t.Status.State.Terminal() {
		w.ended++
	}
	if len(w.dirty) == 1 || w.ended == batch {
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}

// persist stores a version of a task that is open, if neither it nor a later one is stored. Callers share one write.
func (s *Tasks) persist(ctx context.Context, e *entry, event uint64) error {
	for {
		e.mu.Lock()
		if e.stored >= event || s.mayTell(e) {
			e.mu.Unlock()
			return nil
		}
		f := e.flight
		if f != nil {
			e.mu.Unlock()
			select {
			case <-f.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		} else {
			f = s.write(ctx, e)
		}
		if f.err != nil {
			return f.err
		}
	}
}

// write stores the current version of a task as a record of its own. The lock of the entry is held, and is released. No
// other write of the entry is under way.
func (s *Tasks) write(ctx context.Context, e *entry) *flight {
	f := &flight{done: make(chan struct{})}
	t := e.now
	e.flight, e.single = f, true
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	size, err := s.put(ctx, []version{{e, t}})
	if err != nil {
		f.err = s.failed(ctx, err)
	}
	e.mu.Lock()
	e.flight = nil
	if err == nil {
		s.wrote(e, t.Event, size)
	}
	e.mu.Unlock()
	close(f.done)
	return f
}

// version is a version of a task that is written.
type version struct {
	e *entry
	t *Task
}

// put stores versions of tasks of one owner, and returns their size.
func (s *Tasks) put(ctx context.Context, versions []version) (int64, error) {
	records := make([]*run.Record, 0, len(versions))
	var size int64
	for _, v := range versions {
		s.mu.Lock()
		at := v.e.place.changed
		s.mu.Unlock()
		r, err := encode(v.t, at)
		if err != nil {
			return 0, err
		}
		size += int64(len(r.Data))
		records = append(records, r)
	}
	return size, s.store.Put(ctx, records...)
}

// wrote counts a version that was stored. The lock of the entry is held.
func (s *Tasks) wrote(e *entry, event uint64, size int64) {
	e.stored = max(e.stored, event)
	s.mu.Lock()
	s.writer.usage.records++
	s.writer.usage.bytes += size
	p := &e.place
	if p.state != 0 && !p.gone && !p.stored && e.stored >= e.now.Event {
		p.stored = true
		o := s.room.owners[e.owner]
		s.room.put(e, o, p.state, p.size)
		s.room.trim(o)
	}
	s.mu.Unlock()
	s.deliver(e)
}

// background stores what has changed, and drops what has expired, until the Tasks are closed.
func (s *Tasks) background() {
	defer close(s.closed)
	var swept sync.WaitGroup
	defer swept.Wait()
	if s.store != nil {
		swept.Go(s.sweep)
	}
	flush := time.NewTimer(0)
	flush.Stop()
	defer flush.Stop()
	expiry := time.NewTicker(min(s.config.TTL, 8*time.Minute) / 8)
	defer expiry.Stop()
	due := false
	for {
		now := false
		select {
		case <-s.closing:
			return
		case <-expiry.C:
			s.expire()
		case <-s.writer.kick:
			s.mu.Lock()
			now = s.writer.ended >= batch && s.writer.failures == 0
			s.mu.Unlock()
			if !now && !due {
				due = true
				flush.Reset(s.config.Flush / 4)
			}
		case <-flush.C:
			now = true
		}
		if now {
			wait := s.flush(context.Background(), false)
			if due = wait > 0; due {
				flush.Reset(wait)
			} else {
				flush.Stop()
			}
		}
	}
}

// flush stores what is queued: ended tasks at once, together by owner, and open ones (which may soon have ended) if they
// have waited for half of the time, or all are to be stored. It returns when to call it again; 0: the queue is empty.
func (s *Tasks) flush(ctx context.Context, all bool) time.Duration {
	now := time.Now()
	s.mu.Lock()
	dirty := s.writer.dirty
	s.writer.dirty, s.writer.ended = nil, 0
	due := dirty[:0:0]
	var later []*entry
	for _, e := range dirty {
		if all || e.place.state == 0 || e.place.state.Terminal() || now.Sub(e.place.since) >= s.config.Flush/2 {
			e.place.dirty = false
			due = append(due, e)
		} else {
			later = append(later, e)
		}
	}
	s.writer.dirty = later
	s.mu.Unlock()
	jobs, waiting := s.jobs(due)
	left, failures := s.runJobs(ctx, jobs)
	s.mu.Lock()
	defer s.mu.Unlock()
	if failures > 0 {
		s.writer.failures++
	} else if len(jobs) > 0 {
		s.writer.failures = 0
	}
	for _, e := range slices.Concat(waiting, left) {
		if !e.place.dirty {
			e.place.dirty = true
			s.writer.dirty = append(s.writer.dirty, e)
		}
	}
	switch {
	case len(s.writer.dirty) == 0:
		return 0
	case s.writer.failures > 0:
		return min(s.config.Flush<<min(s.writer.failures-1, 10), 30*time.Second)
	}
	return s.config.Flush / 4
}

// jobs returns the versions to be written, those of short ended tasks of one owner together, and the entries that another
// goroutine is writing.
func (s *Tasks) jobs(due []*entry) (jobs [][]version, waiting []*entry) {
	together := map[string]int{} // the job of an owner
	for _, e := range due {
		e.mu.Lock()
		t, stored, single, busy := e.now, e.stored, e.single, e.flight != nil
		e.mu.Unlock()
		switch {
		case stored >= t.Event:
		case busy:
			waiting = append(waiting, e)
		case single || !t.Status.State.Terminal():
			jobs = append(jobs, []version{{e, t}})
		default:
			i, ok := together[e.owner]
			if !ok || len(jobs[i]) == batch {
				i = len(jobs)
				together[e.owner] = i
				jobs = append(jobs, nil)
			}
			jobs[i] = append(jobs[i], version{e, t})
		}
	}
	return jobs, waiting
}

// runJobs writes, and returns the entries that are left to be written, and how many writes have failed. After a few failures it
// stops trying.
func (s *Tasks) runJobs(ctx context.Context, jobs [][]version) (left []*entry, failures int) {
	var mu sync.Mutex
	next := 0
	work := func() {
		for {
			mu.Lock()
			if next == len(jobs) {
				mu.Unlock()
				return
			}
			job, stop := jobs[next], failures >= 3
			next++
			mu.Unlock()
			err := errBusy
			if !stop {
				err = s.runJob(ctx, job)
			}
			if err == nil {
				continue
			}
			mu.Lock()
			if !errors.Is(err, errBusy) {
				failures++
			}
			for _, v := range job {
				left = append(left, v.e)
			}
			mu.Unlock()
		}
	}
	var group sync.WaitGroup
	for range min(writers, len(jobs)) - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
	return left, failures
}

// errBusy says that another goroutine is writing the entry.
var errBusy = errors.New("the task is being written")

func (s *Tasks) runJob(ctx context.Context, job []version) error {
	if e := job[0].e; len(job) == 1 {
		e.mu.Lock()
		switch {
		case e.flight != nil:
			e.mu.Unlock()
			return errBusy
		case e.stored >= e.now.Event:
			e.mu.Unlock()
			return nil
		}
		return s.write(ctx, e).err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	size, err := s.put(ctx, job)
	if err != nil {
		return s.failed(ctx, err)
	}
	for _, v := range job {
		v.e.mu.Lock()
		s.wrote(v.e, v.t.Event, size/int64(len(job)))
		v.e.mu.Unlock()
	}
	return nil
}

// expire drops the tasks whose time is over.
func (s *Tasks) expire() {
	now := time.Now()
	var expired []*entry
	s.mu.Lock()
	for _, o := range s.room.owners {
		for _, e := range o.entries {
			if !e.place.held && s.expired(e, now.Add(-clockSlack)) { // another instance may have changed it
				expired = append(expired, e)
			}
		}
	}
	for _, e := range expired {
		s.room.drop(e)
	}
	s.mu.Unlock()
	for _, e := range expired {
		e.mu.Lock()
		for _, sub := range e.subs {
			sub.end(false)
		}
		e.subs, e.queue = nil, nil
		e.mu.Unlock()
	}
}

// storageError hides the text of a failure of the Store from clients.
type storageError struct{ cause error }

// Error implements error.
func (e *storageError) Error() string { return ErrStorage.Error() }

// Unwrap makes ErrStorage and the cause recognizable.
func (e *storageError) Unwrap() []error { return []error{ErrStorage, e.cause} }

// failed reports that the Store has failed, and returns the error for the caller.
func (s *Tasks) failed(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	s.report(err)
	return &storageError{err}
}

// report calls the Observer, at most once a minute.
func (s *Tasks) report(err error) {
	if s.config.Observer == nil {
		return
	}
	s.mu.Lock()
	now := time.Now()
	quiet := !s.writer.reported.IsZero() && now.Sub(s.writer.reported) < time.Minute
	if !quiet {
		s.writer.reported = now
	}
	s.mu.Unlock()
	if !quiet {
		s.config.Observer.StoreFailed(err)
	}
}
