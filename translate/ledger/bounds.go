package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Bounds are how much is kept. They hold over all instances, but for what the others begin in some 10 seconds.
type Bounds struct {
	Runs, RunsOfOne     int   // kept runs, in all and of one principal. Default: 100,000 and 10,000
	Output, OutputOfOne int64 // bytes of outcomes and notes. Default: 4 GiB and 256 MiB
}

// countEvery is the age from which what an owner has is counted again, in the background.
const countEvery = 10 * time.Second

// maxSmall is the size of the largest outcome for which there is always place, in bytes.
const maxSmall = 4 << 10

// usage counts what is kept: what the store has counted, and what this instance has added since. Entries can't be deleted to make place: a key without its
// entry could be used twice.
type usage struct {
	count   func(ctx context.Context, owner *Owner) (Usage, error)
	guarded func(f func()) // calls what would end the process by a panic

	mu     sync.Mutex
	bounds Bounds
	all    holding
	owners map[Owner]*holding
	begun  map[Identity]int64 // the sizes of entries that the store perhaps does not have yet
}

// holding is what an owner has, or all owners.
type holding struct {
	Usage
	starting  Usage         // those of its entries that are begun
	settled   Usage         // what it has got by this instance, in all; its bytes are negative if this instance has made what others added smaller
	reserved  int64         // bytes for outcomes that only this instance gets
	counted   time.Time     // zero: never
	took      time.Duration // the last count
	recounted time.Time     // when the last recount in the background began
	outdated  int           // how often; a count that began before says something else
	evicting  chan struct{} // holds the call that deletes entries of the owner to make place
	barren    time.Time     // when it began without finding one; zero: it may find some
}

func (u *usage) set(b Bounds) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bounds = Bounds{cmp.Or(b.Runs, 100_000), cmp.Or(b.RunsOfOne, 10_000), cmp.Or(b.Output, 4<<30), cmp.Or(b.OutputOfOne, 256<<20)}
}

// of returns what an owner has; nil: of all. The lock is held.
func (u *usage) of(owner *Owner) *holding {
	if owner == nil {
		return &u.all
	}
	s := u.owners[*owner]
	if s == nil {
		if len(u.owners)%1000 == 999 { // they are counted again when they are seen again
			maps.DeleteFunc(u.owners, func(_ Owner, s *holding) bool {
				return s.starting.Entries == 0 && s.reserved == 0 && len(s.evicting) == 0 && time.Since(s.counted) > time.Minute
			})
		}
		s = &holding{evicting: make(chan struct{}, 1)}
		u.owners[*owner] = s
	}
	return s
}

// load makes sure that what an owner has was counted.
func (u *usage) load(ctx context.Context, owner Owner) error {
	for _, of := range []*Owner{nil, &owner} {
		u.mu.Lock()
		s := u.of(of)
		first, old := s.counted.IsZero(), min(time.Since(s.counted), time.Since(s.recounted)) >= countEvery
		if old {
			s.recounted = time.Now()
		}
		u.mu.Unlock()
		if first {
			if err := u.recount(ctx, of); err != nil {
				return err
			}
		} else if old {
			go u.guarded(func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countEvery)
				defer cancel()
				_ = u.recount(ctx, of) // it is tried again
			})
		}
	}
	return nil
}

// recount counts what an owner has, unless that was counted just now, or counting takes long. What the store got meanwhile counts twice rather than not at all.
func (u *usage) recount(ctx context.Context, owner *Owner) error {
	u.mu.Lock()
	before, began := *u.of(owner), time.Now()
	u.mu.Unlock()
	if began.Sub(before.counted) < max(time.Second, 20*before.took, min(100*before.took, countEvery)) { // each call of an owner that has as much as it may counts
		return nil
	}
	counted, err := u.count(ctx, owner)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.of(owner); s.outdated == before.outdated && s.counted.Equal(before.counted) { // else another count was earlier
		counted.add(s.starting.Entries+s.settled.Entries-before.settled.Entries, s.starting.Bytes+max(s.settled.Bytes-before.settled.Bytes, 0))
		s.Usage, s.counted = counted, time.Now()
		s.took = s.counted.Sub(began)
	}
	return nil
}

// begin counts a new run, whose outcome may need some bytes. It returns the exceeded bound; nil: the run may be kept, and settle has to be called.
func (u *usage) begin(ctx context.Context, e *Entry, most int64) *run.Failure {
	exceeded := u.add(e, most)
	if exceeded == nil || u.recount(ctx, nil) != nil || u.recount(ctx, &e.Owner) != nil { // what has expired is no longer there
		return exceeded
	}
	return u.add(e, most)
}

