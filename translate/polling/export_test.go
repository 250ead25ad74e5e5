package polling

import "time"

// Times returns the polls of a schedule.
func (s *Schedule) Times() []time.Duration {
	times := make([]time.Duration, len(s.times))
	for i, t := range s.times {
		times[i] = seconds(float64(t))
	}
	return times
}

// Schedule returns the schedule that is in use.
func (l *Learner) Schedule() *Schedule { return l.schedule.Load() }

// Price returns the price that a schedule was made for.
func (s *Schedule) Price() time.Duration { return seconds(s.price) }

// Skills returns how many skills a book knows.
func (b *Book) Skills() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.skills)
}

// Budgets returns how many budgets there are.
func (b *Budgets) Budgets() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.budgets)
}

// Planner makes schedules over and over, as a book does.
type Planner struct {
	planner planner
	lent    []float64
}

// Schedule makes a schedule.
func (p *Planner) Schedule(h *History, price time.Duration) *Schedule {
	l := h.lessons(p.lent)
	p.lent = l.times
	return p.planner.schedule(l, price)
}
