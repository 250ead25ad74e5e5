package skillsharing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

const (
	half = 500 * time.Millisecond
	sec  = time.Second
)

// usual are the delays before the polls of a run that takes long.
var usual = []time.Duration{half, 750 * time.Millisecond, 1125 * time.Millisecond, 1687500 * time.Microsecond, 2531250 * time.Microsecond, 3796875 * time.Microsecond, 5 * sec, 5 * sec, 5 * sec}

// then puts answers in order.
func then(parts ...any) []scriptedAnswer {
	var all []scriptedAnswer
	for _, part := range parts {
		switch part := part.(type) {
		case scriptedAnswer:
			all = append(all, part)
		case func(*http.Request) (*http.Response, error):
			all = append(all, part)
		case []scriptedAnswer:
			all = append(all, part...)
		default:
			panic(fmt.Sprintf("%T is no answer", part))
		}
	}
	return all
}

// follow follows [run] at the provider of a transport, in a bubble of synctest.
func follow(t *testing.T, edits []string, answers []scriptedAnswer, check func(t *testing.T, transport *scripted, r *document.Response, e *run.Failure)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, answers...)
		var effort skillsharing.Stats
		r, e := newClient(t, acme, transport).Follow(t.Context(), skillAt(t, acme, edits...), &skillsharing.FollowOptions{ExecutionID: runID}, &effort)
		if effort.Attempts != 0 || effort.Polls != len(transport.asked) {
			t.Errorf("%+v for %d requests", effort, len(transport.asked))
		}
		check(t, transport, r, e)
	})
}

func TestFollowDelays(t *testing.T) {
	running := says(200, runs)
	after := func(value string) scriptedAnswer { return says(200, runs, "Retry-After", value) }
	for _, c := range []struct {
		name       string
		retryAfter time.Duration // of the acceptance
		answers    []scriptedAnswer
		want       []time.Duration
	}{
		{"usual", 0, then(times(8, running), says(200, completes)), usual},
		{"asked at acceptance", 7 * sec, then(running, says(200, completes)), []time.Duration{7 * sec, usual[1]}},
		{"asked at acceptance for less", 100 * time.Millisecond, then(says(200, completes)), usual[:1]},
		{"asked by a poll", 0, then(after("20"), running, says(200, completes)), []time.Duration{half, 20 * sec, usual[2]}},
		{"asked by a unified error with 200", 0, then(says(200, `{"error":{"code":"RATE_LIMITED","message":"m","retry":{"suggested_delay_ms":9000,"max_attempts":1}}}`), says(200, completes)), []time.Duration{half, 9 * sec}},
		{"asked for less", 0, then(times(4, running), after("1"), says(200, completes)), usual[:6]},
		{"asked by 429", 0, then(says(429, "", "Retry-After", "30"), says(200, completes)), []time.Duration{half, 30 * sec}},
		{"asked by 503", 0, then(says(503, "", "Retry-After", "30"), says(200, completes)), []time.Duration{half, 30 * sec}},
		{"asked by a unified error", 0, then(says(503, `{"error":{"code":"ENDPOINT_UNREACHABLE","message":"m","retry":{"suggested_delay_ms":9000,"max_attempts":1}}}`), says(200, completes)), []time.Duration{half, 9 * sec}},
		{"failures are no reason to hurry", 0, then(says(500, ""), scriptedAnswer(notConnected), scriptedAnswer(cutOff), says(200, completes)), []time.Duration{half, usual[0], usual[1], usual[2]}},
		{"failures after a while", 0, then(running, running, says(500, ""), says(500, ""), running, says(500, ""), says(200, completes)), []time.Duration{half, usual[1], usual[2], usual[0], usual[1], usual[5], usual[0]}},
		{"404", 0, then(says(404, ""), says(200, completes)), []time.Duration{half, usual[0]}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := script(t, c.answers...)
				r, e := newClient(t, acme, transport).Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID, RetryAfter: c.retryAfter}, new(skillsharing.Stats))
				if e != nil || r.State != run.Completed {
					t.Fatalf("%+v, %+v", r, e)
				}
				wantDelays(t, transport.times(), c.want[0], c.want[1:])
				// What the provider asks for is the least, not about what is waited.
				for i, d := range c.want {
					if d >= 7*sec && delayBefore(transport, i) < d {
						t.Errorf("request %d came %v early", i+1, d-delayBefore(transport, i))
					}
				}
			})
		})
	}
}

// The larger an answer is that does not end a run, the later is the next request; a usual
// one changes nothing.
func TestFollowRestsAfterLargeAnswers(t *testing.T) {
	answer := func(status, size int) scriptedAnswer {
		return says(status, strings.TrimSuffix(runs, "}")+`,"pad":"`+strings.Repeat("x", size)+`"}`)
	}
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, then(answer(200, 0), answer(200, 60_000), answer(200, 10_000_000), answer(503, 2_000_000), answer(200, 0), says(200, completes))...)
		client := newClient(t, acme, transport)
		client.MaxResponseSize, client.Polling.Plan = 16<<20, polling.Backoff{Initial: 100 * time.Millisecond}
		r, e := client.Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
		if e != nil || r.State != run.Completed {
			t.Fatalf("%+v, %+v", r, e)
		}
		for i, want := range []time.Duration{100 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond, 6500 * time.Millisecond, 1300 * time.Millisecond, 100 * time.Millisecond} {
			if d := delayBefore(transport, i); d < want*7/10 || d < want && want > sec || d > want*3/2 {
				t.Errorf("request %d came after %v, want %v", i+1, d, want)
			}
		}
	})
}

