package skillsharing_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// TestFollowUntil: whoever does not want to wait hears how the run is.
func TestFollowUntil(t *testing.T) {
	running := says(200, runs)
	slow := func(d time.Duration, answer scriptedAnswer) scriptedAnswer {
		return func(r *http.Request) (*http.Response, error) {
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(d):
				return answer(r)
			}
		}
	}
	type awaited = skillsharing.FollowOptions
	for _, c := range []struct {
		name    string
		wait    time.Duration
		run     awaited
		answers []scriptedAnswer
		took    time.Duration
		polls   int
		status  run.State
		code    run.Kind      // of the error, if there is to be one
		atLeast time.Duration // until it makes sense to ask again
	}{
		{name: "no wait", answers: then(running), status: run.Accepted, atLeast: half},
		{name: "no wait, asked to come later", run: awaited{RetryAfter: 7 * sec}, answers: then(running), status: run.Accepted, atLeast: 7 * sec},
		{name: "shorter than to the first poll", wait: 5 * time.Millisecond, answers: then(running), took: 5 * time.Millisecond, status: run.Accepted, atLeast: half},
		{name: "asked to come later", wait: 2 * sec, run: awaited{RetryAfter: 9 * sec}, answers: then(running), took: 2 * sec, status: run.Accepted, atLeast: 7 * sec},
		{name: "it runs", wait: 2 * sec, answers: then(running), took: 2 * sec, polls: 3, status: run.Working, atLeast: half},
		{name: "it ends", wait: 2 * sec, answers: then(running, says(200, completes)), took: 1250 * time.Millisecond, polls: 2, status: run.Completed},
		{name: "an answer that takes too long", wait: 2 * sec, answers: then(slow(time.Minute, running)), took: 2 * sec, polls: 1, status: run.Accepted, atLeast: half},
		{name: "trouble", wait: sec, answers: then(running, says(503, "")), took: sec, polls: 2, status: run.Working, atLeast: half},

		{name: "resumed, no wait", run: awaited{Resumed: true}, answers: then(running), polls: 1, status: run.Working, atLeast: half},
		{name: "resumed, it has ended", run: awaited{Resumed: true}, answers: then(says(200, completes)), polls: 1, status: run.Completed},
		{name: "resumed, it ends", wait: 2 * sec, run: awaited{Resumed: true}, answers: then(running, says(200, completes)), took: 750 * time.Millisecond, polls: 2, status: run.Completed},
		{name: "resumed, a slow answer", run: awaited{Resumed: true}, answers: then(slow(900*time.Millisecond, says(200, completes))), took: 900 * time.Millisecond, polls: 1, status: run.Completed},
		{name: "resumed, no answer", run: awaited{Resumed: true}, answers: then(silent), took: sec, polls: 1, status: run.Working, atLeast: half},
		{name: "resumed, no answer for long", wait: 5 * sec, run: awaited{Resumed: true}, answers: then(silent), took: 5 * sec, polls: 1, status: run.Working, atLeast: half},
		{name: "resumed, in trouble", run: awaited{Resumed: true}, answers: then(says(503, "")), polls: 1, code: run.Unreachable},
		{name: "resumed, in trouble until then", wait: sec, run: awaited{Resumed: true}, answers: then(says(503, "")), took: sec, polls: 3, code: run.Unreachable},
		{name: "resumed, trouble has ended", wait: 2 * sec, run: awaited{Resumed: true}, answers: then(says(503, ""), running), took: 2 * sec, polls: 4, status: run.Working, atLeast: half},
		{name: "resumed, not known", run: awaited{Resumed: true}, answers: then(says(404, "")), polls: 1, code: run.ProviderFault},
		{name: "resumed, and credentials refused", run: awaited{Resumed: true}, answers: then(says(403, "")), polls: 1, code: run.PermissionDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := script(t, c.answers...)
				start := time.Now()
				c.run.ExecutionID, c.run.Until = runID, start.Add(c.wait)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r, e := newClient(t, acme, transport).Follow(ctx, skillAt(t, acme), &c.run, new(skillsharing.Stats))
				if d := time.Since(start); d < c.took-c.took/10 || d > c.took+c.took/10 || len(transport.asked) != c.polls {
					t.Errorf("it took %v and %d polls, want %v, %d", d, len(transport.asked), c.took, c.polls)
				}
				switch {
				case c.code != 0:
					wantError(t, e, c.code, run.ExecutedYes)
					if e.ExecutionID != runID || e.Lost {
						t.Errorf("%+v", e)
					}
				case e != nil || r.State != c.status || r.ExecutionID != runID || r.RetryAfter < c.atLeast-c.atLeast/10 || r.RetryAfter == polling.Never:
					t.Errorf("%+v, %v", r, e)
				}
			})
		})
	}
}

