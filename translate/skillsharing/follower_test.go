package skillsharing_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// told is what somebody heard who follows a run.
type told struct {
	response *document.Response
	err      *run.Failure
	at       time.Duration
	effort   skillsharing.Stats
}

// watching follows [run] in the background.
func watching(ctx context.Context, c *skillsharing.Client, s *discovery.Skill, awaited skillsharing.FollowOptions) <-chan told {
	heard, start := make(chan told, 1), time.Now()
	awaited.ExecutionID = runID
	go func() {
		var w told
		w.response, w.err = c.Follow(ctx, s, &awaited, &w.effort)
		w.at = time.Since(start)
		heard <- w
	}()
	synctest.Wait()
	return heard
}

// resumed is a run that somebody comes back to, and waits for so long.
func resumed(wait time.Duration) skillsharing.FollowOptions {
	return skillsharing.FollowOptions{Resumed: true, Until: time.Now().Add(wait)}
}

// However many follow a run, one of them asks; each hears at its own time how the run is,
// or what comes of it.
func TestFollowersShare(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []scriptedAnswer
		polls   int
		status  run.State
		code    run.Kind
		at      time.Duration
	}{
		{"completed", then(times(2, says(200, runs)), says(200, completes)), 3, run.Completed, 0, 1875 * time.Millisecond},
		{"failed", then(says(200, runs), says(200, `{"execution_id":"exec-1","status":"failed"}`)), 2, run.Failed, 0, 750 * time.Millisecond},
		{"with its output elsewhere", then(says(200, runs), says(200, `{"execution_id":"exec-1","status":"completed"}`), says(503, ""), says(200, `{"output":1}`)), 4, run.Completed, 0, 1250 * time.Millisecond},
		{"lost", then(says(200, runs), says(403, "")), 2, 0, run.PermissionDenied, 750 * time.Millisecond},
		{"in trouble for long", then(says(200, runs), says(503, "")), 1 + untilGivenUp, 0, run.Unreachable, 33 * sec},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := script(t, c.answers...)
				client, s := newClient(t, acme, transport), skillAt(t, acme)
				var all []<-chan told
				for range 10 {
					all = append(all, watching(t.Context(), client, s, resumed(time.Hour)))
				}
				hasty := watching(t.Context(), client, s, resumed(100*time.Millisecond))
				if w := <-hasty; w.err != nil || w.response.State != run.Working || w.at != 100*time.Millisecond || w.effort.Polls != 0 ||
					w.response.RetryAfter < 20*time.Millisecond || w.response.RetryAfter == polling.Never {
					t.Errorf("who waits for a short time heard %+v", w)
				}
				polls := 0
				var first told
				for i, heard := range all {
					w := <-heard
					polls += w.effort.Polls
					if (w.at - c.at).Abs() > c.at/10 {
						t.Errorf("heard after %v, want %v", w.at, c.at)
					}
					switch {
					case c.code != 0:
						wantError(t, w.err, c.code, run.ExecutedYes)
						if w.err == first.err {
							t.Error("two have the same error, which each completes for itself")
						}
					case w.err != nil || w.response.State != c.status || c.status == run.Completed && w.response.Output == nil:
						t.Errorf("%+v, %v", w.response, w.err)
					}
					if i == 0 {
						first = w
					}
				}
				if n := len(transport.asked); n != polls || n < c.polls || n > c.polls+c.polls/untilGivenUp {
					t.Errorf("%d requests, of which %d are counted; want %d", n, polls, c.polls)
				}
				if n := client.Followers(); n != 0 {
					t.Errorf("%d runs are still followed", n)
				}
			})
		})
	}
}

// Ten who wait for the same time make as many requests as one, also at its end.
func TestFollowersMakeNoMoreRequests(t *testing.T) {
	requests := func(watchers int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			transport := script(t, says(200, runs))
			client, s := newClient(t, acme, transport), skillAt(t, acme)
			client.Polling.Plan = polling.Backoff{Initial: 400 * time.Millisecond}
			start := time.Now()
			var all []<-chan told
			for range watchers {
				all = append(all, watching(t.Context(), client, s, resumed(2*sec)))
				time.Sleep(30 * time.Millisecond) // more than there has to be between two requests
			}
			for i, heard := range all {
				if w := <-heard; w.err != nil || w.response.State != run.Working || w.at != 2*sec {
					t.Errorf("%d of %d: %+v", i, watchers, w)
				}
			}
			if d := time.Since(start); d > 3*sec {
				t.Errorf("it took %v", d)
			}
			n = len(transport.asked)
		})
		return n
	}
	if one, ten := requests(1), requests(10); one < 5 || ten > one+1 { // the last one ends 0.3 s later
		t.Errorf("%d requests for ten, %d for one", ten, one)
	}
}