func delayBefore(s *scripted, i int) time.Duration {
	if i == 0 {
		return s.asked[0].at
	}
	return s.asked[i].at - s.asked[i-1].at
}

func TestFollowHasItsOwnPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, then(times(3, says(200, runs)), says(200, completes))...)
		c := newClient(t, acme, transport)
		c.Polling.Plan = polling.Backoff{Initial: 2 * sec, Longest: 3 * sec}
		if _, e := c.Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats)); e != nil {
			t.Fatal(e)
		}
		wantDelays(t, transport.times(), 2*sec, []time.Duration{3 * sec, 3 * sec, 3 * sec})
	})
}

// TestFollowLearns: a skill that takes two seconds is asked about when it is done,
// once that is known, and what was learned is of that version alone.
func TestFollowLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := polling.NewStore(polling.Config{})
		follow := func(version string) (late time.Duration, polls int) {
			accepted := time.Now()
			done := accepted.Add(2 * sec)
			transport := script(t, func(r *http.Request) (*http.Response, error) {
				if time.Now().Before(done) {
					return says(200, runs)(r)
				}
				return says(200, `{"execution_id":"exec-1","status":"completed","output":1,"timestamps":{"created_at":"2026-01-02T03:04:05Z","completed_at":"2026-01-02T03:04:07Z"}}`)(r)
			})
			c := newClient(t, acme, transport)
			c.Polling = skillsharing.Polling{Store: book}
			if _, e := c.Follow(t.Context(), skillAt(t, acme, `/version=`+quote(version)), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats)); e != nil {
				t.Fatal(e)
			}
			synctest.Wait() // for the schedule that is made of it
			return time.Since(done), len(transport.asked)
		}
		_, firstPolls := follow("1.0.0")
		for range 20 {
			follow("1.0.0")
		}
		late, polls := follow("1.0.0")
		if late > 100*time.Millisecond || polls > 3 || firstPolls < 5 {
			t.Errorf("%v late with %d polls, at first with %d", late, polls, firstPolls)
		}
		if _, polls := follow("2.0.0"); polls < firstPolls-1 {
			t.Errorf("%d polls of another version, of the first %d", polls, firstPolls)
		}
	})
}

func TestFollowChangesDelaysByChance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		different := map[time.Duration]bool{}
		for range 20 {
			transport := script(t, says(200, completes))
			if _, e := newClient(t, acme, transport).Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats)); e != nil {
				t.Fatal(e)
			}
			different[transport.asked[0].at] = true
		}
		if len(different) < 2 {
			t.Error("20 runs were polled after exactly the same time")
		}
	})
}

// untilGivenUp is how many requests that fail there are in the half a minute until a
// run is given up, or one more: a tenth of the delays is random.
const untilGivenUp = 11

