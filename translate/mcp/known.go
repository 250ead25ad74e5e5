package mcp

import (
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// maxKnown bounds the runs that [polledRuns] and [canceledRuns] remember.
const maxKnown = 10_000

// runKey names a run of a caller.
type runKey struct{ principal, source, executionID string }

func keyOf(principal string, ref *run.Ref) runKey {
	return runKey{principal, ref.Source, ref.ExecutionID}
}

// remembered are values that expire, by run.
type remembered[V any] struct {
	mu sync.Mutex
	of map[runKey]timed[V]
}

type timed[V any] struct {
	value V
	until time.Time
}

func (m *remembered[V]) find(key runKey) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.of[key]
	return e.value, ok && time.Now().Before(e.until)
}

// add remembers a value. If there are too many, those that have expired are forgotten, and then the one that would expire first.
func (m *remembered[V]) add(key runKey, value V, lasts time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.of == nil {
		m.of = map[runKey]timed[V]{}
	}
	if _, known := m.of[key]; !known && len(m.of) >= maxKnown {
		var first runKey
		var earliest time.Time
		for k, e := range m.of {
			if now.After(e.until) {
				delete(m.of, k)
			} else if earliest.IsZero() || e.until.Before(earliest) {
				first, earliest = k, e.until
			}
		}
		if len(m.of) >= maxKnown {
			delete(m.of, first)
		}
	}
	m.of[key] = timed[V]{value, now.Add(lasts)}
}

// polledRun is what the last poll of a run said that goes on.
type polledRun struct {
	message    string
	retryAfter time.Duration
}

// pollEvery is the shortest time between two polls of a run for clients that ask about its task.
const pollEvery = time.Second

// polledRuns are the runs that were polled within the last second. All callers share them.
type polledRuns struct{ remembered[polledRun] }

func (p *polledRuns) find(ref *run.Ref) (polledRun, bool) { return p.remembered.find(keyOf("", ref)) }

func (p *polledRuns) note(ref *run.Ref, r polledRun) { p.add(keyOf("", ref), r, pollEvery) }

// canceledRuns are the runs whose tasks were canceled.
type canceledRuns struct{ remembered[struct{}] }

func (c *canceledRuns) add(principal string, ref *run.Ref) {
	c.remembered.add(keyOf(principal, ref), struct{}{}, runtoken.Lifetime)
}

func (c *canceledRuns) has(principal string, ref *run.Ref) bool {
	_, ok := c.find(keyOf(principal, ref))
	return ok
}
