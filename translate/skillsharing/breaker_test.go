package skillsharing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// unavailable is what a proxy answers whose upstream is down.
var unavailable = says(http.StatusServiceUnavailable, "")

// breaking makes a client whose breakers open after three failures for ten seconds.
func breaking(tb testing.TB, answers ...scriptedAnswer) (*skillsharing.Client, *scripted) {
	tb.Helper()
	transport := script(tb, answers...)
	c := newClient(tb, acme, transport)
	c.Breakers = exchange.NewBreakers(exchange.BreakerConfig{Failures: 3, Cooldown: 10 * time.Second, Patience: 5 * time.Second})
	return c, transport
}

// isLeftAlone reports whether a call was answered without asking its host.
func isLeftAlone(e *run.Failure) bool {
	return e != nil && e.Kind == run.Unreachable && strings.Contains(string(front.Details(e)), `"circuit_breaker"`)
}

func TestBreakerOpens(t *testing.T) {
	refused := func(*http.Request) (*http.Response, error) { return nil, errNotPublic }
	for _, tc := range []struct {
		about  string
		answer scriptedAnswer
		gone   bool // the caller is
		opens  bool
	}{
		{"connection refused", notConnected, false, true},
		{"connection dropped", cutOff, false, true},
		{"no answer in time", silent, false, true},
		{"502", says(502, ""), false, true},
		{"503", unavailable, false, true},
		{"504", says(504, ""), false, true},
		{"503 with the end of a run", says(503, completes), false, false},
		{"504 with a run that timed out", says(504, `{"execution_id":"exec-1","status":"timeout"}`), false, false},
		{"not HTTP", func(*http.Request) (*http.Response, error) {
			return nil, errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "x"`)
		}, false, false},
		{"completed", says(200, completes), false, false},
		{"failed run", says(200, `{"execution_id":"exec-1","status":"failed"}`), false, false},
		{"429", says(429, ""), false, false},
		{"500", says(500, ""), false, false},
		{"401", says(401, ""), false, false},
		{"404", says(404, ""), false, false},
		{"redirect", says(302, "", "Location", "https://acme.example/"), false, false},
		{"not JSON", says(200, "<html>"), false, false},
		{"too large", says(200, strings.Repeat("x", 2<<20)), false, false},
		{"refused by the guard", refused, false, false},
		{"caller gone", silent, true, false},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, transport := breaking(t, tc.answer)
				s := skillAt(t, acme)
				c.RetryBudget = skillsharing.NewRetryBudget(0)
				try := func() *run.Failure {
					ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
					defer cancel()
					if tc.gone {
						time.AfterFunc(5500*time.Millisecond, cancel)
					}
					_, e, _ := submit(ctx, c, s)
					return e
				}
				for len(transport.asked) < 3 { // what was never written is repeated by itself
					if e := try(); isLeftAlone(e) {
						t.Fatalf("left alone already: %s", e.Message)
					}
				}
				asked := len(transport.asked)
				e := try()
				if isLeftAlone(e) != tc.opens || tc.opens && len(transport.asked) != asked {
					t.Errorf("left alone: %v, want %v (%v)", isLeftAlone(e), tc.opens, e)
				}
			})
		})
	}
}

// TestBreakerAnswer checks what a caller learns, and that nothing is sent twice.
func TestBreakerAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, transport := breaking(t, notConnected)
		s := skillAt(t, acme)
		_, e, effort := submit(t.Context(), c, s) // with its two repetitions
		wantError(t, e, run.Unreachable, run.ExecutedNo)
		if effort.Attempts != 3 || isLeftAlone(e) {
			t.Fatalf("%d attempts, %s", effort.Attempts, front.Details(e))
		}
		time.Sleep(4 * time.Second)
		_, e, _ = submit(t.Context(), c, s)
		wantError(t, e, run.Unreachable, run.ExecutedNo)
		want := `{"circuit_breaker":{"failures":3,"last_failure":"connection refused","state":"open"},"reason":"its circuit breaker is open","url":"https://acme.example/run"}`
		if string(front.Details(e)) != want || string(retryOf(e)) != `{"suggested_delay_ms":6000,"max_attempts":3}` || e.By != run.Bridge {
			t.Errorf("%s %s from %s, want %s", front.Details(e), retryOf(e), e.By, want)
		}
		if len(transport.asked) != 3 {
			t.Errorf("%d requests, want 3", len(transport.asked))
		}
	})
}

// TestBreakerRecovers lets one request at a time try whether the host is back.
func TestBreakerRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := slices.Concat(times(4, unavailable), []scriptedAnswer{says(200, completes)})
		c, transport := breaking(t, answers...)
		c.RetryBudget = skillsharing.NewRetryBudget(0)
		s := skillAt(t, acme)
		for range 40 { // one each second
			_, _, _ = submit(t.Context(), c, s)
			time.Sleep(time.Second)
		}
		at := make([]string, 0, len(transport.asked))
		for _, d := range transport.times()[:6] {
			at = append(at, d.String())
		}
		var notices []string
		for _, n := range c.Observer.(*watcher).notices {
			notices = append(notices, n.Level.String()+" "+attribute(n, "host"))
		}
		if got := strings.Join(notices, ", "); got != "WARN acme.example, WARN acme.example, INFO acme.example" {
			t.Errorf("noticed: %s", got)
		}
		// Three failures, a probe that fails, one that succeeds, and the next call.
		if got := strings.Join(at, " "); got != "0s 1s 2s 13s 24s 25s" {
			t.Errorf("asked at %s", got)
		}
	})
}

// TestBreakerProbes: a request that takes long to find out whether a host is back
// keeps others from it for one cooldown only.
func TestBreakerProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Hour)
			return says(200, completes)(r)
		}
		c, _ := breaking(t, slices.Concat(times(3, unavailable), []scriptedAnswer{slow, says(200, completes)})...)
		c.RetryBudget = skillsharing.NewRetryBudget(0)
		s := skillAt(t, acme)
		for range 3 {
			_, _, _ = submit(t.Context(), c, s)
		}
		time.Sleep(11 * time.Second)
		go func() { _, _, _ = submit(t.Context(), c, s) }()
		synctest.Wait()
		if _, e, _ := submit(t.Context(), c, s); !isLeftAlone(e) {
			t.Errorf("beside the probe: %v", e)
		}
		time.Sleep(10 * time.Second)
		for range 2 {
			if _, e, _ := submit(t.Context(), c, s); e != nil {
				t.Errorf("a cooldown later: %v", e)
			}
		}
		time.Sleep(time.Hour) // until the probe has ended
	})
}

// TestBreakerHurriedCallers: that callers give a host no time proves nothing.
func TestBreakerHurriedCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := breaking(t, silent)
		s := skillAt(t, acme)
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			_, e, _ := submit(ctx, c, s)
			cancel()
			wantError(t, e, run.DeadlineExceeded, run.ExecutedMaybe)
		}
	})
}

// TestBreakerHosts: one host says nothing about another, and a poll always goes through.
func TestBreakerHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := breaking(t, func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host == "acme.example" && r.Method == http.MethodPost:
				return notConnected(r)
			case r.Method == http.MethodPost:
				return says(200, completes)(r)
			}
			return says(200, runs)(r)
		})
		s, other := skillAt(t, acme), skillAt(t, "https://other.example")
		for range 2 {
			_, _, _ = submit(t.Context(), c, s)
		}
		if _, e, _ := submit(t.Context(), c, s); !isLeftAlone(e) {
			t.Errorf("not left alone: %v", e)
		}
		if _, e, _ := submit(t.Context(), c, other); e != nil {
			t.Errorf("another host: %v", e)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, e := c.Follow(ctx, s, &skillsharing.FollowOptions{ExecutionID: "exec-1"}, new(skillsharing.Stats)); isLeftAlone(e) {
			t.Errorf("a run is not followed: %v", e)
		}
		result, cancelResult := context.WithTimeout(t.Context(), time.Second)
		defer cancelResult()
		if _, e := c.Result(result, s, &document.Response{ExecutionID: "exec-1", State: run.Completed}, new(skillsharing.FollowOptions), new(skillsharing.Stats)); isLeftAlone(e) {
			t.Errorf("a result is not fetched: %v", e)
		}
		// It answered, which proves it alive.
		if _, e, _ := submit(t.Context(), c, s); isLeftAlone(e) {
			t.Errorf("still left alone: %v", e)
		}
	})
}

// refusedThrice is a transport whose server refuses each request 3 times.
type refusedThrice struct{ asked int }

func (r *refusedThrice) RoundTrip(request *http.Request) (*http.Response, error) {
	r.asked++
	trace := httptrace.ContextClientTrace(request.Context())
	trace.GetConn("")
	for range 3 {
		trace.WroteHeaders()
	}
	return nil, errors.New("refused")
}

// What the transport repeats counts against the provider's consent.
func TestRepeatsOfTheTransportAreAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(refusedThrice)
		c := newClient(t, acme, r)
		_, e, effort := submit(t.Context(), c, skillAt(t, acme, consent, `/endpoint/method="GET"`))
		wantError(t, e, run.Unreachable, run.ExecutedMaybe)
		if r.asked != 1 || effort.Attempts != 3 {
			t.Errorf("asked %d times, %d attempts", r.asked, effort.Attempts)
		}
	})
}

// TestRetryBudgetHolds counts the requests of many calls whose host is too busy.
func TestRetryBudgetHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, transport := breaking(t, says(429, ""))
		c.RetryBudget = skillsharing.NewRetryBudget(0)
		s := skillAt(t, acme, `/endpoint/retry={"max_attempts":5,"backoff_ms":10}`)
		_, e, effort := submit(t.Context(), c, s)
		wantError(t, e, run.RateLimited, run.ExecutedNo)
		if effort.Attempts != 1 || len(transport.asked) != 1 {
			t.Errorf("%d attempts, %d requests; want one", effort.Attempts, len(transport.asked))
		}
		c.RetryBudget = skillsharing.NewRetryBudget(0.2)
		if _, _, effort = submit(t.Context(), c, s); effort.Attempts != 5 {
			t.Errorf("%d attempts of a single call, want 5", effort.Attempts)
		}
	})
}

// TestStopping: what is under way when the process stops is answered as it stands.
func TestStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := breaking(t, says(200, runs))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(run.ErrStopping) })
		_, e := c.Follow(ctx, skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: "exec-1"}, new(skillsharing.Stats))
		wantError(t, e, run.Stopped, run.ExecutedYes)
		if e.ExecutionID != "exec-1" || !errors.Is(e, run.ErrStopping) {
			t.Errorf("%+v", e)
		}
		if want := "The bridge was stopped before the skill had ended; the run goes on: follow it."; e.Message != want {
			t.Errorf("%q, want %q", e.Message, want)
		}
	})
}