// Asking about a run is repeated in the face of trouble, but not for ever.
func TestFollowToleratesFailures(t *testing.T) {
	good := says(200, runs)
	for _, c := range []struct {
		name     string
		answer   scriptedAnswer
		code     run.Kind
		status   int
		tolerant bool
	}{
		{"500", says(500, ""), run.ProviderFault, 500, true},
		{"502", says(502, "<html>"), run.Unreachable, 502, true},
		{"503", says(503, ""), run.Unreachable, 503, true},
		{"504", says(504, ""), run.DeadlineExceeded, 504, true},
		{"429", says(429, ""), run.RateLimited, 429, true},
		{"503 with a unified error", says(503, `{"error":{"code":"ENDPOINT_UNREACHABLE","message":"m"}}`), run.Unreachable, 503, true},
		{"200 with the code for 503", says(200, `{"error":{"code":"ENDPOINT_UNREACHABLE","message":"m"}}`), run.Unreachable, 200, true},
		{"400 with the code for 429", says(400, `{"error":{"code":"RATE_LIMITED","message":"m"}}`), run.RateLimited, 400, true},
		{"no connection", notConnected, run.Unreachable, 0, true},
		{"dropped connection", cutOff, run.Unreachable, 0, true},
		{"503 that is too large", says(503, strings.Repeat("x", 1<<20+1)), run.ProviderFault, 503, true},

		{"403", says(403, ""), run.PermissionDenied, 403, false},
		{"200 with the code for 403", says(200, `{"error":{"code":"PERMISSION_DENIED","message":"m"}}`), run.PermissionDenied, 200, false},
		{"200 with the code for 408", says(200, `{"error":{"code":"INVOCATION_TIMEOUT","message":"m"}}`), run.DeadlineExceeded, 200, false},
		{"403 with JSON", says(403, `{"error":{"code":"PERMISSION_DENIED","message":"m"}}`), run.PermissionDenied, 403, false},
		{"401", says(401, ""), run.AuthRequired, 401, false},
		{"400", says(400, ""), run.ProviderFault, 400, false},
		{"409", says(409, ""), run.ProviderFault, 409, false},
		{"422", says(422, ""), run.ProviderFault, 422, false},
		{"422 with JSON", says(422, `{"a":1}`), run.ProviderFault, 422, false},
		{"302", says(302, "", "Location", "/elsewhere"), run.ProviderFault, 302, false},
		{"not JSON", says(200, "garbage"), run.ProviderFault, 200, false},
		{"nothing", says(204, ""), run.ProviderFault, 204, false},
		{"empty object", says(200, "{}"), run.ProviderFault, 200, false},
		{"unknown status", says(200, `{"execution_id":"exec-1","status":"queued"}`), run.ProviderFault, 200, false},
		{"another run", says(200, `{"execution_id":"exec-2","status":"completed"}`), run.ProviderFault, 200, false},
		{"result instead of status", says(200, `{"output":1}`), run.ProviderFault, 200, false},
		{"too large", says(200, strings.Repeat("x", 1<<20+1)), run.ProviderFault, 200, false},
		{"refused", func(*http.Request) (*http.Response, error) { return nil, errNotPublic }, run.Unreachable, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantEnd := func(polls, more int) func(*testing.T, *scripted, *document.Response, *run.Failure) {
				return func(t *testing.T, transport *scripted, r *document.Response, e *run.Failure) {
					t.Helper()
					wantError(t, e, c.code, run.ExecutedYes)
					if n := len(transport.asked); r != nil || n < polls || n > polls+more {
						t.Errorf("%d polls, want %d", n, polls)
					}
					if e.ExecutionID != runID || e.HTTPStatus != c.status || e.Phase != run.PhasePoll || e.SkillID != "acme/forecast" {
						t.Errorf("%+v", e)
					}
				}
			}
			if !c.tolerant {
				follow(t, nil, then(good, c.answer), wantEnd(2, 0))
				return
			}
			follow(t, nil, then(c.answer), wantEnd(untilGivenUp, 1))
			follow(t, nil, then(times(5, c.answer), good, times(5, c.answer), says(200, completes)), func(t *testing.T, transport *scripted, r *document.Response, e *run.Failure) {
				t.Helper()
				if e != nil || r.State != run.Completed || len(transport.asked) != 12 {
					t.Errorf("%+v after %d polls: %+v", r, len(transport.asked), e)
				}
			})
			follow(t, nil, then(times(4, c.answer), good, c.answer), wantEnd(5+untilGivenUp, 1))
		})
	}
}

func TestFollowCountsAllFailures(t *testing.T) {
	follow(t, nil, then(times(2, says(503, "")), cutOffAnswer, times(2, says(429, "")), says(500, ""), cutOffAnswer, times(6, says(502, ""))),
		func(t *testing.T, transport *scripted, _ *document.Response, e *run.Failure) {
			t.Helper()
			wantError(t, e, run.Unreachable, run.ExecutedYes)
			if n := len(transport.asked); n < untilGivenUp || n > untilGivenUp+1 {
				t.Errorf("%d polls", n)
			}
		})
}

// A run is lost after five failures in a row that span half a minute, whatever the rhythm
// in which it is usually asked about, and however long the provider has the bridge wait.
func TestFollowGivesUp(t *testing.T) {
	plans := map[string]skillsharing.Polling{
		"adaptive": {Store: polling.NewStore(polling.Config{})}, "often": {Plan: polling.Backoff{Initial: 20 * time.Millisecond}},
		"seldom": {Plan: polling.Backoff{Initial: time.Minute}},
	}
	for name, plan := range plans {
		for _, c := range []struct {
			retryAfter string
			least      time.Duration
			polls      int
		}{{"", 30 * sec, untilGivenUp}, {"20", 80 * sec, 5}} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				transport := script(t, says(503, "", "Retry-After", c.retryAfter))
				client := newClient(t, acme, transport)
				client.Polling = plan
				_, e := client.Follow(ctx, skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
				wantError(t, e, run.Unreachable, run.ExecutedYes)
				times := transport.times()
				span := times[len(times)-1] - times[0]
				if n := len(times); n < c.polls || n > c.polls+1 || span < c.least || span > c.least+c.least/5 {
					t.Errorf("%s, Retry-After %s: %d polls within %v", name, c.retryAfter, n, span)
				}
			})
		}
	}
}

var cutOffAnswer scriptedAnswer = cutOff

