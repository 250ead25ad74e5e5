package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

// traffic counts the fetches of a group.
type traffic struct {
	now, most, started atomic.Int64
}

// request is a request of a group whose fetch takes some time or, if that is 0, goes on
// until its context ends.
func (a *traffic) request(n int, atOnce int, takes time.Duration) cache.Request {
	return cache.Request{
		URL: fmt.Sprintf("https://provider.example/%d", n), Group: "provider", AtOnce: atOnce, Timeout: time.Minute,
		Fetch: func(ctx context.Context, _ http.Header) (*cache.Response, error) {
			a.started.Add(1)
			a.most.Store(max(a.most.Load(), a.now.Add(1)))
			defer a.now.Add(-1)
			var end <-chan time.Time
			if takes > 0 {
				end = time.After(takes)
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-end:
				return &cache.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: []byte("one")}, nil
			}
		},
		Parse: func(r *cache.Response) (any, int64, error) { return string(r.Body), 1, nil },
	}
}

// AtOnce flights of a group run at a time, and further ones wait. Other groups, and
// flights without a group, are not bounded by it.
func TestGroupsAreBounded(t *testing.T) {
	play(t, config, func(s scene) {
		var in, other traffic
		var wg sync.WaitGroup
		get := func(request cache.Request) {
			wg.Go(func() {
				if _, err := s.cache.Get(s.Context(), request); err != nil {
					s.Error(err)
				}
			})
		}
		start := time.Now()
		for n := range 10 {
			get(in.request(n, 3, time.Second))
		}
		synctest.Wait()
		for n := range 10 {
			request := other.request(n+100, 5*(n%2), time.Second)
			request.Group = fmt.Sprint(n % 2)
			get(request)
		}
		wg.Wait()
		if in.most.Load() != 3 || in.started.Load() != 10 || other.most.Load() != 10 {
			s.Errorf("%d at a time of %d, %d of others", in.most.Load(), in.started.Load(), other.most.Load())
		}
		if took := time.Since(start); took != 4*time.Second {
			s.Errorf("ten took %s", took)
		}
	})
}

// A caller whose context ends while its flight is queued gets ErrQueued, and the
// flight never starts, unless another caller waits for it too.
func TestQueuedFlights(t *testing.T) {
	play(t, config, func(s scene) {
		var in traffic
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = s.cache.Get(s.Context(), in.request(0, 1, 10*time.Second)) })
		synctest.Wait()
		short, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		var ended atomic.Int64
		wait := func(n int) error {
			request := in.request(n, 1, time.Second)
			request.Done = func() { ended.Add(1) }
			_, err := s.cache.Get(short, request)
			return err
		}
		wg.Go(func() {
			time.Sleep(time.Second / 2)
			if _, err := s.cache.Get(s.Context(), in.request(2, 1, time.Second)); err != nil { // joins
				s.Error(err)
			}
		})
		for n := 1; n <= 2; n++ {
			wg.Go(func() {
				if err := wait(n); !errors.Is(err, cache.ErrQueued) || !errors.Is(err, context.DeadlineExceeded) {
					s.Errorf("got %v", err)
				}
			})
		}
		time.Sleep(2 * time.Second)
		if n := ended.Load(); n != 1 {
			s.Errorf("%d have ended that never started, want 1", n)
		}
		wg.Wait()
		synctest.Wait()
		if in.started.Load() != 2 || ended.Load() != 2 {
			s.Errorf("%d started, %d ended", in.started.Load(), ended.Load())
		}
	})
}

