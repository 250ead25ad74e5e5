package translate

import (
	"sync"
	"sync/atomic"
)

// Faults remember why skills of a source could not be used when that was last tried.
// They may outlive a [Bridge]: whoever makes another with the same source can hand
// them on to it. They are safe for concurrent use, and the zero value is empty.
type Faults struct {
	count atomic.Int64 // of those known, since most calls find none

	mu    sync.Mutex
	known map[string]*Failure // by the skills' ids
}

// note notes what became of reading a skill's descriptor; nil: it can be used.
func (f *Faults) note(id string, failure *Failure) {
	if failure == nil && f.count.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if failure == nil {
		delete(f.known, id)
	} else {
		if f.known == nil {
			f.known = make(map[string]*Failure)
		}
		f.known[id] = failure
	}
	f.count.Store(int64(len(f.known)))
}

// of returns why a skill could not be used; nil: it could, or that was not tried.
func (f *Faults) of(id string) *Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[id]
}

// keep forgets those of the skills that a source does not list any more, or lists with
// another version than before, if that is known: they may have been mended.
func (f *Faults) keep(now, before *nameTable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.known {
		listed := now.byID[id]
		if listed == nil || before != nil && before.byID[id] != nil && before.byID[id].Version != listed.Version {
			delete(f.known, id)
		}
	}
	f.count.Store(int64(len(f.known)))
}