// The time of a call may be up at the moment until which is waited, too.
func TestFollowUntilTheCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(2 * sec)
		ctx, cancel := context.WithDeadline(t.Context(), until)
		defer cancel()
		for _, answers := range [][]scriptedAnswer{then(says(200, runs)), then(silent)} {
			r, e := newClient(t, acme, script(t, answers...)).Follow(ctx, skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID, Until: until}, new(skillsharing.Stats))
			if e != nil || r.State.Ended() {
				t.Errorf("%+v, %v", r, e)
			}
		}
	})
}

// Who waits until some time hears at that time that the run goes on, also if the host is
// not asked any more often.
func TestFollowUntilWithoutBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, acme, script(t, func(r *http.Request) (*http.Response, error) {
			return says(200, fmt.Sprintf(`{"execution_id":%q,"status":"running"}`, path.Base(r.URL.Path)))(r)
		}))
		c.Polling.Budgets = polling.NewBudgets(1, 1)
		s, start := skillAt(t, acme), time.Now()
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r, e := c.Follow(ctx, s, &skillsharing.FollowOptions{ExecutionID: fmt.Sprint("exec-", i), Until: start.Add(3 * sec)}, new(skillsharing.Stats))
				if d := time.Since(start); e != nil || r.State.Ended() || d != 3*sec {
					t.Errorf("%+v, %v after %v", r, e, d)
				}
			})
		}
		all.Wait()
	})
}

// Whoever is told that the bridge stops, or goes away himself, is not told that the run goes on.
func TestFollowUntilInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(sec, func() { cancel(run.ErrStopping) })
		_, e := newClient(t, acme, script(t, says(200, runs))).Follow(ctx, skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID, Until: time.Now().Add(time.Minute)}, new(skillsharing.Stats))
		wantError(t, e, run.Stopped, run.ExecutedYes)
	})
}

// Who asks again and again without waiting is held to the provider's budget, too.
func TestResumedRunsKeepTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, says(200, runs))
		c := newClient(t, acme, transport)
		c.Polling.Budgets = polling.NewBudgets(2, 2)
		start := time.Now()
		for i := range 40 {
			wait := time.Duration(i%4) * time.Millisecond
			r, e := c.Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID, Resumed: true, Until: time.Now().Add(wait)}, new(skillsharing.Stats))
			if e != nil || r.State != run.Working {
				t.Fatalf("%+v, %v", r, e)
			}
		}
		if n, took := len(transport.asked), time.Since(start); n != 2 || took != 60*time.Millisecond {
			t.Errorf("%d polls in %v, want 2 in 60 ms", n, took)
		}
		// Who waits for long enough gets his turn.
		if _, e := c.Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID, Resumed: true, Until: time.Now().Add(sec)}, new(skillsharing.Stats)); e != nil || len(transport.asked) < 3 {
			t.Errorf("%v, %d polls", e, len(transport.asked))
		}
	})
}

// Requests for whose answers nobody waits have their turns after those of all others, and wait for them.
func TestPatientFollowersComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, func(r *http.Request) (*http.Response, error) {
			return says(200, fmt.Sprintf(`{"execution_id":%q,"status":"running"}`, path.Base(r.URL.Path)))(r)
		})
		c := newClient(t, acme, transport)
		c.Polling.Budgets = polling.NewBudgets(10, 1)
		var all sync.WaitGroup
		follow := func(id string, options skillsharing.FollowOptions) {
			all.Go(func() {
				options.ExecutionID, options.Resumed = id, true
				if r, e := c.Follow(t.Context(), skillAt(t, acme), &options, new(skillsharing.Stats)); e != nil || r.State != run.Working {
					t.Errorf("%s: %+v, %v", id, r, e)
				}
			})
			synctest.Wait()
		}
		for i := range 30 {
			follow(fmt.Sprint("patient-", i), skillsharing.FollowOptions{Until: time.Now(), Patience: 10 * sec})
		}
		follow("hurried", skillsharing.FollowOptions{Until: time.Now().Add(sec)})
		all.Wait()
		asked := make([]string, len(transport.asked))
		for i, a := range transport.asked {
			asked[i] = path.Base(a.route)
		}
		if len(asked) < 10 || len(asked) > 12 || slices.Index(asked, "hurried") != 1 {
			t.Errorf("asked about %q", asked)
		}
	})
}

