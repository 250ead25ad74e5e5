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

// airport counts what is in the air.
type airport struct {
	now, most, started atomic.Int64
}

// request is one of a group, whose fetch takes some time or, if that is 0, until its
// context ends.
func (a *airport) request(n int, atOnce int, takes time.Duration) cache.Request {
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

// So many flights of a group are in the air at a time; further ones wait, and all land.
// Other groups, and flights without one, are not concerned.
func TestGroupsAreBounded(t *testing.T) {
	play(t, config, func(s scene) {
		var in, other airport
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

// A caller whose time ends while its flight waits is told so, and the flight never
// starts; unless another caller waits for it, too.
func TestQueuedFlights(t *testing.T) {
	play(t, config, func(s scene) {
		var in airport
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = s.cache.Get(s.Context(), in.request(0, 1, 10*time.Second)) })
		synctest.Wait()
		short, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		var landed atomic.Int64
		wait := func(n int) error {
			request := in.request(n, 1, time.Second)
			request.Left = func() func() { return func() { landed.Add(1) } }
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
				queued, ok := errors.AsType[*cache.QueuedError](wait(n))
				if !ok || queued.AtOnce != 1 || !errors.Is(queued, context.DeadlineExceeded) {
					s.Errorf("got %v", queued)
				}
			})
		}
		time.Sleep(2 * time.Second)
		if n := landed.Load(); n != 1 {
			s.Errorf("%d have landed that never started, want 1", n)
		}
		wg.Wait()
		synctest.Wait()
		if in.started.Load() != 2 || landed.Load() != 2 {
			s.Errorf("%d started, %d landed", in.started.Load(), landed.Load())
		}
	})
}

// A flight that nobody waits for goes on, but gives way to one that somebody waits for:
// whether it is left before or afterwards.
func TestLeftFlightsGiveWay(t *testing.T) {
	for name, leaveAfter := range map[string]time.Duration{"left before": time.Second, "left afterwards": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				var in airport
				var wg sync.WaitGroup
				ctx, cancel := context.WithTimeout(s.Context(), leaveAfter)
				defer cancel()
				var left, landed atomic.Int64
				request := in.request(0, 1, 0)
				request.Left = func() func() { left.Add(1); return func() { landed.Add(1) } }
				wg.Go(func() { _, _ = s.cache.Get(ctx, request) })
				time.Sleep(2 * time.Second)
				if leaveAfter < 2*time.Second && (in.now.Load() != 1 || left.Load() != 1 || landed.Load() != 0) {
					s.Errorf("%d in the air, %d left, %d landed", in.now.Load(), left.Load(), landed.Load())
				}
				start := time.Now()
				if _, err := s.cache.Get(s.Context(), in.request(1, 1, time.Second)); err != nil {
					s.Error(err)
				}
				if took := time.Since(start); took > 3*time.Second {
					s.Errorf("it took %s", took)
				}
				wg.Wait()
				if in.most.Load() != 1 || landed.Load() != 1 {
					s.Errorf("%d at a time, %d landed", in.most.Load(), landed.Load())
				}
			})
		})
	}
}

// Only who began a flight is asked whether he left it, and only if he did.
func TestLeft(t *testing.T) {
	play(t, config, func(s scene) {
		var in airport
		var wg sync.WaitGroup
		var landed [3]atomic.Int64
		get := func(n int, patience time.Duration) {
			ctx, cancel := context.WithTimeout(s.Context(), patience)
			defer cancel()
			request := in.request(0, 0, 5*time.Second)
			request.Left = func() func() { return func() { landed[n].Add(1) } }
			_, _ = s.cache.Get(ctx, request)
		}
		for n, patience := range []time.Duration{time.Second, 2 * time.Second} {
			wg.Go(func() { get(n, patience) })
			synctest.Wait()
		}
		wg.Wait()
		if landed[0].Load() != 0 {
			s.Error("the flight has landed at once")
		}
		time.Sleep(4 * time.Second)
		s.cache.Delete("https://provider.example/0", "")
		get(2, time.Minute)
		if landed[0].Load() != 1 || landed[1].Load() != 0 || landed[2].Load() != 0 {
			s.Errorf("landed: %d, %d, %d", landed[0].Load(), landed[1].Load(), landed[2].Load())
		}
	})
}

