package testbed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Load makes calls with several concurrent workers.
type Load struct {
	Workers int                              // default: 1
	Calls   int                              // total; 0: unlimited
	For     time.Duration                    // 0: unlimited
	Pace    time.Duration                    // before each call of a worker; 0: none
	Do      func(worker, call int) Answer    // makes a call; calls are numbered from 0
	Done    func(worker, call int, a Answer) // sees each answer; may be nil

	ended chan struct{} // closed by stop; may be nil
}

// A Report has the outcomes of a [Load].
type Report struct {
	Total    int
	Outcomes map[string]int      // by [Answer.Outcome]
	Samples  map[string][]Answer // a few of each outcome
	Elapsed  time.Duration
}

// samples is the number of answers that are kept of each outcome.
const samples = 3

// Run makes the calls and returns the outcomes.
func (l Load) Run(tb testing.TB) *Report {
	tb.Helper()
	if l.Calls == 0 && l.For == 0 {
		tb.Fatal("a load without an end")
	}
	return l.begin(tb)()
}

// Start starts the calls. stop ends them, waits for the calls in progress, and returns the outcomes.
// The end of the test stops them, too.
func (l Load) Start(tb testing.TB) (stop func() *Report) {
	tb.Helper()
	ended := make(chan struct{})
	end := sync.OnceFunc(func() { close(ended) })
	l.ended = ended
	finish := l.begin(tb)
	tb.Cleanup(func() {
		end()
		finish()
	})
	return func() *Report {
		end()
		return finish()
	}
}

// begin starts the workers. finish waits for them.
func (l Load) begin(tb testing.TB) (finish func() *Report) {
	tb.Helper()
	report := &Report{Outcomes: map[string]int{}, Samples: map[string][]Answer{}}
	start := time.Now()
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	for worker := range cmp.Or(l.Workers, 1) {
		workers.Go(func() {
			for l.For == 0 || time.Since(start) < l.For {
				call := int(next.Add(1)) - 1
				if l.Calls > 0 && call >= l.Calls || l.stopped() {
					return
				}
				a := l.Do(worker, call)
				mu.Lock()
				report.add(a)
				mu.Unlock()
				if l.Done != nil {
					l.Done(worker, call, a)
				}
			}
		})
	}
	return sync.OnceValue(func() *Report {
		workers.Wait()
		report.Elapsed = time.Since(start)
		return report
	})
}

// stopped waits for Pace before the next call. It reports whether the load was stopped.
func (l Load) stopped() bool {
	select {
	case <-l.ended:
		return true
	default:
	}
	select {
	case <-l.ended:
		return true
	case <-time.After(l.Pace):
		return false
	}
}

func (r *Report) add(a Answer) {
	outcome := a.Outcome()
	r.Total++
	r.Outcomes[outcome]++
	if kept := r.Samples[outcome]; len(kept) < samples {
		r.Samples[outcome] = append(kept, a)
	}
}

// Only fails the test if there are other outcomes than these.
func (r *Report) Only(tb testing.TB, outcomes ...string) {
	tb.Helper()
	for outcome, n := range r.Outcomes {
		if !slices.Contains(outcomes, outcome) {
			tb.Errorf("%d of %d calls: %s", n, r.Total, r.Samples[outcome][0])
		}
	}
}

// String returns a text for a test's messages.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls in %s:", r.Total, r.Elapsed.Round(time.Millisecond))
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		fmt.Fprintf(&b, " %d %s,", r.Outcomes[outcome], outcome)
	}
	return strings.TrimSuffix(b.String(), ",")
}
