package run

import (
	"slices"
	"sync"
)

// Owners are values, usually one for each configuration, each of which serves the runs of some owners. The zero value is empty. It is safe for
// concurrent use.
type Owners[T comparable] struct {
	mu   sync.Mutex
	list []serving[T] // the newest last
}

// serving is a value and the owners that it serves.
type serving[T comparable] struct {
	value T
	owns  func(owner string) bool
}

// Add adds a value. owns reports whether it serves an owner.
func (o *Owners[T]) Add(value T, owns func(owner string) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, serving[T]{value, owns})
}

// Remove removes a value.
func (o *Owners[T]) Remove(value T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = slices.DeleteFunc(slices.Clone(o.list), func(s serving[T]) bool { return s.value == value })
}

// Empty reports whether there are no values.
func (o *Owners[T]) Empty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.list) == 0
}

// All returns the values, the newest last.
func (o *Owners[T]) All() []T {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]T, len(o.list))
	for i, s := range o.list {
		all[i] = s.value
	}
	return all
}

// Of returns the newest value that serves an owner, so that a new configuration can end an outage; the zero value: there is none.
func (o *Owners[T]) Of(owner string) (newest T) {
	o.mu.Lock()
	list := o.list // Add appends behind it, and Remove makes another
	o.mu.Unlock()
	for _, s := range slices.Backward(list) {
		if s.owns(owner) {
			return s.value
		}
	}
	return newest
}
