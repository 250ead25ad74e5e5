package keptruns

import (
	"context"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// firstScan bounds the random delay after which a process looks for runs that another one has left. It looks again after secondScan, when
	// the lock of a process that was killed has expired, and then every nextScan.
	firstScan  = 2 * time.Second
	secondScan = 30 * time.Second
	nextScan   = 10 * time.Minute
	// leaseWait is how long a process tries to get the lock of another one. It does not get it while the other one lives.
	leaseWait = 2 * time.Second
	// scanTimeout bounds a scan.
	scanTimeout = 5 * time.Minute
)

// lease is a lock in the store that a process holds while it follows kept runs. Their records name it. So other processes can tell whether
// the runs are followed.
type lease struct {
	mu     sync.Mutex
	id     string // empty: it is not held
	unlock func()
}

// lockOf returns the name of the lock of a process.
func lockOf(instance string) string { return "instance " + instance }

// hold returns the id of this process, and takes its lock before it is used the first time. Without the lock, the id is empty.
func (l *lease) hold(ctx context.Context, r *Runs) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == "" {
		id := r.ids.Next(r.config.Now())
		unlock, err := r.config.Store.Lock(ctx, "", lockOf(id))
		if err != nil {
			r.config.Trouble(err)
			return ""
		}
		l.id, l.unlock = id, unlock
	}
	return l.id
}

// is reports whether an id is that of this process.
func (l *lease) is(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return id == l.id
}

func (l *lease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unlock != nil {
		l.unlock()
	}
	l.id, l.unlock = "", nil
}

// resumption looks for runs that go on and that another process has followed which has ended, and follows them.
type resumption struct{ runs *Runs }

// work looks for runs until the runs are closed.
func (s *resumption) work() {
	wait := rand.N(firstScan) //nolint:gosec // not for secrets
	for _, next := range []time.Duration{secondScan, nextScan} {
		if !s.pause(wait) {
			return
		}
		s.scan()
		wait = next
	}
	for s.pause(wait/2 + rand.N(wait)) { //nolint:gosec // not for secrets
		s.scan()
	}
}

func (s *resumption) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.runs.closed:
		return false
	}
}

// scan looks for runs once.
func (s *resumption) scan() {
	r := s.runs
	ctx, cancel := context.WithTimeout(context.Background(), scanTimeout)
	defer cancel()
	defer func() {
		if value := recover(); value != nil && r.config.Panicked != nil {
			r.config.Panicked(ctx, value, debug.Stack())
		}
	}()
	left := map[string][]*Record{} // by process
	found := 0
	for from, err := range r.config.Running(ctx) {
		if err != nil {
			r.config.Trouble(err)
			break
		}
		record, err := decode(from)
		if err != nil || !s.isLeft(record) {
			continue
		}
		left[record.instance] = append(left[record.instance], record)
		if found++; found == r.usage.bounds.Open {
			break
		}
	}
	for instance, of := range left {
		s.adopt(ctx, instance, of)
	}
}

// isLeft reports whether a run goes on, and is to be followed here unless another process does.
func (s *resumption) isLeft(record *Record) bool {
	r := s.runs
	if !record.goesOn() || record.Owner == "" || r.expired(record.Began()) || r.followers.Of(record.Owner) == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.followed[claim{record.Owner, record.ID}] == nil
}

// adopt follows the runs of a process, if that has ended. While it holds the lock of that process, no other one does.
func (s *resumption) adopt(ctx context.Context, instance string, left []*Record) {
	r := s.runs
	if instance != "" && !r.lease.is(instance) {
		waiting, cancel := context.WithTimeout(ctx, leaseWait)
		defer cancel()
		unlock, err := r.config.Store.Lock(waiting, "", lockOf(instance))
		if err != nil {
			return // it lives
		}
		defer unlock()
	}
	for _, record := range left {
		now, err := r.read(ctx, record.Owner, record.ID)
		if err != nil || now.instance != instance || !s.isLeft(now) {
			continue
		}
		next := *now
		next.instance = r.lease.hold(ctx, r)
		f := &following{runs: r, record: &next}
		if err := f.store(ctx, &next); err != nil {
			r.config.Trouble(err)
			return
		}
		r.follow(&next, run.Caller{Principal: next.principal, Front: next.front})
	}
}