// When the one leaves who asks, another one goes on: at the same pace, with what is known,
// and at once if an answer was not waited for.
func TestFollowersHandOver(t *testing.T) {
	for _, c := range []struct {
		name    string
		first   skillsharing.FollowOptions
		leave   time.Duration // when the first one goes; 0: when its time is up
		answers []scriptedAnswer
		at      []time.Duration
		status  run.State // for the first; empty: it is gone
	}{
		{"between requests", resumed(0), 600 * time.Millisecond, then(says(200, runs), says(200, completes)), []time.Duration{0, 750 * time.Millisecond}, 0},
		{"time is up", skillsharing.FollowOptions{Resumed: true}, 0, then(times(2, says(200, runs)), says(200, completes)), []time.Duration{0, 690 * time.Millisecond, 1815 * time.Millisecond}, run.Working},
		{"during the first", skillsharing.FollowOptions{Resumed: true}, 600 * time.Millisecond, then(scriptedAnswer(silent), says(200, completes)), []time.Duration{0, 600 * time.Millisecond}, 0},
		{"during another", skillsharing.FollowOptions{Resumed: true}, sec, then(says(200, runs), scriptedAnswer(silent), says(200, completes)), []time.Duration{0, 750 * time.Millisecond, sec}, 0},
		{"before the first", skillsharing.FollowOptions{}, 100 * time.Millisecond, then(says(200, completes)), []time.Duration{half}, 0},
		{"later than there was time for", skillsharing.FollowOptions{Resumed: true}, 0, then(says(200, runs, "Retry-After", "5"), says(200, completes)), []time.Duration{0, 5 * sec}, run.Working},
		{"in the result", skillsharing.FollowOptions{Resumed: true}, sec, then(says(200, `{"execution_id":"exec-1","status":"completed"}`), scriptedAnswer(silent), says(200, `{"output":1}`)), []time.Duration{0, 0, sec}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := script(t, c.answers...)
				client, s := newClient(t, acme, transport), skillAt(t, acme)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				c.first.Until = time.Time{}
				if c.leave == 0 {
					c.first.Until = time.Now().Add(700 * time.Millisecond)
				}
				first := watching(ctx, client, s, c.first)
				second := watching(t.Context(), client, s, resumed(time.Minute))
				third := watching(t.Context(), client, s, resumed(90*time.Millisecond))
				if c.leave > 0 {
					time.AfterFunc(c.leave, leave)
				}
				w := <-first
				switch {
				case c.status == 0:
					wantError(t, w.err, run.DeadlineExceeded, run.ExecutedYes)
				case w.err != nil || w.response.State != c.status:
					t.Errorf("the first heard %+v", w)
				}
				if w := <-second; w.err != nil || w.response.State != run.Completed || w.response.Output == nil {
					t.Errorf("the second heard %+v", w)
				}
				if w := <-third; w.err != nil || w.at > sec {
					t.Errorf("the third heard %+v", w)
				}
				wantDelaysAt(t, transport.times(), c.at)
				if n := client.Followers(); n != 0 {
					t.Errorf("%d runs are still followed", n)
				}
			})
		})
	}
}

func wantDelaysAt(t *testing.T, got, want []time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("requests at %v, want %v", got, want)
	}
	for i, at := range want {
		if (got[i] - at).Abs() > at/10 {
			t.Errorf("requests at %v, want %v", got, want)
		}
	}
}

// A follower ends with the last who watches, however they leave, and what is known then
// does not mislead those who come later.
func TestFollowersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, then(says(200, runs), says(200, runs), says(200, completes))...)
		client, s := newClient(t, acme, transport), skillAt(t, acme)
		ctx, leave := context.WithCancel(t.Context())
		var all []<-chan told
		for range 5 {
			all = append(all, watching(ctx, client, s, resumed(time.Hour)))
		}
		leave()
		for _, heard := range all {
			wantError(t, (<-heard).err, run.DeadlineExceeded, run.ExecutedYes)
		}
		time.Sleep(time.Minute)
		if n := client.Followers(); n != 0 || len(transport.asked) != 1 {
			t.Errorf("%d are followed, %d requests", n, len(transport.asked))
		}
		if w := <-watching(t.Context(), client, s, resumed(0)); w.err != nil || w.response.State != run.Working || len(transport.asked) != 2 {
			t.Errorf("%+v after %d requests", w, len(transport.asked))
		}
		if w := <-watching(t.Context(), client, s, resumed(0)); w.err != nil || w.response.State != run.Completed || len(transport.asked) != 3 {
			t.Errorf("%+v after %d requests", w, len(transport.asked))
		}
	})
}