// A flight without callers goes on, but is aborted if one with callers needs its place,
// whether it lost its callers before that one came or after.
func TestFlightsWithoutCallersAreAborted(t *testing.T) {
	for name, leaveAfter := range map[string]time.Duration{"left before": time.Second, "left afterwards": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				var in traffic
				var wg sync.WaitGroup
				ctx, cancel := context.WithTimeout(s.Context(), leaveAfter)
				defer cancel()
				var ended atomic.Int64
				request := in.request(0, 1, 0)
				request.Done = func() { ended.Add(1) }
				wg.Go(func() { _, _ = s.cache.Get(ctx, request) })
				time.Sleep(2 * time.Second)
				if leaveAfter < 2*time.Second && (in.now.Load() != 1 || ended.Load() != 0) {
					s.Errorf("%d are running, %d have ended", in.now.Load(), ended.Load())
				}
				start := time.Now()
				if _, err := s.cache.Get(s.Context(), in.request(1, 1, time.Second)); err != nil {
					s.Error(err)
				}
				if took := time.Since(start); took > 3*time.Second {
					s.Errorf("it took %s", took)
				}
				wg.Wait()
				if in.most.Load() != 1 || ended.Load() != 1 {
					s.Errorf("%d at a time, %d ended", in.most.Load(), ended.Load())
				}
			})
		})
	}
}

// Done is called once for each Get: when the flight that it has begun has ended, or when
// it returns.
func TestDone(t *testing.T) {
	play(t, config, func(s scene) {
		var in traffic
		var wg sync.WaitGroup
		var done [4]atomic.Int64
		get := func(n int, patience time.Duration) {
			ctx, cancel := context.WithTimeout(s.Context(), patience)
			defer cancel()
			request := in.request(0, 0, 5*time.Second)
			request.Done = func() { done[n].Add(1) }
			_, _ = s.cache.Get(ctx, request)
		}
		check := func(what string, want ...int64) {
			s.Helper()
			for n := range done {
				if got := done[n].Load(); got != want[n] {
					s.Errorf("%s: Done of request %d was called %d times, want %d", what, n, got, want[n])
				}
			}
		}
		for n, patience := range []time.Duration{time.Second, 2 * time.Second} {
			wg.Go(func() { get(n, patience) })
			synctest.Wait()
		}
		wg.Wait()
		check("both callers left", 0, 1, 0, 0)
		time.Sleep(4 * time.Second)
		check("the flight ended", 1, 1, 0, 0)
		get(2, time.Minute)
		check("from the cache", 1, 1, 1, 0)
		s.cache.Delete("https://provider.example/0", "")
		get(3, time.Minute)
		check("fetched again", 1, 1, 1, 1)
	})
}

