package run

import (
	"maps"
	"slices"
	"sync"
)

// Serving are values, usually one for each configuration, by what they serve. The zero value is empty. It is safe for concurrent use.
type Serving[K, T comparable] struct {
	mu  sync.Mutex
	all map[K][]T // the newest last
}

// Add adds a value.
func (s *Serving[K, T]) Add(serves K, value T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[K][]T{}
	}
	s.all[serves] = append(s.all[serves], value)
}

// Remove removes a value.
func (s *Serving[K, T]) Remove(serves K, value T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(s.all[serves], func(other T) bool { return other == value })
	if delete(s.all, serves); len(left) > 0 {
		s.all[serves] = left
	}
}

// Served returns what is served, in no order.
func (s *Serving[K, T]) Served() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.all))
}

// Of returns the newest value that serves something, so that a new configuration can end an outage; the zero value: there is none.
func (s *Serving[K, T]) Of(served K) (newest T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.all[served]; len(all) > 0 {
		newest = all[len(all)-1]
	}
	return newest
}
