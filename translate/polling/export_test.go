package polling

import (
	"context"
	"time"
)

// History is the history of a skill.
type History = history

// Add adds an execution. It reports whether a new schedule is due.
func (h *history) Add(c Completion) (due bool) { return h.add(c) }

// Times returns the execution times, in seconds, oldest first.
func (h *history) Times() []float32 { return h.snapshot() }

// Len returns how many execution times are known.
func (h *history) Len() int { return len(h.snapshot()) }

// Schedule says when a run is polled.
type Schedule = schedule

// NewSchedule returns the schedule for a history. A price of 0 is the default.
func NewSchedule(h *History, price time.Duration) *Schedule { return new(Planner).Schedule(h, price) }

// Times returns the polls of a schedule.
func (s *schedule) Times() []time.Duration {
	times := make([]time.Duration, len(s.times))
	for i, t := range s.times {
		times[i] = seconds(float64(t))
	}
	return times
}

// Price returns the price that a schedule was made for.
func (s *schedule) Price() time.Duration { return seconds(s.price) }

// History returns the history of the learner.
func (l *Learner) History() *History { return &l.history }

// Schedule returns the schedule that is in use.
func (l *Learner) Schedule() *Schedule { return l.schedule.Load() }

// Throttled is called when the provider says that there are too many requests.
func (l *Learner) Throttled() { l.throttled() }

// Skills returns how many skills a store knows.
func (s *Store) Skills() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.skills)
}

// Budgets returns how many budgets there are.
func (b *Budgets) Budgets() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.budgets)
}

// Wait waits for the turn of a poll.
func (b *Budget) Wait(ctx context.Context, likely time.Time, most time.Duration, until time.Time) bool {
	return b.wait(ctx, likely, most, until)
}

// Planner makes schedules with the same buffers, as a store does.
type Planner struct{ planner planner }

// Schedule makes a schedule.
func (p *Planner) Schedule(h *History, price time.Duration) *Schedule {
	if price <= 0 {
		price = DefaultPrice
	}
	return p.planner.plan(h, price)
}

// Slow halves the rate.
func (b *Budget) Slow() { b.slow() }

// Found is what is called after a poll that has found the end of a run.
func (b *Budget) Found() { b.found() }
