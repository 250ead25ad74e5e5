package share

import (
	"iter"
	"slices"
)

// Turns holds what waits in lines that take turns: the first of a line has its turn, and then the line goes to the end. The zero value is empty. It is not safe
// for concurrent use.
type Turns[L, T comparable] struct {
	lines []line[L, T] // none is empty; the first one has the next turn
}

type line[L, T comparable] struct {
	name    L
	waiting []T
}

// IsEmpty reports whether nothing waits.
func (t *Turns[L, T]) IsEmpty() bool { return len(t.lines) == 0 }

// First returns the first of each line, in the order of the lines.
func (t *Turns[L, T]) First() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, l := range t.lines {
			if !yield(l.waiting[0]) {
				return
			}
		}
	}
}

func (t *Turns[L, T]) find(name L) int {
	return slices.IndexFunc(t.lines, func(l line[L, T]) bool { return l.name == name })
}

// Add adds what waits to the end of a line.
func (t *Turns[L, T]) Add(name L, x T) {
	i := t.find(name)
	if i < 0 {
		i = len(t.lines)
		t.lines = append(t.lines, line[L, T]{name: name})
	}
	t.lines[i].waiting = append(t.lines[i].waiting, x)
}

// Remove removes from a line what waits no longer. It reports whether it did wait.
func (t *Turns[L, T]) Remove(name L, x T) bool {
	i := t.find(name)
	if i < 0 {
		return false
	}
	waiting := t.lines[i].waiting
	n := slices.Index(waiting, x)
	if n < 0 {
		return false
	}
	t.lines[i].waiting = slices.Delete(waiting, n, n+1)
	if len(waiting) == 1 {
		t.lines = slices.Delete(t.lines, i, i+1)
	}
	return true
}

// Next removes and returns the first of the first line that may have its turn. It returns false if there is none.
func (t *Turns[L, T]) Next(may func(T) bool) (first T, ok bool) {
	i := slices.IndexFunc(t.lines, func(l line[L, T]) bool { return may(l.waiting[0]) })
	if i < 0 {
		return first, false
	}
	l := t.lines[i]
	t.lines = slices.Delete(t.lines, i, i+1)
	first = l.waiting[0]
	if l.waiting = slices.Delete(l.waiting, 0, 1); len(l.waiting) > 0 {
		t.lines = append(t.lines, l)
	}
	return first, true
}