// Who would ask in another way follows the run for itself.
func TestFollowersOfOtherDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, silent)
		client := newClient(t, acme, transport)
		var all []<-chan told
		for _, s := range []*discovery.Skill{skillAt(t, acme), skillAt(t, acme), skillAt(t, acme, `/endpoint/status_url="https://acme.example/elsewhere/{execution_id}"`)} {
			all = append(all, watching(t.Context(), client, s, resumed(100*time.Millisecond)))
		}
		for _, heard := range all {
			<-heard
		}
		if n := len(transport.asked); n != 2 {
			t.Errorf("%d requests, want 2: two have the same document", n)
		}
	})
}

// A panic of the one who asks takes nobody else along.
func TestFollowersOutliveAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, then(says(200, runs), func(*http.Request) (*http.Response, error) { panic("oh") }, says(200, completes))...)
		client, s := newClient(t, acme, transport), skillAt(t, acme)
		panicked := make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = client.Follow(t.Context(), s, &skillsharing.FollowOptions{ExecutionID: runID, Resumed: true}, new(skillsharing.Stats))
		}()
		synctest.Wait()
		other := watching(t.Context(), client, s, resumed(time.Hour))
		if <-panicked == nil {
			t.Error("there was no panic")
		}
		if w := <-other; w.err != nil || w.response.State != run.Completed || client.Followers() != 0 {
			t.Errorf("%+v", w)
		}
	})
}

// panicking is a plan that panics once.
type panicking struct{ polling.Backoff }

func (p *panicking) Next(progress polling.Progress) time.Duration {
	if p.Initial == 0 {
		p.Initial = sec
		panic("oh")
	}
	return p.Backoff.Next(progress)
}

// Nor does a panic before there is anything to ask.
func TestFollowersOutliveAPanicAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := newClient(t, acme, script(t, says(200, completes))), skillAt(t, acme)
		client.Polling.Plan = new(panicking)
		awaited := skillsharing.FollowOptions{ExecutionID: runID, RetryAfter: sec}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("there was no panic")
				}
			}()
			_, _ = client.Follow(t.Context(), s, &awaited, new(skillsharing.Stats))
		}()
		if n := client.Followers(); n != 0 {
			t.Errorf("%d runs are still followed", n)
		}
		if w := <-watching(t.Context(), client, s, resumed(time.Minute)); w.err != nil || w.response.State != run.Completed {
			t.Errorf("%+v", w)
		}
	})
}

// handedOverPanic is a plan that panics for the second one who asks.
type handedOverPanic struct {
	polling.Backoff
	asked int
}

func (p *handedOverPanic) Next(progress polling.Progress) time.Duration {
	switch p.asked++; p.asked {
	case 1:
		return polling.Never
	case 3: // by then the first one has been told when to come back
		panic("oh")
	}
	return p.Backoff.Next(progress)
}

// Nor does a panic of the one who has just taken over, before it asks.
func TestFollowersOutliveAPanicOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := newClient(t, acme, script(t, then(says(200, runs), says(200, completes))...)), skillAt(t, acme)
		client.Polling.Plan = &handedOverPanic{Backoff: polling.Backoff{Initial: sec}}
		first := watching(t.Context(), client, s, resumed(100*time.Millisecond))
		panicked := make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = client.Follow(t.Context(), s, &skillsharing.FollowOptions{ExecutionID: runID, Resumed: true}, new(skillsharing.Stats)) // it waits longest
		}()
		synctest.Wait()
		third := watching(t.Context(), client, s, resumed(time.Hour))
		if <-panicked == nil {
			t.Error("there was no panic")
		}
		if w := <-first; w.err != nil || w.response.State != run.Working {
			t.Errorf("the first one: %+v", w)
		}
		if w := <-third; w.err != nil || w.response.State != run.Completed || client.Followers() != 0 {
			t.Errorf("the third one: %+v", w)
		}
	})
}

// silentOnce are credentials that are not to be had before the context ends, for the
// first time.
type silentOnce struct {
	renewing
	silentFor string // "getting" or "renewal"
}

func (s *silentOnce) hang(ctx context.Context, what string) error {
	s.mu.Lock()
	hang := s.silentFor == what
	if hang {
		s.silentFor = ""
	}
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s *silentOnce) Authenticate(ctx context.Context, a *credential.Authentication) error {
	if err := s.hang(ctx, "getting"); err != nil {
		return err
	}
	return s.renewing.Authenticate(ctx, a)
}

func (s *silentOnce) Renew(ctx context.Context, a *credential.Authentication) (bool, error) {
	if err := s.hang(ctx, "renewal"); err != nil {
		return false, err
	}
	return s.renewing.Renew(ctx, a)
}

