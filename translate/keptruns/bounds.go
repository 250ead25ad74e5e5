package keptruns

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Bounds are how much one process keeps, in each [Lifetime].
type Bounds struct {
	Runs, RunsOfOne     int   // kept runs, in all and of one owner. Default: 100,000 and 10,000
	Open, OpenOfOne     int   // runs that go on and are followed. Default: 5,000 and 500
	Output, OutputOfOne int64 // bytes of stored outcomes. Default: 4 GiB and 256 MiB
}

func (b Bounds) withDefaults() Bounds {
	return Bounds{
		cmp.Or(b.Runs, 100_000), cmp.Or(b.RunsOfOne, 10_000),
		cmp.Or(b.Open, 5_000), cmp.Or(b.OpenOfOne, 500),
		cmp.Or(b.Output, 4<<30), cmp.Or(b.OutputOfOne, 256<<20),
	}
}

// usage counts what is kept. Records can't be deleted to make place: a key without its record could be used twice.
type usage struct {
	bounds Bounds

	mu     sync.Mutex
	all    share
	owners map[string]*share
}

// share is what was kept within [Lifetime], the runs that go on, and the bytes that their outcomes may need.
type share struct {
	hours    []kept // the oldest first
	open     int
	reserved int64
}

// kept is what was kept in an hour.
type kept struct {
	hour  time.Time
	runs  int
	bytes int64
}

// add counts what was kept at a time.
func (s *share) add(at time.Time, runs int, bytes int64) {
	hour := at.Truncate(time.Hour)
	i, found := slices.BinarySearchFunc(s.hours, hour, func(k kept, hour time.Time) int { return k.hour.Compare(hour) })
	if !found {
		s.hours = slices.Insert(s.hours, i, kept{hour: hour})
	}
	s.hours[i].runs += runs
	s.hours[i].bytes += bytes
}

// total returns what was kept within [Lifetime], and forgets what was kept before. An hour counts as long as its begin is within.
func (s *share) total(now time.Time) (sum kept) {
	s.hours = slices.DeleteFunc(s.hours, func(k kept) bool { return now.Sub(k.hour) >= Lifetime })
	for _, k := range s.hours {
		sum.runs += k.runs
		sum.bytes += k.bytes
	}
	return sum
}

// of returns the share of an owner. The lock is held.
func (u *usage) of(owner string, now time.Time) *share {
	s := u.owners[owner]
	if s == nil {
		if u.owners == nil {
			u.owners = map[string]*share{}
		}
		if len(u.owners)%1000 == 999 { // those without open runs whose time is over are of no use
			maps.DeleteFunc(u.owners, func(_ string, s *share) bool { return s.open == 0 && s.total(now).runs == 0 })
		}
		s = new(share)
		u.owners[owner] = s
	}
	return s
}

// knows reports whether what an owner has in the store is counted.
func (u *usage) knows(owner string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.owners[owner] != nil
}

// count counts what an owner has in the store, unless another goroutine has done so.
func (u *usage) count(owner string, stored []kept, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.owners[owner] != nil {
		return
	}
	s := u.of(owner, now)
	for _, k := range stored {
		s.add(k.hour, k.runs, k.bytes)
		u.all.add(k.hour, k.runs, k.bytes)
	}
}

// add counts a new run, whose outcome may need some bytes. It reserves them if only this process gets the outcome. It returns the exceeded
// bound; nil: the run may be kept, and done has to be called when it goes on no longer.
func (u *usage) add(owner string, now time.Time, bytes int64, reserve bool) *run.Failure {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.of(owner, now)
	all, own := u.all.total(now), s.total(now)
	for _, bound := range []struct {
		name      string
		used, max int64
	}{
		{"kept runs that go on", int64(u.all.open), int64(u.bounds.Open)},
		{"kept runs of a principal that go on", int64(s.open), int64(u.bounds.OpenOfOne)},
		{"bytes of outcomes in 24 hours", all.bytes + u.all.reserved + bytes - 1, u.bounds.Output},
		{"bytes of outcomes of a principal in 24 hours", own.bytes + s.reserved + bytes - 1, u.bounds.OutputOfOne},
		{"kept runs in 24 hours", int64(all.runs), int64(u.bounds.Runs)},
		{"kept runs of a principal in 24 hours", int64(own.runs), int64(u.bounds.RunsOfOne)},
	} {
		if bound.used >= bound.max {
			return refuse(&run.Limit{Name: bound.name, Max: bound.max})
		}
	}
	u.all.add(now, 1, 0)
	s.add(now, 1, 0)
	u.all.open++
	s.open++
	if reserve {
		u.all.reserved += bytes
		s.reserved += bytes
	}
	return nil
}