// Whatever callers do, what was begun lands, no more are in the air than may be, and
// the last can still get what it wants.
func TestGroupsUnderLoad(t *testing.T) {
	play(t, config, func(s scene) {
		var in airport
		var wg sync.WaitGroup
		var left, landed atomic.Int64
		for n := range 2000 {
			wg.Go(func() {
				time.Sleep(time.Duration(n%97) * 10 * time.Millisecond)
				ctx, cancel := context.WithTimeout(s.Context(), time.Duration(n%13)*100*time.Millisecond+time.Millisecond)
				defer cancel()
				request := in.request(n%50, 4, time.Duration(n%7)*200*time.Millisecond)
				request.Timeout = 5 * time.Second
				request.Left = func() func() { left.Add(1); return func() { landed.Add(1) } }
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
		if in.most.Load() > 4 || in.now.Load() != 0 || left.Load() == 0 || left.Load() != landed.Load() {
			s.Errorf("%d at a time, %d still in the air, %d left, %d landed", in.most.Load(), in.now.Load(), left.Load(), landed.Load())
		}
	})
}

// Of the flights in the air, a quarter has a share in common at most, and then one of each
// share: more than half as many shares as there are places have to hang, so that there is
// no room for what has other shares.
func TestShares(t *testing.T) {
	play(t, config, func(s scene) {
		var hanging, other airport
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
				s.Errorf("%d in the air, want %d", n, want)
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
		if n := s.cache.Groups(); n != 0 {
			s.Errorf("%d groups, of which nothing is left", n)
		}
	})
}

// sharing gets a document whose flight counts in two shares. Landed is how long that took
// from the start, in seconds, or 0.
func sharing(s scene, wg *sync.WaitGroup, request cache.Request, host, publisher string) (landed *atomic.Int64) {
	landed, start := new(atomic.Int64), time.Now()
	request.Shares = []string{host, publisher}
	wg.Go(func() {
		if _, err := s.cache.Get(s.Context(), request); err != nil {
			s.Error(err)
		}
		landed.Store(int64(time.Since(start) / time.Second))
	})
	synctest.Wait()
	return landed
}

// A flight that lands may have kept several from starting, for each of its shares one.
func TestSharesAreFreedTogether(t *testing.T) {
	play(t, config, func(s scene) {
		var in airport
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

// What waits for two shares, each of which has room while the other has not, is overtaken
// once or twice, not by all others.
func TestOvertakenFlightsHaveTheirTurn(t *testing.T) {
	play(t, config, func(s scene) {
		var in airport
		var wg sync.WaitGroup
		for n, request := range []cache.Request{in.request(0, 2, 500*time.Millisecond), in.request(1, 2, time.Second)} { // out of step
			sharing(s, &wg, request, fmt.Sprint("host ", n), fmt.Sprint("publisher ", 1-n))
		}
		for n := range 60 {
			sharing(s, &wg, in.request(100+n, 2, time.Second), fmt.Sprint("host ", n%2), fmt.Sprint("publisher ", 1-n%2))
		}
		landed := sharing(s, &wg, in.request(999, 2, time.Second), "host 0", "publisher 0")
		wg.Wait()
		if n := landed.Load(); n == 0 || n > 5 {
			s.Errorf("it has landed after %d s", n)
		}
	})
}

// Flights that wait start in turn, those with different shares one after another.
func TestTurns(t *testing.T) {
	play(t, config, func(s scene) {
		var in airport
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

// What is left gives way to what it keeps from starting, and to nothing else: also if it
// comes to be in the way only after it was left, and the other has come.
func TestLeftFlightsGiveWayWithinShares(t *testing.T) {
	play(t, config, func(s scene) {
		var in airport
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
				s.Errorf("%d in the air, %d started; want %d, %d", in.now.Load(), in.started.Load(), now, started)
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
		is(8, 9) // one gave way
		want(3, 0, "e")
		is(8, 10) // the other did
		wg.Wait()
	})
	play(t, config, func(s scene) {
		var in airport
		var wg sync.WaitGroup
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		request := in.request(0, 16, 20*time.Second)
		request.Shares = []string{"a", "x"}
		_, _ = s.cache.Get(ctx, request)
		for n := range 4 {
			sharing(s, &wg, in.request(100+n, 16, 3*time.Second), "b", "y")
		}
		landed := sharing(s, &wg, in.request(1, 16, time.Second), "a", "y") // waits for y only
		for n := range 7 {
			sharing(s, &wg, in.request(200+n, 16, 8*time.Second), fmt.Sprint(n), fmt.Sprint(n))
		}
		if in.started.Load() != 12 {
			s.Errorf("%d started, want 12", in.started.Load())
		}
		wg.Wait()
		if n := landed.Load(); n != 4 {
			s.Errorf("it has landed after %d s", n)
		}
	})
}

// Where what was left takes a while to end, no second one is aborted for the same place.
func TestOneGivesWay(t *testing.T) {
	play(t, config, func(s scene) {
		var in airport
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