// A run may not be known at once everywhere, for as long as any other failure may last. One that was seen is lost after two denials at least 2 s apart.
func TestFollowDeniedRuns(t *testing.T) {
	good := says(200, runs)
	for name, missing := range map[string]scriptedAnswer{
		"404": says(404, ""), "410": says(410, `{"error":{"code":"SKILL_NOT_FOUND","message":"No such run."}}`), "400": says(400, `{"error":{"code":"SKILL_NOT_FOUND","message":"No such run."}}`),
		"404 and an unknown code": says(404, `{"error":{"code":"NO_RUN","message":"No such run."}}`),
	} {
		for _, c := range []struct {
			answers []scriptedAnswer
			polls   int // 0: it completes
			span    time.Duration
		}{
			{answers: then(missing, says(200, completes))},
			{answers: then(times(8, missing), says(200, completes))},
			{answers: then(missing, good, missing, good, missing, says(200, completes))},
			{answers: then(good, missing, missing, missing, says(200, completes))}, // within 1.25 s
			{answers: then(good, missing, missing, missing, says(503, ""), missing, says(200, completes))},
			{answers: then(times(3, missing), scriptedAnswer(cutOff), times(3, missing), says(500, ""), missing, says(200, completes))},
			{answers: then(missing), polls: untilGivenUp, span: 30 * sec},
			{answers: then(good, missing), polls: 5, span: 2375 * time.Millisecond},
			{answers: then(missing, good, missing), polls: 6, span: 2375 * time.Millisecond},
		} {
			follow(t, nil, c.answers, func(t *testing.T, transport *scripted, r *document.Response, e *run.Failure) {
				t.Helper()
				if c.polls == 0 {
					if e != nil || r.State != run.Completed {
						t.Errorf("%s: %+v", name, e)
					}
					return
				}
				wantError(t, e, run.ProviderFault, run.ExecutedYes)
				times := transport.times()
				span := times[len(times)-1] - times[max(0, len(times)-c.polls)]
				if n := len(times); n < c.polls || n > c.polls+1 || span < c.span*9/10 || e.ExecutionID != runID || !e.Lost || e.MayPass() || e.Next() != run.NextNone || e.Argument != nil {
					t.Errorf("%s: %+v after %d polls in %v", name, e, n, span)
				}
			})
		}
	}
}

// What is known of a run outlasts the callers that ask about it: each of them may ask once only. The provider may use an execution id again.
func TestDenialsAreRemembered(t *testing.T) {
	denied, good := says(404, ""), says(200, runs)
	bare := says(200, `{"execution_id":"exec-1","status":"completed"}`)
	for name, c := range map[string]struct {
		answers []scriptedAnswer // to one request a second
		lost    time.Duration
	}{
		"never seen":              {then(denied), 30 * sec},
		"seen":                    {then(good, denied), 3 * sec},
		"seen later":              {then(times(5, denied), good, denied), 8 * sec},
		"denied now and then":     {then(good, denied, denied, says(503, ""), denied, denied, good, denied), 9 * sec},
		"without a result":        {then(slices.Repeat(then(bare, denied), 40)), 30 * sec},
		"a result, and no result": {then(bare, denied, bare, denied, bare, says(503, ""), slices.Repeat(then(bare, denied), 40)), 33 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, s, start := newClient(t, acme, script(t, c.answers...)), skillAt(t, acme), time.Now()
				ask := func(resumed bool) *run.Failure {
					_, e := client.Follow(t.Context(), s, &skillsharing.FollowOptions{ExecutionID: runID, Resumed: resumed, Until: time.Now()}, new(skillsharing.Stats))
					return e
				}
				for time.Since(start) < c.lost {
					if e := ask(true); e != nil && (e.Next() != run.NextFollowRun || e.Permanent()) {
						t.Fatalf("after %v: %+v", time.Since(start), e)
					}
					time.Sleep(sec)
				}
				for range 2 {
					if e := ask(true); e == nil || !e.Lost || e.Next() != run.NextNone {
						t.Errorf("after %v: %+v", time.Since(start), e)
					}
				}
				ask(false) // the id of a new run
				if e := ask(true); e != nil && e.Lost {
					t.Errorf("a new run: %+v", e)
				}
			})
		})
	}
}

// forgetful is a credential that keeps no request.
type forgetful struct{ keyed }

func (f *forgetful) Authenticate(ctx context.Context, a *credential.Authentication) error {
	err := f.keyed.Authenticate(ctx, a)
	f.applied = nil
	return err
}

// absent is an observer that keeps no report, which would keep its request.
type absent struct{ watcher }

func (*absent) Exchange(context.Context, *exchange.Exchange) {}

// TestFollowKeepsNoRequest: while a run goes on, nothing keeps the requests about it in memory, nor their credentials.
func TestFollowKeepsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 { // among many timers, one that was stopped stays in the list of the runtime
			defer time.AfterFunc(time.Hour, func() {}).Stop()
		}
		var last weak.Pointer[http.Request]
		client := newClient(t, acme, roundTripper(func(r *http.Request) (*http.Response, error) {
			last = weak.Make(r)
			return says(200, runs)(r)
		}))
		client.Credentials, client.Observer = &forgetful{keyed{key: "k-"}}, new(absent)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			_, _ = client.Follow(ctx, skillAt(t, acme, `/auth={"type":"api_key"}`), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
		}()
		time.Sleep(sec) // the first poll was half a second ago
		synctest.Wait()
		runtime.GC()
		if last == (weak.Pointer[http.Request]{}) || last.Value() != nil {
			t.Error("there was no request, or it is still in memory")
		}
		cancel()
		<-followed
	})
}

// tokenless are credentials whose token endpoint refuses the bridge.
type tokenless struct{ renewing }

func (*tokenless) Authenticate(context.Context, *credential.Authentication) error {
	return &run.Failure{
		Kind: run.AuthRequired, Phase: run.PhaseAuth, By: run.Provider, Executed: run.ExecutedNo, HTTPStatus: http.StatusUnauthorized,
		Message: "The token endpoint refused the bridge.", Advice: "Ask the operator for a new refresh_token.",
		Demand: &run.Demand{By: run.Provider, Type: "oauth2", Reason: "invalid_grant"},
	}
}

