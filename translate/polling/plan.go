package polling

import (
	"math"
	"math/rand/v2"
	"time"
)

// A Plan says when runs are polled. Plans are safe for concurrent use, and any number
// of runs can use one.
type Plan interface {
	// Next returns the delay until the next poll, or [Never].
	Next(p Progress) time.Duration
}

// Progress is the state of a run that is being polled.
type Progress struct {
	// Elapsed is the time since the run began, or since its acceptance arrived.
	Elapsed time.Duration
	// Polls is the number of polls so far.
	Polls int
	// RoundTrip is how long a poll takes to be answered; 0 if that is not known.
	RoundTrip time.Duration
	// Remaining is the time until the deadline, or [NoDeadline].
	Remaining time.Duration
	// AtLeast is the delay that the provider has asked for.
	AtLeast time.Duration
}

const (
	// Never is the delay if there is no further poll before the deadline.
	Never time.Duration = math.MaxInt64
	// NoDeadline is [Progress.Remaining] of a run without a deadline.
	NoDeadline time.Duration = math.MaxInt64
)

const (
	shortestGap    = 20 * time.Millisecond // between an answer and the next poll
	longestGap     = 5 * time.Second       // between polls of a learner, or
	longestPart    = 0.25                  // of the elapsed time if that is longer
	randomness     = 0.05                  // of a delay
	growth         = 1.5                   // of the delays of a Backoff
	minimumReserve = 10 * time.Millisecond // between the last poll and the deadline, in addition to a round trip
)

// Backoff is the plan to poll at intervals that grow by half each time, up to the longest. Without one, all are equal.
type Backoff struct {
	Initial, Longest time.Duration
	// Random returns numbers in [0, 1). If nil, those of math/rand.
	Random func() float64
}

// Next implements [Plan].
func (b Backoff) Next(p Progress) time.Duration {
	longest := max(b.Longest, b.Initial)
	d := float64(max(b.Initial, time.Millisecond))
	for n := 0; n < p.Polls && d < float64(longest); n++ {
		d *= growth
	}
	d = min(d, float64(longest))
	return p.bound(time.Duration(d+randomness*d*(2*draw(b.Random)-1)), b.Random)
}

func draw(random func() float64) float64 {
	if random == nil {
		return rand.Float64() //nolint:gosec // so that callers do not come in step; no secret
	}
	return random()
}

// bound applies the rules of all plans to a delay.
func (p Progress) bound(delay time.Duration, random func() float64) time.Duration {
	delay = max(delay, shortestGap)
	if p.AtLeast > delay {
		if p.AtLeast > Never/2 {
			return Never
		}
		// Callers with the same Retry-After must not poll at the same time.
		delay = p.AtLeast + time.Duration(randomness*float64(p.AtLeast)*draw(random))
	}
	if p.Remaining == NoDeadline {
		return delay
	}
	last := p.last()
	switch {
	case delay <= last-shortestGap: // else there could be no last poll
		return delay
	case last >= max(shortestGap, p.AtLeast):
		return last
	}
	return Never
}

// last is the delay after which a poll can just be answered by the deadline.
func (p Progress) last() time.Duration {
	reserve := max(p.RoundTrip, 0)
	reserve += max(reserve/4, minimumReserve)
	if p.Polls == 0 {
		// The only poll is made even if its answer may come too late.
		reserve = min(reserve, p.Remaining/2)
	}
	return p.Remaining - reserve
}
