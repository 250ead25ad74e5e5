// Package waiting wakes those who wait for a change, by what they have in common.
package waiting

import "sync"

// Waiting are those who wait, in groups. The zero value is ready for use. It is safe for concurrent use.
type Waiting[Group comparable] struct {
	mu     sync.Mutex
	groups map[Group]chan struct{} // closed and removed at a change
}

// Next returns a channel that is closed at the next change that concerns a group.
func (w *Waiting[Group]) Next(g Group) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.groups == nil {
		w.groups = map[Group]chan struct{}{}
	}
	if w.groups[g] == nil {
		w.groups[g] = make(chan struct{})
	}
	return w.groups[g]
}

// Wake wakes the groups that a change concerns.
func (w *Waiting[Group]) Wake(concerns func(Group) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for g, change := range w.groups {
		if concerns(g) {
			close(change)
			delete(w.groups, g)
		}
	}
}