// resume counts a run that this process follows for another one. It reports whether there is place.
func (u *usage) resume(owner string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.of(owner, now)
	if u.all.open >= u.bounds.Open || s.open >= u.bounds.OpenOfOne {
		return false
	}
	u.all.open++
	s.open++
	return true
}

// done says that a run goes on no longer, or is not followed.
func (u *usage) done(owner string, reserved int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range []*share{&u.all, u.owners[owner]} {
		s.open--
		s.reserved -= reserved
	}
}

// store counts the bytes of an outcome, for which some may be reserved. It returns the exceeded bound; empty: they may be stored.
func (u *usage) store(owner string, size, reserved int64, now time.Time) (exceeded string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.of(owner, now)
	for _, bound := range []struct {
		of        string
		used, max int64
	}{
		{"of one run", 0, run.MaxRecord},
		{"of a principal in 24 hours", s.total(now).bytes + s.reserved - reserved, u.bounds.OutputOfOne},
		{"of all principals in 24 hours", u.all.total(now).bytes + u.all.reserved - reserved, u.bounds.Output},
	} {
		if bound.used+size > bound.max {
			return fmt.Sprintf("%d bytes of outcomes %s", bound.max, bound.of)
		}
	}
	u.all.add(now, 0, size)
	s.add(now, 0, size)
	return ""
}

// refuse is the failure of a call whose run can't be kept.
func refuse(l *run.Limit) *run.Failure {
	return &run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Limit: l, Retry: run.RetryIn(30*time.Second, 10),
		Message: fmt.Sprintf("Too much is kept for calls with 'idempotency_key' or 'notify' (%s: %d); nothing was sent to the provider", l.Name, l.Max),
	}
}

// count counts what an owner has in the store, if this process does not know it. It costs one listing of the owner's files, and reads none.
func (r *Runs) count(ctx context.Context, owner string) error {
	if r.usage.knows(owner) {
		return nil
	}
	unlock, err := r.locks.lock(ctx, owner+"\x00count")
	if err != nil {
		return err
	}
	defer unlock()
	if r.usage.knows(owner) {
		return nil
	}
	now := r.config.Now()
	var stored share
	for of, bytes := range map[string]bool{owner: false, outcomesOf(owner): true} {
		for _, err := range r.config.Store.List(ctx, of, math.MaxInt, func(id string, v run.Version) bool {
			began, _ := run.TimeOfID(id)
			switch {
			case r.expired(began):
			case bytes:
				stored.add(began, 0, int64(min(v.Event, run.MaxRecord)))
			default:
				stored.add(began, 1, 0)
			}
			return false
		}) {
			if err != nil {
				return err
			}
		}
	}
	r.usage.count(owner, stored.hours, now)
	return nil
}

const (
	// trimEvery is the interval of deletions.
	trimEvery = time.Hour
	// trimTimeout bounds a deletion.
	trimTimeout = 10 * time.Minute
)

// trim deletes expired records in the background, if it is time to.
func trim(r *Runs) {
	now := r.config.Now()
	r.mu.Lock()
	due := now.Sub(r.trimmed) >= trimEvery
	if due {
		r.trimmed = now
	}
	r.mu.Unlock()
	if !due {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), trimTimeout)
		defer cancel()
		err := r.config.Store.Trim(ctx, run.Bounds{
			IDs: math.MaxInt, IDsPerOwner: math.MaxInt, Bytes: math.MaxInt64, Before: now.Add(-Lifetime - trimEvery),
		}, func(string) bool { return false })
		if err != nil {
			r.config.Trouble(err)
		}
	}()
}