// Who waits for a short time only is not kept by an output that is not there yet.
func TestResultUntil(t *testing.T) {
	for _, c := range []struct {
		name    string
		wait    time.Duration
		answers []scriptedAnswer
		took    time.Duration
		asked   int
		status  run.State
	}{
		{"there", 0, then(says(200, `{"execution_id":"exec-1","status":"completed"}`), says(200, `{"output":1}`)), 0, 2, run.Completed},
		{"not there", 0, then(says(200, `{"execution_id":"exec-1","status":"completed"}`), says(503, "")), 0, 2, run.Working},
		{"there after a while", 2 * sec, then(says(200, `{"execution_id":"exec-1","status":"completed"}`), says(503, ""), says(200, `{"output":1}`)), half, 3, run.Completed},
		{"not there for long", sec, then(says(200, `{"execution_id":"exec-1","status":"completed"}`), says(503, "")), sec, 3, run.Working},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				transport := script(t, c.answers...)
				r, e := newClient(t, acme, transport).Follow(t.Context(), skillAt(t, acme),
					&skillsharing.FollowOptions{ExecutionID: runID, Resumed: true, Until: start.Add(c.wait)}, new(skillsharing.Stats))
				if e != nil || r.State != c.status || len(transport.asked) < c.asked {
					t.Fatalf("%+v, %v, %d requests", r, e, len(transport.asked))
				}
				if d := time.Since(start); d < c.took-c.took/10 || d > c.took+c.took/10 {
					t.Errorf("it took %v, want %v", d, c.took)
				}
			})
		})
	}
}

// When an agent comes back says nothing about how long a skill takes.
func TestResumedRunsDoNotMislead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := polling.NewStore(polling.Config{})
		c := newClient(t, acme, script(t, says(200, completes)))
		c.Polling = skillsharing.Polling{Store: book}
		_, e := c.Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID, Resumed: true, Until: time.Now()}, new(skillsharing.Stats))
		if e != nil || book.Completions() != 0 {
			t.Errorf("%v; %d executions were learned from", e, book.Completions())
		}
		c = newClient(t, acme, script(t, says(200, `{"execution_id":"exec-1","status":"completed","output":1,"timestamps":{"created_at":"2026-01-02T03:04:05Z","completed_at":"2026-01-02T03:04:07Z"}}`)))
		c.Polling = skillsharing.Polling{Store: book}
		_, e = c.Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID, Resumed: true, Accepted: time.Now().Add(-time.Hour), Until: time.Now()}, new(skillsharing.Stats))
		if e != nil || book.Completions() != 1 {
			t.Errorf("%v; %d executions were learned from, want 1", e, book.Completions())
		}
	})
}

// However many sources lead to skills of a host, and however they spell it, it is asked
// about them no more often than one host may be. What others publish takes nothing of
// that, and another host is no concern of it.
func TestSourcesShareTheBudgetOfAHost(t *testing.T) {
	const perSecond, burst, callers = 5, 3, 10 // each of the callers polls four times
	statusAt := func(base string) []string {
		return []string{"/endpoint/status_url=" + quote(base+"/status/{execution_id}")}
	}
	for _, c := range []struct {
		name   string
		other  []string // edits of the other source's skill
		shared bool
	}{
		{"the same host", statusAt(acme), true},
		{"spelled otherwise", statusAt("https://ACME.example.:0443"), true},
		{"a status URL there, and all else elsewhere", append([]string{"/endpoint/url=" + quote("https://umbrella.example/run"), "source=https://umbrella.example/skill.json"}, statusAt(acme)...), false},
		{"a result URL", []string{"/endpoint/status_url"}, true},
		{"another host", statusAt("https://umbrella.example"), false},
		{"another port", statusAt(acme + ":8443"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clients := []struct {
					source string
					skill  *discovery.Skill
				}{{acme, skillAt(t, acme)}, {"https://registry.example", skillAt(t, acme, c.other...)}}
				budgets := polling.NewBudgets(perSecond, burst)
				var transports []*scripted
				var running sync.WaitGroup
				for i := range 2 * callers {
					transport := script(t, then(times(3, says(200, runs)), says(200, completes))...)
					transports = append(transports, transport)
					client := newClient(t, clients[i%2].source, transport)
					client.Polling = skillsharing.Polling{Plan: polling.Backoff{Initial: 100 * time.Millisecond}, Budgets: budgets}
					skill := clients[i%2].skill
					running.Go(func() {
						if r, e := client.Follow(t.Context(), skill, &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats)); e != nil || r.State != run.Completed {
							t.Errorf("%+v, %v", r, e)
						}
					})
				}
				running.Wait()
				var all []time.Duration
				for _, transport := range transports {
					all = append(all, transport.times()...)
				}
				slices.Sort(all)
				hosts := 2.0
				if c.shared {
					hosts = 1
				}
				most := func(d time.Duration) float64 { return hosts * (burst + perSecond*d.Seconds()) }
				for i, from := range all {
					for k, to := range all[i:] {
						if n := float64(k + 1); n > most(to-from)+0.001 {
							t.Fatalf("%v polls in %v, want at most %.1f", n, to-from, most(to-from))
						}
					}
				}
				if took := all[len(all)-1] - all[0]; float64(len(all)) < most(took)-hosts*2 {
					t.Errorf("%d polls took %v: hosts disturb each other", len(all), took)
				}
			})
		})
	}
}
