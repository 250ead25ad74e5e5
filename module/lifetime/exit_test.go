package lifetime

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntilAnswers: a second before the end of the grace period, but not before
// half of it is over.
func TestUntilAnswers(t *testing.T) {
	for p, want := range map[period]time.Duration{
		{grace: 10 * time.Second}:                        9 * time.Second,
		{grace: 2 * time.Second}:                         time.Second,
		{grace: time.Second}:                             500 * time.Millisecond,
		{delay: 5 * time.Second, grace: 3 * time.Second}: 7 * time.Second,
	} {
		if got := p.untilAnswers(); got != want {
			t.Errorf("%+v: after %s, want %s", p, got, want)
		}
	}
}

// The exit waits for executions without a request, but not for long.
func TestExitWaitsForRuns(t *testing.T) {
	for about, ends := range map[string]bool{"a run that ends": true, "a run that does not": false} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newExiting()
				e.runs.Store(1)
				over := make(chan struct{})
				start := time.Now()
				go func() {
					e.wait()
					close(over)
				}()
				synctest.Wait()
				select {
				case <-over:
					t.Error("it did not wait")
				default:
				}
				want := lastMoment
				if ends {
					want = 0
					e.leave(&e.runs)
				}
				<-over
				if d := time.Since(start); d != want {
					t.Errorf("it waited for %v, want %v", d, want)
				}
			})
		})
	}
}

// The exit waits for the last request, and then for the last run.
func TestExitWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExiting()
		e.requests.Store(2)
		e.runs.Store(1)
		over := make(chan struct{})
		go func() {
			e.wait()
			close(over)
		}()
		for _, count := range []*atomic.Int64{&e.requests, &e.requests, &e.runs} {
			synctest.Wait()
			select {
			case <-over:
				t.Error("it did not wait")
			default:
			}
			e.leave(count)
		}
		<-over
	})
}

// BenchmarkRequests is what requests that begin and end at the same time share.
func BenchmarkRequests(b *testing.B) {
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			BeginRequest()
			BeginRun()
			EndRun()
			EndRequest()
		}
	})
}
