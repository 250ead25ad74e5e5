package tasks

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// maxBatch is how many ended tasks are stored together at most. So many are stored before Flush is over.
	maxBatch = 512
	// batchSize is about how large they are together.
	batchSize = 1 << 20
	// writers is how many records or batches are written at the same time.
	writers = 8
	// sweepEvery is the time between two sweeps of the Store.
	sweepEvery = time.Hour
	// firstSweep is the time between the first use and the first sweep.
	firstSweep = 10 * time.Second
	// storedFactor is how much more than memory the Store may hold after it is trimmed, in bytes.
	storedFactor = 3
)

// background stores changed tasks and drops expired ones, until closing is closed.
func (w *writer) background(closing <-chan struct{}) {
	flush := time.NewTimer(0)
	flush.Stop()
	defer flush.Stop()
	expiry := time.NewTicker(max(time.Millisecond, min(w.memory.ttl, 8*time.Minute)/8))
	defer expiry.Stop()
	due := false
	for {
		now := false
		select {
		case <-closing:
			return
		case <-expiry.C:
			w.memory.expire()
		case <-w.memory.queue.kick:
			w.mu.Lock()
			now = w.failures == 0 && w.memory.manyEnded()
			w.mu.Unlock()
			if !now && !due {
				due = true
				flush.Reset(w.interval / 4)
			}
		case <-flush.C:
			now = true
		}
		if now {
			wait := w.flush(context.Background(), false)
			if due = wait > 0; due {
				flush.Reset(wait)
			} else {
				flush.Stop()
			}
		}
	}
}

// flush stores queued tasks: those that have ended at once, together by owner, and open ones, which may end soon, after half of the
// interval, or at once with all. It returns the time until the next call; 0: the queue is empty.
func (w *writer) flush(ctx context.Context, all bool) time.Duration {
	age := w.interval / 2
	if all {
		age = 0
	}
	jobs, busy := w.jobs(w.memory.due(age))
	var left []*entry
	if all { // who is writing them may write an older version
		for _, e := range busy {
			jobs = append(jobs, []version{{e: e}})
		}
	} else {
		left = busy
	}
	unwritten, failures := w.runJobs(ctx, jobs, all)
	queued := w.memory.requeue(slices.Concat(left, unwritten))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case failures > 0:
		w.failures++
	case len(jobs) > 0:
		w.failures = 0
	}
	switch {
	case queued == 0:
		w.buffers.Drop()
		return 0
	case w.failures > 0:
		return min(w.interval<<min(w.failures-1, 10), 30*time.Second)
	}
	return w.interval / 4
}

// jobs returns the versions to be written, with the short ended tasks of an owner together, and the entries that another goroutine
// is writing.
func (w *writer) jobs(due []*entry) (jobs [][]version, busy []*entry) {
	type group struct {
		job  int // for several tasks of one owner
		size int64
	}
	together := map[string]*group{} // by owner
	for _, e := range due {
		e.mu.Lock()
		t, stored, single, writing := e.now, e.stored, e.single, e.flight != nil
		e.mu.Unlock()
		switch {
		case stored.Compare(t.Version()) >= 0:
		case writing:
			busy = append(busy, e)
		case single || stored.Event > 0 || !t.Status.State.Terminal():
			jobs = append(jobs, []version{{e, t}})
		default:
			g := together[e.owner]
			if g == nil || len(jobs[g.job]) == w.batch || g.size >= batchSize {
				g = &group{job: len(jobs)}
				together[e.owner] = g
				jobs = append(jobs, nil)
			}
			jobs[g.job] = append(jobs[g.job], version{e, t})
			g.size += task.Size(t)
		}
	}
	return jobs, busy
}

// runJobs writes versions, until a few have failed. With all, it waits for other goroutines that are writing them. It returns the
// entries that are still to be written, and the number of failures.
func (w *writer) runJobs(ctx context.Context, jobs [][]version, all bool) (left []*entry, failures int) {
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
				err = w.runJob(ctx, job, all)
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

// errBusy means that another goroutine is writing the entry, or that the writer has stopped after failures.
var errBusy = errors.New("the task is not written now")

func (w *writer) runJob(ctx context.Context, job []version, all bool) error {
	if e := job[0].e; len(job) == 1 {
		e.mu.Lock()
		switch {
		case e.flight != nil && all:
			e.mu.Unlock()
			_, err := w.until(ctx, e, func(_ *writer, e *entry) bool { return e.isStored() })
			return err
		case e.flight != nil:
			e.mu.Unlock()
			return errBusy
		case e.isStored():
			e.mu.Unlock()
			return nil
		}
		return w.exchange(ctx, e, true).err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	size, err := w.put(ctx, job...)
	if err != nil {
		return w.failed(ctx, err)
	}
	for _, v := range job {
		v.e.mu.Lock()
		w.wrote(v.e, v.t, size/int64(len(job)))
		v.e.mu.Unlock()
	}
	return nil
}

// begin lets the sweeping begin.
func (w *writer) begin() { close(w.used) }

// sweep deletes from the Store what is older than TTL, and the oldest records when there are too many: soon after the first
// use, each hour, and when much was written.
func (w *writer) sweep(closing <-chan struct{}, bounds run.Bounds) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { <-closing; cancel() })
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	used := w.used
	var first <-chan time.Time
	for {
		select {
		case <-closing:
			return
		case <-used: // not before: a configuration that is only checked must not change the storage
			used, first = nil, time.After(firstSweep)
			continue
		case <-first:
		case <-tick.C:
		case <-w.trim:
		}
		bounds.Before = time.Now().Add(-w.memory.ttl - 2*task.ClockSkew)
		open := w.memory.open()
		if err := w.storage.Trim(ctx, bounds, func(id string) bool { return open[id] }); err != nil && ctx.Err() == nil {
			w.report(err)
		}
	}
}
