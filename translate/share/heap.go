package share

import (
	"container/heap"
	"iter"
	"slices"
)

// Spot is the place of an item in a [Heap], for types that embed it.
type Spot struct{ at int } // counted from 1; 0: it is in none

func (s *Spot) spot() *Spot { return s } //nolint:unused // Heap uses it by its constraint

// Waits reports whether the item is in a heap.
func (s *Spot) Waits() bool { return s.at > 0 }

// Heap holds items of which the first one is next. An item is in one heap at most. The zero value is empty. It is not safe for concurrent use.
type Heap[T item[T]] struct{ items items[T] }

// item is an item of a heap: a pointer to a type that embeds [Spot].
type item[T any] interface {
	Before(other T) bool // how it is in the order of the heap
	spot() *Spot
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// First returns the first item, of which there must be one.
func (h *Heap[T]) First() T { return h.items[0] }

// All returns the items in no order.
func (h *Heap[T]) All() iter.Seq[T] { return slices.Values(h.items) }

// Push adds an item.
func (h *Heap[T]) Push(x T) { heap.Push(&h.items, x) }

// Pop removes and returns the first item, of which there must be one.
func (h *Heap[T]) Pop() T { return heap.Pop(&h.items).(T) } //nolint:forcetypeassert // it has no others

// Fix finds the place of an item of the heap after a change of its order.
func (h *Heap[T]) Fix(x T) { heap.Fix(&h.items, x.spot().at-1) }

// Remove removes an item, if it is in the heap.
func (h *Heap[T]) Remove(x T) {
	if at := x.spot().at; at > 0 {
		heap.Remove(&h.items, at-1)
	}
}

// items implement [heap.Interface].
type items[T item[T]] []T

func (s items[T]) Len() int           { return len(s) }
func (s items[T]) Less(i, j int) bool { return s[i].Before(s[j]) }

func (s items[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].spot().at, s[j].spot().at = i+1, j+1
}

func (s *items[T]) Push(x any) {
	added := x.(T) //nolint:forcetypeassert // it gets no others
	*s = append(*s, added)
	added.spot().at = len(*s)
}

func (s *items[T]) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = slices.Delete(*s, last, last+1) // clears it, so that it does not stay in memory
	x.spot().at = 0
	return x
}