// evicts returns how many entries of an owner make place for another one. If the owner has too much, these are those beyond its bounds, since several
// instances and calls begin runs at the same time, and a part of the rest, so that few statements do. If all owners together have too much, it pays only for
// its own new one, as far as that is possible with such a part. 0: none were
// found within the last second. From now on this is assumed, until change is called.
func (u *usage) evicts(owner Owner) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	own, part := u.of(&owner), max(u.bounds.RunsOfOne/100, 1)
	if time.Since(own.barren) < time.Second {
		return 0
	}
	own.barren = time.Now()
	if beyond := own.Entries - u.bounds.RunsOfOne; beyond >= 0 || own.Bytes > u.bounds.OutputOfOne {
		return min(max(beyond, 0)+part, 1000) // by one statement
	}
	return min(max(u.all.Entries-u.bounds.Runs, 0)+1, part)
}

// outdate says that what an owner has was changed otherwise, so that it has to be counted again.
func (u *usage) outdate(owner Owner) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range []*holding{&u.all, u.of(&owner)} {
		s.counted, s.outdated = time.Time{}, s.outdated+1
	}
}

// add counts a new run, unless a bound is exceeded.
func (u *usage) add(e *Entry, most int64) (exceeded *run.Failure) {
	u.mu.Lock()
	defer u.mu.Unlock()
	own := u.of(&e.Owner)
	limit := u.full(own, most)
	switch {
	case limit != nil:
	case u.all.Entries >= u.bounds.Runs:
		limit = &run.Limit{Name: "kept runs", Max: int64(u.bounds.Runs)}
	case own.Entries >= u.bounds.RunsOfOne:
		limit = &run.Limit{Name: "kept runs of a principal", Max: int64(u.bounds.RunsOfOne)}
	default:
		for _, s := range []*holding{&u.all, own} {
			s.add(1, e.Size())
			s.starting.add(1, e.Size())
		}
		u.begun[e.Identity()] = e.Size()
		return nil
	}
	return refuse(limit)
}

// full returns the bound that some more bytes of an owner would exceed; nil: there is place for them. The lock is held.
func (u *usage) full(own *holding, more int64) *run.Limit {
	switch {
	case u.all.Bytes+u.all.reserved+more > u.bounds.Output:
		return &run.Limit{Name: "bytes of outcomes", Max: u.bounds.Output}
	case own.Bytes+own.reserved+more > u.bounds.OutputOfOne:
		return &run.Limit{Name: "bytes of outcomes of a principal", Max: u.bounds.OutputOfOne}
	}
	return nil
}

// settle says whether the store has got the entry of a run that has begun. Only the first call for it counts.
func (u *usage) settle(id Identity, kept bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	size, begun := u.begun[id]
	if !begun {
		return
	}
	delete(u.begun, id)
	for _, s := range []*holding{&u.all, u.of(&id.Owner)} {
		if s.starting.add(-1, -size); kept {
			s.settled.Entries++
			s.settled.Bytes += size
		} else {
			s.add(-1, -size)
		}
	}
}

// change says how many entries of an owner, and bytes of notes and outcomes, the store has got. ended says that some may make place now.
func (u *usage) change(owner Owner, entries int, bytes int64, ended bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range []*holding{&u.all, u.of(&owner)} {
		s.add(entries, bytes)
		if s.settled.Bytes += bytes; ended {
			s.barren = time.Time{}
		}
	}
}

// add adds what may be negative.
func (u *Usage) add(entries int, bytes int64) {
	u.Entries, u.Bytes = max(u.Entries+entries, 0), max(u.Bytes+bytes, 0)
}

// Reserve reserves place for an outcome that only this instance gets, since the provider can't be asked for it again. A negative size gives place back.
func (l *Ledger) Reserve(owner Owner, size int64) *run.Failure {
	u := &l.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	own := u.of(&owner)
	if limit := u.full(own, size); limit != nil && size > 0 {
		return refuse(limit)
	}
	own.reserved += size
	u.all.reserved += size
	return nil
}

// fits returns the exceeded bound of an outcome or of notes, for which some bytes may be reserved; nil: they may be stored. There is always place for short
// ones.
func (u *usage) fits(owner Owner, size, reserved int64) *run.Limit {
	switch {
	case size <= maxSmall:
		return nil
	case size > run.MaxRecord:
		return &run.Limit{Name: "bytes of outcomes of one run", Max: run.MaxRecord}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.full(u.of(&owner), size-reserved)
}

// refuse is the failure of a call whose run can't be kept.
func refuse(limit *run.Limit) *run.Failure {
	message := fmt.Sprintf("Too much is kept about runs (%s: %d); nothing was sent to the provider", limit.Name, limit.Max)
	return run.TooMuch(run.PhaseInvoke, message, *limit, run.RetryIn(30*time.Second, 10))
}
