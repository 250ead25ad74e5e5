package webhook

import "time"

const (
	// A Rate allows burst requests at once, and then one in each interval of pause.
	burst = 8
	pause = time.Second
)

// Rate limits the rate of requests by the generic cell rate algorithm. The zero Rate allows a full burst. It is not safe for concurrent use.
type Rate struct{ tat time.Time } // the theoretical arrival time

// Wait returns how long the next request has to wait; not positive: it need not.
func (r *Rate) Wait(now time.Time) time.Duration {
	if r.tat.Before(now) {
		return 0
	}
	return r.tat.Sub(now) - (burst-1)*pause
}

// Spend counts a request, which takes a time.
func (r *Rate) Spend(now time.Time, pace time.Duration) {
	if r.tat.Before(now) {
		r.tat = now
	}
	r.tat = r.tat.Add(pace)
}

// Rest returns the time until a full burst is allowed again; not positive: it is.
func (r *Rate) Rest(now time.Time) time.Duration { return r.tat.Sub(now) }