// What a token endpoint refuses is not taken for an answer of the provider, which got no request, neither at the start of a run nor later.
func TestFollowWithoutToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, acme, roundTripper(func(r *http.Request) (*http.Response, error) {
			t.Errorf("%s %s was sent", r.Method, r.URL)
			return says(200, runs)(r)
		}))
		creds := new(tokenless)
		c.Credentials = creds
		skill := skillAt(t, acme, `/auth={"type":"api_key"}`)
		_, submitted, _ := submit(t.Context(), c, skill)
		_, followed := c.Follow(t.Context(), skill, &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
		for name, e := range map[string]*run.Failure{"submit": submitted, "follow": followed} {
			if e.Message != "The token endpoint refused the bridge." || e.Advice != "Ask the operator for a new refresh_token." {
				t.Errorf("%s: %q, %q", name, e.Message, e.Advice)
			}
		}
		if creds.renewals > 0 {
			t.Error("a credential was renewed that no provider has refused")
		}
	})
}

func TestFollowRenews(t *testing.T) {
	good, no, done := says(200, runs), says(401, ""), says(200, completes)
	down := &run.Failure{Kind: run.Unreachable, Message: "The token endpoint is down.", Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo}
	for _, c := range []struct {
		name     string
		creds    *renewing
		answers  []scriptedAnswer
		keys     string // the keys that were sent
		renewals int
		code     run.Kind // empty: it completes
		delays   []time.Duration
	}{
		{"once", &renewing{}, then(no, done), "k- k-'", 1, 0, []time.Duration{half, 0}},
		{"after a body that can't be read", &renewing{}, then(says(401, strings.Repeat("x", 2<<20)), done), "k- k-'", 1, 0, []time.Duration{half, 0}},
		{"twice is once too often", &renewing{}, then(no, no, done), "k- k-'", 1, run.AuthRequired, []time.Duration{half, 0}},
		{"again after a good answer", &renewing{}, then(no, good, no, done), "k- k-' k-' k-''", 2, 0, []time.Duration{half, 0, usual[2], 0}},
		{"not again after a failure", &renewing{}, then(no, says(503, ""), no, done), "k- k-' k-'", 1, run.AuthRequired, []time.Duration{half, 0, usual[0]}},
		{"nothing to renew", &renewing{exhausted: true}, then(good, no, done), "k- k-", 1, run.AuthRequired, usual[:2]},
		{"renewal refused", &renewing{failures: []error{errNoToken}}, then(good, no, done), "k- k-", 1, run.AuthRequired, usual[:2]},
		{"renewal delayed", &renewing{failures: []error{down, down}}, then(no, no, no, done), "k- k- k- k-'", 3, 0, []time.Duration{half, usual[0], usual[1], 0}},
		{"renewal delayed too often", &renewing{failures: slices.Repeat([]error{down}, 20)}, then(no), "", 0, run.Unreachable, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := script(t, c.answers...)
				client := newClient(t, acme, transport)
				c.creds.key = "k-"
				client.Credentials = c.creds
				r, e := client.Follow(t.Context(), skillAt(t, acme, `/auth={"type":"api_key"}`), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
				var keys []string
				for _, a := range transport.asked {
					keys = append(keys, a.header.Get("X-Key"))
				}
				if got := strings.Join(keys, " "); c.keys != "" && (got != c.keys || c.creds.renewals != c.renewals) {
					t.Errorf("polls with %q, %d renewals; want %q, %d", got, c.creds.renewals, c.keys, c.renewals)
				}
				if n := len(keys); c.keys == "" && (n < untilGivenUp || n > untilGivenUp+1) {
					t.Errorf("%d polls", n)
				}
				if len(keys) == len(c.delays) {
					wantDelays(t, transport.times(), c.delays[0], c.delays[1:])
				}
				if c.code == 0 {
					if e != nil || r.State != run.Completed {
						t.Errorf("error %+v", e)
					}
					return
				}
				wantError(t, e, c.code, run.ExecutedYes)
				if e.ExecutionID != runID || e.Phase != run.PhasePoll {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// A credential that can't be had for a moment is no reason to lose a run.
func TestFollowToleratesFailingCredentials(t *testing.T) {
	for _, c := range []struct {
		err   error
		tries int
		code  run.Kind
	}{
		{&run.Failure{Kind: run.Unreachable, Message: "The token endpoint is down.", Phase: run.PhaseAuth, By: run.Bridge}, untilGivenUp, run.Unreachable},
		{errNoToken, 1, run.AuthRequired},
	} {
		synctest.Test(t, func(t *testing.T) {
			transport := script(t, says(200, completes))
			client := newClient(t, acme, transport)
			creds := &keyed{key: "k-123", err: c.err}
			client.Credentials = creds
			_, e := client.Follow(t.Context(), skillAt(t, acme, `/auth={"type":"api_key"}`), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
			wantError(t, e, c.code, run.ExecutedYes)
			if n := len(creds.applied); n < c.tries || n > c.tries+c.tries/untilGivenUp || len(transport.asked) != 0 || e.ExecutionID != runID {
				t.Errorf("%d tries, %d polls: %+v", len(creds.applied), len(transport.asked), e)
			}
		})
	}
}

func TestFollowSendsNothingToUntrustedHosts(t *testing.T) {
	for _, edit := range []string{`/endpoint/status_url="https://evil.example"`, `/endpoint/result_url="https://evil.example"`, "source=https://evil.example/skill.json"} {
		transport := script(t, says(200, completes))
		client := newClient(t, acme, transport)
		client.Credentials = &keyed{key: "k-123"}
		_, e := client.Follow(t.Context(), skillAt(t, acme, `/auth={"type":"api_key"}`, edit), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
		wantError(t, e, run.AuthRequired, run.ExecutedYes)
		if len(transport.asked) != 0 || e.ExecutionID != runID {
			t.Errorf("%s: %d requests, %+v", edit, len(transport.asked), e)
		}
	}
}

func TestFollowToTheEnd(t *testing.T) {
	const noStatus, noResult = "-/endpoint/status_url", "-/endpoint/result_url"
	done := says(200, `{"execution_id":"exec-1","status":"completed","timestamps":{"created_at":"2025-07-01T10:00:00Z","completed_at":"2025-07-01T10:00:02Z"}}`)
	const status, result = "GET https://acme.example/status/exec-1", "GET https://acme.example/result/exec-1"
	for _, c := range []struct {
		name    string
		edits   []string
		answers []scriptedAnswer
		asked   []string
		output  string // empty: none
		elapsed time.Duration
	}{
		{"output from the status URL", nil, then(says(200, completes)), []string{status}, `{"ok":true}`, 0},
		{"output null from the status URL", nil, then(says(200, `{"status":"completed","output":null}`)), []string{status}, `null`, 0},
		{"output from the result URL", nil, then(done, says(200, completes)), []string{status, result}, `{"ok":true}`, 2 * sec},
		{"bare output", nil, then(done, says(200, `{"output":[1.0]}`)), []string{status, result}, `[1.0]`, 2 * sec},
		{"bare output null", nil, then(done, says(200, `{"output":null}`)), []string{status, result}, `null`, 2 * sec},
		{"bare output with the id", nil, then(done, says(200, `{"execution_id":"exec-1","output":1,"error":null,"x":1}`)), []string{status, result}, `1`, 2 * sec},
		{"result without output", nil, then(done, done), []string{status, result}, ``, 2 * sec},
		{"no result URL", []string{noResult}, then(done), []string{status}, ``, 2 * sec},
		{"no status URL", []string{noStatus}, then(says(200, runs), says(200, completes)), []string{result, result}, `{"ok":true}`, 0},
		{"no status URL, bare output", []string{noStatus}, then(says(202, runs), says(200, `{"output":7}`)), []string{result, result}, `7`, 0},
		{"no status URL, no output", []string{noStatus}, then(done), []string{result}, ``, 2 * sec},
		{"result still running", nil, then(done, times(5, says(200, runs)), says(200, completes)), append([]string{status}, slices.Repeat([]string{result}, 6)...), `{"ok":true}`, 2 * sec},
		{"result in trouble", nil, then(done, times(5, says(503, "")), says(200, completes)), append([]string{status}, slices.Repeat([]string{result}, 6)...), `{"ok":true}`, 2 * sec},
		{"result not there yet", nil, then(done, says(404, ""), says(200, completes)), []string{status, result, result}, `{"ok":true}`, 2 * sec},
		{"flapping", nil, then(says(200, completes), says(200, runs)), []string{status}, `{"ok":true}`, 0},
		{"completed with 500", nil, then(says(500, completes)), []string{status}, `{"ok":true}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			follow(t, c.edits, c.answers, func(t *testing.T, transport *scripted, r *document.Response, e *run.Failure) {
				t.Helper()
				if e != nil {
					t.Fatal(e)
				}
				if r.State != run.Completed || r.ExecutionID != runID || string(r.Output) != c.output || r.Elapsed != c.elapsed {
					t.Errorf("%+v", r)
				}
				var routes []string
				for _, a := range transport.asked {
					routes = append(routes, a.route)
					wantSameHeader(t, a.header, http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"caddy-skill-bridge"}})
				}
				if !slices.Equal(routes, c.asked) {
					t.Errorf("asked\n got %v\nwant %v", routes, c.asked)
				}
			})
		})
	}
}

func TestFollowToABadEnd(t *testing.T) {
	for _, status := range []run.State{run.Failed, run.TimedOut} {
		body := `{"execution_id":"exec-1","status":"` + status.String() + `","error":{"code":"X","message":"m"}}`
		follow(t, nil, then(says(200, runs), says(504, body)), func(t *testing.T, transport *scripted, r *document.Response, e *run.Failure) {
			t.Helper()
			if e != nil || r.State != status || r.Error.Code != "X" || len(transport.asked) != 2 {
				t.Errorf("%+v, %+v", r, e)
			}
		})
	}
}

func TestFollowWithoutResult(t *testing.T) {
	done := says(200, `{"execution_id":"exec-1","status":"completed"}`)
	for _, c := range []struct {
		name    string
		answers []scriptedAnswer
		asked   int // or one more, if it is that many
		code    run.Kind
		status  int
		lost    bool
	}{
		{"running for ever", then(done, says(200, runs)), 1 + untilGivenUp, run.ProviderFault, 0, true},
		{"in trouble for ever", then(done, says(503, "")), 1 + untilGivenUp, run.Unreachable, 503, false},
		{"lost", then(done, says(404, "")), 1 + untilGivenUp, run.ProviderFault, 404, true},
		{"gone", then(done, says(410, "")), 1 + untilGivenUp, run.ProviderFault, 410, true},
		{"forbidden", then(done, says(403, "")), 2, run.PermissionDenied, 403, false},
		{"another run's", then(done, says(200, `{"execution_id":"exec-2","status":"completed","output":1}`)), 2, run.ProviderFault, 200, false},
		{"another run's bare output", then(done, says(200, `{"execution_id":"exec-2","output":1}`)), 2, run.ProviderFault, 200, false},
		{"a numbered run's bare output", then(done, says(200, `{"execution_id":1,"output":1}`)), 2, run.ProviderFault, 200, false},
		{"unknown status", then(done, says(200, `{"status":"done","output":1}`)), 2, run.ProviderFault, 200, false},
		{"bare output of a failure", then(done, says(200, `{"output":null,"error":{"code":"X","message":"m"}}`)), 2, run.ProviderFault, 200, false},
		{"unified error with an output", then(done, says(200, `{"output":null,"error":{"code":"PERMISSION_DENIED","message":"m"}}`)), 2, run.PermissionDenied, 200, false},
		{"bare output with 500", then(done, says(500, `{"output":1}`)), 1 + untilGivenUp, run.ProviderFault, 500, false},
		{"the output itself", then(done, says(200, `{"answer":42}`)), 2, run.ProviderFault, 200, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			follow(t, nil, c.answers, func(t *testing.T, transport *scripted, _ *document.Response, e *run.Failure) {
				t.Helper()
				wantError(t, e, c.code, run.ExecutedYes)
				if n := len(transport.asked); n < c.asked || n > c.asked+c.asked/untilGivenUp || e.HTTPStatus != c.status || e.Lost != c.lost || e.Phase != run.PhaseResult || e.ExecutionID != runID || e.SkillID != "acme/forecast" {
					t.Errorf("%+v after %d requests", e, len(transport.asked))
				}
			})
		})
	}
}

func TestResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, says(503, ""), says(200, `{"output":1}`))
		effort := skillsharing.Stats{Attempts: 1}
		r, e := newClient(t, acme, transport).Result(t.Context(), skillAt(t, acme), &document.Response{ExecutionID: runID, State: run.Completed, Elapsed: sec}, new(skillsharing.FollowOptions), &effort)
		if e != nil || string(r.Output) != "1" || r.Elapsed != sec || r.ExecutionID != runID || effort.Attempts != 1 || effort.Polls != 2 || effort.Result < half-half/10 {
			t.Errorf("%+v, %+v, %+v", r, e, effort)
		}
		wantDelays(t, transport.times(), 0, usual[:1])
	})
}

func TestFollowWhatCannotBeFollowed(t *testing.T) {
	const none = "-/endpoint/status_url"
	for _, c := range []struct {
		name  string
		id    string
		edits []string
	}{
		{"no URL", runID, []string{none, "-/endpoint/result_url"}},
		{"empty id", "", nil},
		{"dots", "..", nil},
		{"long id", strings.Repeat("x", 513), nil},
		{"huge id", strings.Repeat("x", 1<<20), []string{none}},
	} {
		transport := script(t, says(200, completes))
		_, e := newClient(t, acme, transport).Follow(t.Context(), skillAt(t, acme, c.edits...), &skillsharing.FollowOptions{ExecutionID: c.id}, new(skillsharing.Stats))
		wantError(t, e, run.ProviderFault, run.ExecutedYes)
		if len(transport.asked) != 0 || !e.Lost || e.By != run.Bridge || !strings.HasPrefix(c.id, strings.TrimSuffix(e.ExecutionID, "…")) || len(e.ExecutionID) > 600 {
			t.Errorf("%s: %+v after %d requests", c.name, e, len(transport.asked))
		}
	}
}

func TestFollowUntilTheDeadline(t *testing.T) {
	const deadline = 4 * sec
	for _, c := range []struct {
		name    string
		answers []scriptedAnswer
		polls   int // 0: it depends
	}{
		{"running for ever", then(says(200, runs)), 0},
		{"asked to come later", then(says(200, runs, "Retry-After", "3600")), 1},
		{"no answer", then(silent), 1},
		{"no answer later", then(says(200, runs), scriptedAnswer(silent)), 2},
		{"answer breaks off at the deadline", then(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return says(503, "")(r)
		}), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				transport := script(t, c.answers...)
				start := time.Now()
				_, e := newClient(t, acme, transport).Follow(ctx, skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
				if d := time.Since(start); d != deadline {
					t.Errorf("it ended after %v", d)
				}
				wantError(t, e, run.DeadlineExceeded, run.ExecutedYes)
				if e.ExecutionID != runID || e.By != run.Bridge || retryOf(e) == nil || e.HTTPStatus != 0 || e.SkillID != "acme/forecast" || !errors.Is(e, context.DeadlineExceeded) {
					t.Errorf("%+v", e)
				}
				if c.polls > 0 && len(transport.asked) != c.polls {
					t.Errorf("%d polls, want %d", len(transport.asked), c.polls)
				}
			})
		})
	}
}

// What was learned in the last moment is not thrown away.
func TestFollowCompletesAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*sec)
		defer cancel()
		transport := script(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return says(200, completes)(r)
		})
		r, e := newClient(t, acme, transport).Follow(ctx, skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
		if e != nil || r.State != run.Completed {
			t.Errorf("%+v, %+v", r, e)
		}
	})
}

func TestFollowStopsWhenTheCallerIsGone(t *testing.T) {
	for _, c := range []struct {
		name    string
		cancel  time.Duration
		answers []scriptedAnswer
		polls   int
	}{
		{"before the first poll", 300 * time.Millisecond, then(says(200, runs)), 0},
		{"between polls", 900 * time.Millisecond, then(says(200, runs)), 1},
		{"during a poll", sec, then(silent), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(c.cancel, cancel)
				transport := script(t, c.answers...)
				start := time.Now()
				_, e := newClient(t, acme, transport).Follow(ctx, skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
				if d := time.Since(start); d != c.cancel || len(transport.asked) != c.polls {
					t.Errorf("it ended after %v and %d polls, want %v, %d", d, len(transport.asked), c.cancel, c.polls)
				}
				wantError(t, e, run.DeadlineExceeded, run.ExecutedYes)
				if e.ExecutionID != runID || !errors.Is(e, context.Canceled) {
					t.Errorf("%+v", e)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // who has gone before it began
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		transport := script(t, says(200, runs))
		start := time.Now()
		if _, e := newClient(t, acme, transport).Follow(ctx, skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats)); e == nil || len(transport.asked) != 0 || time.Since(start) != 0 {
			t.Errorf("%+v after %d polls", e, len(transport.asked))
		}
	})
}

func TestFollowEncodesTheExecutionID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = "../x?y#z@evil.example/é"
		transport := script(t, says(200, `{"status":"completed","output":1}`))
		r, e := newClient(t, acme, transport).Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: id}, new(skillsharing.Stats))
		if e != nil || r.ExecutionID != id {
			t.Fatalf("%+v, %+v", r, e)
		}
		if got, want := transport.asked[0].route, "GET https://acme.example/status/..%2Fx%3Fy%23z%40evil.example%2F%C3%A9"; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
}

func TestRunError(t *testing.T) {
	for _, c := range []struct {
		name     string
		response document.Response
		code     document.ErrorCode
		message  string
		details  string
		retry    string
	}{
		{"failed", document.Response{State: run.Failed, Error: &document.RunError{}}, "EXECUTION_FAILED", "The provider reported that the run failed.", "", ""},
		{"failed, no error", document.Response{State: run.Failed}, "EXECUTION_FAILED", "The provider reported that the run failed.", "", ""},
		{"failed for a reason", document.Response{State: run.Failed, Error: &document.RunError{Code: "NO_TABLE", Message: "No tables.", Details: []byte(`{"a":1.0}`), Retry: []byte(`{"max_attempts":1}`)}}, "NO_TABLE", "No tables.", `{"a":1.0}`, `{"max_attempts":1}`},
		{"failed, message only", document.Response{State: run.Failed, Error: &document.RunError{Message: "No tables."}}, "EXECUTION_FAILED", "No tables.", "", ""},
		{"failed for want of access", document.Response{State: run.Failed, Error: &document.RunError{Code: "AUTH_REQUIRED"}}, document.AuthRequired, "The provider reported that the run failed.", "", ""},
		{"timeout", document.Response{State: run.TimedOut, Error: &document.RunError{}}, document.InvocationTimeout, "The provider reported that the run timed out.", "", ""},
		{"timeout by its other name", document.Response{State: run.TimedOut, Error: &document.RunError{Code: "EXECUTION_TIMEOUT", Message: "Too slow."}}, document.InvocationTimeout, "Too slow.", "", ""},
		{"failed by a timeout", document.Response{State: run.Failed, Error: &document.RunError{Code: "EXECUTION_TIMEOUT"}}, document.InvocationTimeout, "The provider reported that the run failed.", "", ""},
		{"timeout with a code", document.Response{State: run.TimedOut, Error: &document.RunError{Code: "QUEUE_FULL"}}, "QUEUE_FULL", "The provider reported that the run timed out.", "", ""},
		{
			"long code and message",
			document.Response{State: run.Failed, Error: &document.RunError{Code: strings.Repeat("C", 300), Message: strings.Repeat("m", 5000)}},
			document.ErrorCode(strings.Repeat("C", 200) + "…"), strings.Repeat("m", 4096) + "…", "", "",
		},
		{
			"long details",
			document.Response{State: run.Failed, Error: &document.RunError{Details: []byte(`"` + strings.Repeat("x", 64<<10) + `"`)}},
			"EXECUTION_FAILED", "The provider reported that the run failed.", `"65538 bytes of details, more than the 65536 that are passed on"`, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.response.ExecutionID = runID
			e := newClient(t, acme, nil).RunError(skillAt(t, acme), &c.response)
			wantError(t, e, run.RunFailed, run.ExecutedYes)
			if document.CodeOf(e) != c.code || e.Message != c.message || string(front.Details(e)) != c.details || string(retryOf(e)) != c.retry {
				t.Errorf("told %s %s %s %s", document.CodeOf(e), e.Message, front.Details(e), retryOf(e))
			}
			if e.By != run.Provider || e.ExecutionID != runID || e.SkillID != "acme/forecast" {
				t.Errorf("%+v", e)
			}
		})
	}
}