// A credential that is not to be had takes nobody longer than an answer would, and the one
// who leaves meanwhile takes nobody else along.
func TestFollowersOfSilentCredentials(t *testing.T) {
	for _, c := range []struct {
		name    string
		wait    time.Duration // of the first one; 0: it leaves after 2 s
		heard   time.Duration // by the first
		silent  string
		answers []scriptedAnswer
	}{
		{"leaves during a renewal", 0, 2 * sec, "renewal", then(says(200, runs), says(401, ""), says(200, completes))},
		{"its time is up during a renewal", 2 * sec, 2 * sec, "renewal", then(says(200, runs), says(401, ""), says(200, completes))},
		{"does not wait for a renewal", time.Millisecond, sec, "renewal", then(says(401, ""), says(401, ""), says(200, completes))},
		{"leaves during the first getting", 0, 2 * sec, "getting", then(says(200, completes))},
		{"does not wait for the first getting", time.Millisecond, sec, "getting", then(says(200, completes))},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, s := newClient(t, acme, script(t, c.answers...)), skillAt(t, acme, `/auth={"type":"api_key"}`)
				client.Credentials = &silentOnce{silentFor: c.silent}
				ctx, leave := context.WithTimeout(t.Context(), time.Hour)
				defer leave()
				awaited := resumed(c.wait)
				if c.wait == 0 {
					awaited.Until = time.Time{}
					time.AfterFunc(2*sec, leave)
				}
				first := watching(ctx, client, s, awaited)
				second := watching(t.Context(), client, s, resumed(time.Minute))
				w := <-first
				switch {
				case c.wait == 0:
					wantError(t, w.err, run.DeadlineExceeded, run.ExecutedYes)
				case w.err != nil || w.response.State != run.Working:
					t.Errorf("the first heard %+v", w)
				}
				if w.at != c.heard {
					t.Errorf("the first heard after %v", w.at)
				}
				if w := <-second; w.err != nil || w.response.State != run.Completed || w.at > 2*c.heard {
					t.Errorf("the second heard %+v", w)
				}
			})
		})
	}
}

// Watchers leave while the one who asks turns to the result, which the race detector sees.
func TestFollowersLeaveBeforeTheResult(t *testing.T) {
	client, s := newClient(t, acme, script(t, func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/result/") {
			return says(200, `{"output":1}`)(r)
		}
		return says(200, `{"execution_id":"exec-1","status":"completed"}`)(r)
	})), skillAt(t, acme)
	for range 100 {
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(i+1)*50*time.Microsecond)
				defer leave()
				_, _ = client.Follow(ctx, s, &skillsharing.FollowOptions{ExecutionID: runID, Resumed: true}, new(skillsharing.Stats))
			})
		}
		all.Wait()
	}
}

// How late an end is noticed is known of a run that was followed all the time: of one that
// somebody comes back to, it only says when that was.
func TestOvershoot(t *testing.T) {
	const took = `{"execution_id":"exec-1","status":"completed","output":1,"timestamps":{"created_at":"2026-01-02T03:04:05.0Z","completed_at":"2026-01-02T03:04:05.3Z"}}`
	for _, c := range []struct {
		awaited skillsharing.FollowOptions
		want    time.Duration
	}{
		{skillsharing.FollowOptions{}, 200 * time.Millisecond},
		{skillsharing.FollowOptions{Resumed: true, Accepted: time.Now().Add(-time.Hour)}, 0},
		{skillsharing.FollowOptions{Resumed: true}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := newClient(t, acme, script(t, then(says(200, runs), says(200, took))...))
			if !c.awaited.Resumed {
				client = newClient(t, acme, script(t, says(200, took)))
			}
			c.awaited.ExecutionID = runID
			var effort skillsharing.Stats
			if _, e := client.Follow(t.Context(), skillAt(t, acme), &c.awaited, &effort); e != nil || (effort.Overshoot-c.want).Abs() > c.want/5 {
				t.Errorf("%+v: %v late, want %v; %v", c.awaited, effort.Overshoot, c.want, e)
			}
		})
	}
}

// A provider that finds itself asked too often is asked less often about all runs of the
// skill; what else may go wrong is no reason.
func TestThrottledPolls(t *testing.T) {
	for status, want := range map[int]time.Duration{429: 110 * time.Millisecond, 503: 110 * time.Millisecond, 500: 55 * time.Millisecond, 200: 55 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			client := newClient(t, acme, script(t, says(status, runsIf(status == 200))))
			client.Polling = skillsharing.Polling{Store: polling.NewStore(polling.Config{})}
			s := skillAt(t, acme)
			ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer leave()
			_, _ = client.Follow(ctx, s, &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
			synctest.Wait() // for the new schedule
			transport := script(t, says(200, completes))
			client.Transport = transport
			if _, e := client.Follow(t.Context(), s, &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats)); e != nil {
				t.Fatal(e)
			}
			if at := transport.asked[0].at; at < want || at > want+want/10 {
				t.Errorf("after HTTP %d, another run is asked about after %v, want %v", status, at, want)
			}
		})
	}
}

// runsIf is the body of an answer that a run goes on.
func runsIf(running bool) string {
	if running {
		return runs
	}
	return ""
}
