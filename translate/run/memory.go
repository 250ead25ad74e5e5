package run

import (
	"sync"
	"time"
)

// mostRemembered bounds the runs of a [Memory], unless [Memory.AddWithin] has another bound.
const mostRemembered = 10_000

// Key names a run of a caller. Two skills of a source may give their runs the same execution id.
type Key struct {
	principal, source, skill, executionID string
	accepted                              int64 // in Unix milliseconds, as run tokens have it
}

// KeyOf returns the key of a run of a principal; with an empty one, all callers share it. A provider may use an execution id again, so
// that runs which were accepted at different times are different ones.
func KeyOf(principal string, ref *Ref) Key {
	return Key{principal, ref.Source, ref.SkillID, ref.ExecutionID, ref.Accepted.UnixMilli()}
}

// Memory has values that expire, by run. The zero value is ready for use, also by several goroutines.
type Memory[V any] struct {
	mu sync.Mutex
	of map[Key]timed[V]
}

type timed[V any] struct {
	value V
	until time.Time
}

// Find returns the value of a run, unless there is none or it has expired.
func (m *Memory[V]) Find(key Key) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.of[key]
	return e.value, ok && time.Now().Before(e.until)
}

// looks is at how many values a [Memory] looks for one to forget.
const looks = 16

// Add remembers a value. If there are too many, one of some by chance is forgotten: the one that expires first.
func (m *Memory[V]) Add(key Key, value V, lasts time.Duration) {
	m.AddWithin(mostRemembered, key, value, lasts)
}

// AddWithin is Add with another bound of the number of runs.
func (m *Memory[V]) AddWithin(most int, key Key, value V, lasts time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[Key]timed[V]{}
	}
	if _, known := m.of[key]; !known && len(m.of) >= most {
		var first Key
		var earliest time.Time
		looked := 0
		for k, e := range m.of {
			if looked == 0 || e.until.Before(earliest) {
				first, earliest = k, e.until
			}
			if looked++; looked == looks {
				break
			}
		}
		delete(m.of, first)
	}
	m.of[key] = timed[V]{value, time.Now().Add(lasts)}
}

// Remove forgets the value of a run.
func (m *Memory[V]) Remove(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, key)
}
