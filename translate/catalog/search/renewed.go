package search

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Renewed is an [Index] of skills whose further tags become known later. It is made when it is first used, and again when it is used
// after tags have become known. The zero value is ready for use.
type Renewed struct {
	mu    sync.Mutex
	index atomic.Pointer[Index]
	stale atomic.Bool
	made  time.Time
	tags  []uint64 // by skill: a hash of the further tags that the index has; 0: there are none
}

// Bounds of what becomes known later.
const (
	maxFurther  = 32               // tags of a skill
	maxTag      = maxWord          // bytes of a tag
	manySkills  = 1000             // whose index takes more than a few milliseconds
	renewSlowly = 10 * time.Second // how long the index of many skills is used although it is stale
)

var seed = maphash.MakeSeed()

// Index returns the index of the texts of skills. All calls must have the same number of skills. While a call makes the index again, others
// get the stale one.
func (r *Renewed) Index(skills int, texts func(i int) Texts) *Index {
	known := r.index.Load()
	if known == nil {
		r.mu.Lock()
	} else if !r.stale.Load() || !r.mu.TryLock() {
		return known
	}
	defer r.mu.Unlock()
	if known = r.index.Load(); known != nil && (!r.stale.Load() || skills > manySkills && time.Since(r.made) < renewSlowly) {
		return known
	}
	r.stale.Store(false)
	r.tags, r.made = make([]uint64, skills), time.Now()
	ix := NewIndex(skills, func(i int) Texts {
		t := texts(i)
		t.Further = t.Further[:min(len(t.Further), maxFurther)]
		r.tags[i] = hashTags(t.Further)
		return t
	})
	r.index.Store(ix)
	return ix
}

// Made reports whether there is an index.
func (r *Renewed) Made() bool { return r.index.Load() != nil }

// Know notes the further tags of a skill. It does not wait for an index that is being made.
func (r *Renewed) Know(i int, further []string) {
	if r.stale.Load() {
		return
	}
	if !r.mu.TryLock() {
		r.stale.Store(true) // they may have become known too late for the index
		return
	}
	defer r.mu.Unlock()
	if r.index.Load() != nil && r.tags[i] != hashTags(further) {
		r.stale.Store(true)
	}
}

// Renew says that the texts of skills have changed.
func (r *Renewed) Renew() { r.stale.Store(true) }

// hashTags returns a hash of the first tags; 0: there are none.
func hashTags(tags []string) (sum uint64) {
	for _, tag := range tags[:min(len(tags), maxFurther)] {
		sum = sum*31 + maphash.String(seed, tag[:min(len(tag), maxTag)]) | 1
	}
	return sum
}
