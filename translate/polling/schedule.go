package polling

import (
	"math"
	"slices"
	"time"
)

const (
	// DefaultPrice is the price of a poll where none is given.
	DefaultPrice = 20 * time.Millisecond

	priorStart = 0.002 // seconds: where the law for an unknown skill starts
	horizon    = 600.0 // and where it ends, unless runs take longer

	tail      = 0.15 // of the time elapsed: the gaps after the end of a schedule
	coldScale = 2.75 // times the price: the first poll of an unknown skill
	merged    = 0.1  // of a gap: a poll that early was the one meant for its end
	likely    = 0.25 // probability at which a run counts as likely to have ended: so most are noticed soonest, by simulation
)

// schedule says at which times after its start a run is best polled. It is
// immutable.
type schedule struct {
	price float64   // seconds
	times []float32 // seconds, ascending; nil: nothing is known
	ended []float32 // the probability that a run has ended by each of them
}

// next returns when to poll next, counted like elapsed from the start of the run,
// and the smaller of the gaps before and after that poll.
func (s *schedule) next(elapsed time.Duration) (at, gap time.Duration) {
	next, smaller := s.after(max(elapsed, 0).Seconds())
	return seconds(next), seconds(smaller)
}

// likelyEnd returns when a run is likely to have ended that was still running at some time,
// both counted from the start of the run.
func (s *schedule) likelyEnd(running time.Duration) time.Duration {
	at := max(running.Seconds(), priorStart)
	if s.times == nil { // no scale is likelier than another
		return seconds(at * math.Pow(max(horizon/at, 1+tail), likely))
	}
	i, _ := slices.BinarySearch(s.times, float32(at))
	seen := s.by(i, at)
	for ; i < len(s.times); i++ {
		if float64(s.ended[i])-seen >= likely*(1-seen) {
			return seconds(max(float64(s.times[i]), at))
		}
	}
	return seconds(max(at, s.at(len(s.times)-1)) * (1 + tail))
}

// by is the probability that a run has ended by a time, which is not after the i-th.
func (s *schedule) by(i int, at float64) float64 {
	switch i {
	case 0:
		return float64(s.ended[0]) * at / max(s.at(0), at)
	case len(s.times):
		return float64(s.ended[i-1])
	}
	from, to := float64(s.ended[i-1]), float64(s.ended[i])
	return from + (to-from)*(at-s.at(i-1))/(s.at(i)-s.at(i-1))
}

func (s *schedule) after(elapsed float64) (next, gap float64) {
	if s.times == nil {
		scale := coldScale * s.price
		k := math.Floor(math.Sqrt(elapsed/scale)+merged) + 1
		return scale * k * k, scale * (2*k - 1)
	}
	i, _ := slices.BinarySearch(s.times, float32(elapsed))
	if i < len(s.times) && float64(s.times[i])-elapsed < merged*(s.at(i)-s.at(i-1)) {
		i++
	}
	if i >= len(s.times) {
		gap = tail * elapsed
		return elapsed + gap, gap
	}
	return s.at(i), min(s.at(i)-s.at(i-1), s.at(i+1)-s.at(i))
}

// at is the i-th time of the schedule, with what lies before and after it.
func (s *schedule) at(i int) float64 {
	switch {
	case i < 0:
		return 0
	case i >= len(s.times):
		return float64(s.times[len(s.times)-1]) * (1 + tail)
	}
	return float64(s.times[i])
}

// seconds converts to a duration that does not overflow.
func seconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), float64(math.MaxInt64/2)))
}
