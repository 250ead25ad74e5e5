package polling

import (
	"math"
	"slices"
	"time"
)

const (
	// DefaultPrice is the default price of a poll: how much later the end of a run may be noticed
	// if that saves one poll.
	DefaultPrice = 20 * time.Millisecond

	priorStart = 0.002 // seconds: the assumed execution times of an unknown skill begin here
	horizon    = 600.0 // seconds: they end here, unless a run takes longer

	tail      = 0.15 // gap between polls after the end of a schedule, as a part of the elapsed time
	coldScale = 2.75 // time of the first poll of an unknown skill, as a multiple of the price
	merged    = 0.1  // a planned poll is skipped if it is nearer than this part of the gap before it
	likely    = 0.25 // probability at which a run has likely ended; the best value by simulation
)

// schedule has the times, counted from the start, at which a run is polled. It is immutable.
type schedule struct {
	price float64   // seconds
	times []float32 // seconds, ascending; nil: nothing is known
	ended []float32 // the probability that a run has ended by each of them
}

// next returns when to poll next, counted like elapsed from the start of the run,
// and the smaller of the gaps before and after that poll.
func (s *schedule) next(elapsed time.Duration) (at, gap time.Duration) {
	after := max(elapsed, 0).Seconds()
	if s.times == nil {
		scale := coldScale * s.price
		k := math.Floor(math.Sqrt(after/scale)+merged) + 1
		return seconds(scale * k * k), seconds(scale * (2*k - 1))
	}
	i, _ := slices.BinarySearch(s.times, float32(after))
	if i < len(s.times) && float64(s.times[i])-after < merged*(s.at(i)-s.at(i-1)) {
		i++
	}
	if i >= len(s.times) {
		return seconds(after + tail*after), seconds(tail * after)
	}
	return seconds(s.at(i)), seconds(min(s.at(i)-s.at(i-1), s.at(i+1)-s.at(i)))
}

// likelyEnd returns when a run has likely ended, if it was still running at a given time. Both
// times are counted from its start.
func (s *schedule) likelyEnd(running time.Duration) time.Duration {
	at := max(running.Seconds(), priorStart)
	if s.times == nil { // an unknown skill
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

// by returns the probability that a run has ended by a time, which is between the polls i-1
// and i.
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

// at returns the time of poll i; 0 if i is -1; and if i is past the last poll, the time of a further poll.
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
