package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// The waiter polls at once, then within the bounds of its delays.
func TestWaiter(t *testing.T) {
	t.Parallel()
	w := waiter{rand.New(rand.NewPCG(1, 1)), 1}
	for polls, most := range []string{"0s", "2s", "4s", "8s", "16s", "32s", "64s", "2m", "2m", "2m"} {
		most, err := time.ParseDuration(most)
		if err != nil {
			t.Fatal(err)
		}
		least := min(2*time.Second, most)
		var longest time.Duration
		for range 1000 {
			d := w.Next(polling.Progress{Polls: polls})
			if d < least || d > most {
				t.Fatalf("after %d polls it waits for %s, want %s to %s", polls, d, least, most)
			}
			longest = max(longest, d)
		}
		if longest < most*95/100 {
			t.Errorf("after %d polls it never waits longer than %s, want up to %s", polls, longest, most)
		}
	}
}

// A faster waiter divides its delays.
func TestWaiterThatIsFaster(t *testing.T) {
	t.Parallel()
	usual, quick := waiter{rand.New(rand.NewPCG(1, 1)), 1}, waiter{rand.New(rand.NewPCG(1, 1)), provider.HTTPSpeed}
	for polls := range 10 {
		p := polling.Progress{Polls: polls}
		if d, want := quick.Next(p), usual.Next(p)/provider.HTTPSpeed; (d - want).Abs() > time.Microsecond {
			t.Errorf("after %d polls it waits for %s, want %s", polls, d, want)
		}
	}
}

// An agent that polls counts the same polls as the provider.
func TestAgentPolls(t *testing.T) {
	t.Parallel()
	const running, ended = `{"status":"running","run_token":"token"}`, `{"status":"completed","output":{"ended":1,"polls":3}}`
	started, asked := string(withoutWaiting(call(provider.Timed+"1", 300))), string(getRun("token"))
	for _, tc := range []struct {
		name    string
		answers []string // the last one is repeated
		want    string   // empty: the answer is correct
	}{
		{"three polls", []string{running, running, running, ended}, ""},
		{"a poll that the bridge did not pass on", []string{running, running, running, running, ended}, "the provider was asked 3 times about a run that the agent has asked about 4 times"},
		{"a poll of the bridge's own", []string{running, running, ended}, "the provider was asked 3 times about a run that the agent has asked about 2 times"},
		{"a failed run", []string{running, `{"status":"failed"}`}, "a wrong answer: "},
		{"no token", []string{`{"status":"running"}`, ended}, "a wrong answer: "},
		{"an error", []string{running, `null,"error":{"code":1,"message":"m"}`}, "a wrong answer: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var bodies []string
			answers := tc.answers
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // missing bytes fail the check
				bodies = append(bodies, string(body))
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":`+answers[0]+`}`)
				answers = answers[min(1, len(answers)-1):]
			}))
			defer server.Close()
			s := &stream{law: 1, mode: mode{plan: func(provider.Law, int, *rand.Rand) polling.Plan { return polling.Backoff{Initial: time.Millisecond} }}}
			err := s.calls(t.Context(), server.Listener.Addr().String(), rand.New(rand.NewPCG(1, 1)), 5, 1)
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err == nil && (len(s.delays) != 1 || !slices.Equal(s.polls, []float64{3})) {
				t.Errorf("delays %v, polls %v, want those of one call with three polls", s.delays, s.polls)
			}
			if want := append([]string{started}, slices.Repeat([]string{asked}, len(bodies)-1)...); !slices.Equal(bodies, want) {
				t.Errorf("it called %q, want %q", bodies, want)
			}
		})
	}
}

// It is an error if a bridge that polls answers before the run has ended.
func TestBridgeThatDoesNotWait(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"status":"running","run_token":"token"}}`)
	}))
	defer server.Close()
	s := &stream{law: 1, mode: modes[0]}
	if err := s.calls(t.Context(), server.Listener.Addr().String(), nil, 0, 1); err == nil {
		t.Error("nobody has noticed")
	}
}

// The first poll at or after a run's end finds the end.
func TestFollow(t *testing.T) {
	t.Parallel()
	every := polling.Backoff{Initial: time.Second, Random: func() float64 { return 0.5 }}
	for _, tc := range []struct {
		takes time.Duration
		want  cost
	}{
		{1500 * time.Millisecond, cost{0.5, 2}},
		{2 * time.Second, cost{0, 2}},
		{0, cost{1, 1}},
	} {
		if got := follow(every, tc.takes); math.Abs(got.delay-tc.want.delay) > 1e-9 || got.polls != tc.want.polls {
			t.Errorf("a run of %s: %+v, want %+v", tc.takes, got, tc.want)
		}
	}
}

// A learned plan waits for the known execution time of two seconds.
func TestTaught(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	plan := learned(provider.Laws[0], 1, r)
	if d := plan.Next(polling.Progress{Remaining: polling.NoDeadline}); d < 1800*time.Millisecond || d > 2200*time.Millisecond {
		t.Errorf("the first poll of a run of 2 s comes after %s", d)
	}
}

// The medians or means of the laws are those in their names.
func TestLaws(t *testing.T) {
	t.Parallel()
	for i, want := range []float64{2, 2, 0.2 * math.Ln2, 2 * math.Ln2, 2, 2, 0.21, 30, 0.5 * math.Pow(2, 1/1.5)} {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		drawn := make([]float64, 20001)
		for k := range drawn {
			drawn[k] = provider.Laws[i].Draw(r)
		}
		if got := statistics.Median(drawn); math.Abs(got/want-1) > 0.05 {
			t.Errorf("%s: the median is %.3f s, want %.3f s", provider.Laws[i].Name, got, want)
		}
	}
}