// However callers come and leave, no more than AtOnce flights run, Done is called once for
// each Get, and later requests succeed.
func TestGroupsUnderLoad(t *testing.T) {
	play(t, config, func(s scene) {
		var in traffic
		var wg sync.WaitGroup
		var done atomic.Int64
		for n := range 2000 {
			wg.Go(func() {
				time.Sleep(time.Duration(n%97) * 10 * time.Millisecond)
				ctx, cancel := context.WithTimeout(s.Context(), time.Duration(n%13)*100*time.Millisecond+time.Millisecond)
				defer cancel()
				request := in.request(n%50, 4, time.Duration(n%7)*200*time.Millisecond)
				request.Timeout = 5 * time.Second
				request.Done = func() { done.Add(1) }
				if n%31 == 0 {
					s.cache.Delete(request.URL, "")
				}
				_, _ = s.cache.Get(ctx, request)
			})
		}
		wg.Wait()
		for n := range 10 {
			if _, err := s.cache.Get(s.Context(), in.request(1000+n, 4, time.Second)); err != nil {
				s.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if in.most.Load() > 4 || in.now.Load() != 0 || done.Load() != 2000 {
			s.Errorf("%d at a time, %d still running, %d done", in.most.Load(), in.now.Load(), done.Load())
		}
	})
}

// A quarter of the running flights at most have a share in common, and then one of each
// share: only if more than AtOnce/2 shares hang is there no room for other shares.
func TestShares(t *testing.T) {
	play(t, config, func(s scene) {
		var hanging, other traffic
		ctx, leave := context.WithCancel(s.Context())
		var wg sync.WaitGroup
		flights := 0
		get := func(shares ...string) {
			request := hanging.request(flights, 16, 0)
			flights++
			request.Shares = shares
			wg.Go(func() { _, _ = s.cache.Get(ctx, request) })
			synctest.Wait()
		}
		now := func(want int64) {
			s.Helper()
			if n := hanging.now.Load(); n != want {
				s.Errorf("%d are running, want %d", n, want)
			}
		}
		for range 20 {
			get("host a", "publisher x")
		}
		now(4)
		for range 20 {
			get("host b", "publisher x") // the publisher has its share already
		}
		now(4)
		for range 20 {
			get("host b", "publisher y")
		}
		now(6)
		for n := range 20 {
			get("host "+fmt.Sprint(n), "publisher z")
		}
		now(7)
		for n := range 8 { // one has no room
			for range 20 {
				get("host of "+fmt.Sprint(n), "publisher "+fmt.Sprint(n))
			}
		}
		now(15)
		start := time.Now()
		for n := range 10 {
			request := other.request(1000+n, 16, time.Second)
			request.Shares = []string{"host good", "publisher good"}
			wg.Go(func() {
				if _, err := s.cache.Get(s.Context(), request); err != nil {
					s.Error(err)
				}
			})
		}
		time.Sleep(11 * time.Second)
		if other.most.Load() != 1 || other.started.Load() != 10 {
			s.Errorf("%d at a time, %d in %s", other.most.Load(), other.started.Load(), time.Since(start))
		}
		leave()
		wg.Wait()
		time.Sleep(2 * time.Minute)
		if n := s.cache.Limiters(); n != 0 {
			s.Errorf("%d limiters, but no flights", n)
		}
	})
}

// sharing gets a document whose flight has two shares. took is how long that took, in
// seconds, or 0.
func sharing(s scene, wg *sync.WaitGroup, request cache.Request, host, publisher string) (took *atomic.Int64) {
	took, start := new(atomic.Int64), time.Now()
	request.Shares = []string{host, publisher}
	wg.Go(func() {
		if _, err := s.cache.Get(s.Context(), request); err != nil {
			s.Error(err)
		}
		took.Store(int64(time.Since(start) / time.Second))
	})
	synctest.Wait()
	return took
}

// The end of one flight can make room for several, one for each of its shares.
func TestSharesAreFreedTogether(t *testing.T) {
	play(t, config, func(s scene) {
		var in traffic
		var wg sync.WaitGroup
		sharing(s, &wg, in.request(0, 4, time.Second), "a", "x")
		sharing(s, &wg, in.request(1, 4, 2*time.Second), "a", "y")
		sharing(s, &wg, in.request(2, 4, 2*time.Second), "b", "x")
		if n := in.started.Load(); n != 1 {
			s.Errorf("%d started, want 1", n)
		}
		time.Sleep(1500 * time.Millisecond)
		if n := in.started.Load(); n != 3 {
			s.Errorf("%d started, want 3", n)
		}
		wg.Wait()
	})
}

// A flight that waits for two shares, which have room in turn, is overtaken once or
// twice, not by all others.
func TestOvertakenFlightsHaveTheirTurn(t *testing.T) {
	play(t, config, func(s scene) {
		var in traffic
		var wg sync.WaitGroup
		for n, request := range []cache.Request{in.request(0, 2, 500*time.Millisecond), in.request(1, 2, time.Second)} { // out of step
			sharing(s, &wg, request, fmt.Sprint("host ", n), fmt.Sprint("publisher ", 1-n))
		}
		for n := range 60 {
			sharing(s, &wg, in.request(100+n, 2, time.Second), fmt.Sprint("host ", n%2), fmt.Sprint("publisher ", 1-n%2))
		}
		took := sharing(s, &wg, in.request(999, 2, time.Second), "host 0", "publisher 0")
		wg.Wait()
		if n := took.Load(); n == 0 || n > 5 {
			s.Errorf("it took %d s", n)
		}
	})
}

// Queued flights start in turns, those with different shares one after another.
func TestTurns(t *testing.T) {
	play(t, config, func(s scene) {
		var in traffic
		var wg sync.WaitGroup
		ended := make(map[int]time.Duration)
		var mu sync.Mutex
		start := time.Now()
		for n := range 120 {
			request := in.request(n, 1, time.Second)
			request.Shares = []string{fmt.Sprint(max(0, n-100))} // a hundred of the first, and one of each other
			wg.Go(func() {
				if _, err := s.cache.Get(s.Context(), request); err != nil {
					s.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ended[n] = time.Since(start)
			})
			synctest.Wait()
		}
		wg.Wait()
		for n := 101; n < 120; n++ {
			if ended[n] > 21*time.Second {
				s.Errorf("%d has ended after %s", n, ended[n])
			}
		}
		if in.most.Load() != 1 {
			s.Errorf("%d at a time", in.most.Load())
		}
	})
}

// A flight without callers is aborted only if its end makes room for another, also if
// that becomes so only after both have come.
func TestFlightsWithoutCallersAreAbortedByShare(t *testing.T) {
	play(t, config, func(s scene) {
		var in traffic
		var wg sync.WaitGroup
		left := func(n int, shares ...string) {
			ctx, cancel := context.WithTimeout(s.Context(), time.Second)
			defer cancel()
			request := in.request(n, 8, 20*time.Second)
			request.Shares = shares
			_, _ = s.cache.Get(ctx, request)
		}
		want := func(n int, takes time.Duration, shares ...string) {
			request := in.request(n, 8, takes)
			request.Timeout, request.Shares = 5*time.Second, shares
			wg.Go(func() { _, _ = s.cache.Get(s.Context(), request) })
			synctest.Wait()
		}
		is := func(now, started int64) {
			s.Helper()
			if in.now.Load() != now || in.started.Load() != started {
				s.Errorf("%d are running, %d started; want %d, %d", in.now.Load(), in.started.Load(), now, started)
			}
		}
		left(0, "a")
		for n := range 10 {
			want(100+n, 0, "b")
		}
		left(1, "c")
		is(4, 4) // two of b
		for n := range 4 {
			want(200+n, 0, fmt.Sprint(n))
		}
		is(8, 8)
		want(2, 0, "d")
		is(8, 9) // one was aborted
		want(3, 0, "e")
		is(8, 10) // the other, too
		wg.Wait()
	})
	play(t, config, func(s scene) {
		var in traffic
		var wg sync.WaitGroup
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		request := in.request(0, 16, 20*time.Second)
		request.Shares = []string{"a", "x"}
		_, _ = s.cache.Get(ctx, request)
		for n := range 4 {
			sharing(s, &wg, in.request(100+n, 16, 3*time.Second), "b", "y")
		}
		took := sharing(s, &wg, in.request(1, 16, time.Second), "a", "y") // waits for y only
		for n := range 7 {
			sharing(s, &wg, in.request(200+n, 16, 8*time.Second), fmt.Sprint(n), fmt.Sprint(n))
		}
		if in.started.Load() != 12 {
			s.Errorf("%d started, want 12", in.started.Load())
		}
		wg.Wait()
		if n := took.Load(); n != 4 {
			s.Errorf("it took %d s", n)
		}
	})
}

// While a flight that was aborted has not ended, no second one is aborted for the same
// place.
func TestOneFlightIsAborted(t *testing.T) {
	play(t, config, func(s scene) {
		var in traffic
		var wg sync.WaitGroup
		var aborted atomic.Int64
		get := func(n int, patience time.Duration) {
			ctx, cancel := context.WithTimeout(s.Context(), patience)
			defer cancel()
			request := in.request(n, 2, 0)
			request.Shares = []string{fmt.Sprint(n)}
			request.Fetch = func(ctx context.Context, _ http.Header) (*cache.Response, error) {
				<-ctx.Done()
				aborted.Add(1)
				time.Sleep(time.Second / 2)
				return nil, ctx.Err()
			}
			_, _ = s.cache.Get(ctx, request)
		}
		get(0, time.Second)
		get(1, time.Second)
		for n := range 3 {
			wg.Go(func() { get(2+n, time.Duration(3-n)*100*time.Millisecond) })
			synctest.Wait()
		}
		wg.Wait()
		if n := aborted.Load(); n != 1 {
			s.Errorf("%d were aborted, want 1", n)
		}
	})
}
