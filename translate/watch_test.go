package translate_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// longProvider has one skill, whose runs are accepted, work from the second poll on, and
// complete with a later one. There is no network, so that time can be that of a bubble.
type longProvider struct {
	completes int    // the poll that says so; 0: none does
	accepts   string // the answer to the invocation; empty: it is accepted

	mu    sync.Mutex
	polls []time.Duration // when they were made, after the first
	first time.Time
}

const longSkill = `{"protocol":{"version":"1.0.0"},"id":"acme/long","name":"Long","version":"1.0.0","capability_type":"api",
	"description":"Takes long.","provider":{"name":"Acme"},
	"endpoint":{"url":"https://acme.example/run","method":"POST","status_url":"https://acme.example/status/{execution_id}"},
	"output":{"content_type":"application/json"},"inputs":[],"auth":{"type":"none"},"access":"public"}`

func (p *longProvider) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	body := longSkill
	switch {
	case r.URL.Path == "/run":
		body = cmp.Or(p.accepts, `{"execution_id":"e1","status":"accepted"}`)
	case strings.HasPrefix(r.URL.Path, "/status/"):
		body = p.status()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"max-age=36000"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader([]byte(body))), Request: r,
	}, nil
}

func (p *longProvider) status() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.polls) == 0 {
		p.first = time.Now()
	}
	p.polls = append(p.polls, time.Since(p.first))
	switch len(p.polls) {
	case p.completes:
		return `{"execution_id":"e1","status":"completed","output":"done"}`
	case 1:
		return `{"execution_id":"e1","status":"accepted"}`
	}
	return `{"execution_id":"e1","status":"running"}`
}

// asked is how often the provider was asked about its run.
func (p *longProvider) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.polls)
}

// longBridge is a bridge to the provider, which asks it once a second.
func longBridge(t *testing.T, p *longProvider, observer translate.Observer) *translate.Bridge {
	t.Helper()
	return longBridgeWith(t, p, observer, func(*translate.Config) {})
}

func longBridgeWith(t *testing.T, p *longProvider, observer translate.Observer, change func(*translate.Config)) *translate.Bridge {
	t.Helper()
	config := bridgeConfig(t, observer, catalog.Source{
		Kind: catalog.SkillSource, Namespace: "long", URL: &url.URL{Scheme: "https", Host: "acme.example", Path: "/long.json"}, Transport: p,
	})
	config.Polling = skillsharing.Polling{Plan: polling.Backoff{Initial: time.Second}}
	config.DefaultTimeout, config.MaxTimeout = time.Hour, time.Hour
	change(&config)
	bridge, err := translate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return bridge
}

// startLong starts a run that is not waited for.
func startLong(t *testing.T, b *translate.Bridge) run.Ref {
	t.Helper()
	o := b.Start(t.Context(), translate.Call{Name: "long"}).Leave()
	if o.Failure != nil || o.State != run.Accepted {
		t.Fatalf("%+v, %+v", o, o.Failure)
	}
	return o.Ref
}

// watched are the states that were seen of a run, and the last that was heard of it.
type watched struct {
	states []run.State
	last   run.Run
	at     time.Duration
}

// watch watches a run in the background. It looks at each state for so long.
func watch(x translate.Execution, look time.Duration) <-chan watched {
	heard, start := make(chan watched, 1), time.Now()
	go func() {
		var w watched
		for r := range x.Watch() {
			w.states, w.last = append(w.states, r.State), r
			time.Sleep(look)
		}
		w.at = time.Since(start)
		heard <- w
	}()
	return heard
}

func wantWatched(t *testing.T, who string, w watched, states ...run.State) {
	t.Helper()
	if len(w.states) != len(states) || w.last.Failure != nil {
		t.Errorf("%s saw %v, want %v; last %+v %+v", who, w.states, states, w.last, w.last.Failure)
		return
	}
	for i := range states {
		if w.states[i] != states[i] {
			t.Errorf("%s saw %v, want %v", who, w.states, states)
		}
	}
}

// Ten who watch one run cost the provider the polls of one, and each sees every state and is
// reported for itself.
func TestTenWatchAsOne(t *testing.T) {
	polls := func(watchers int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			p, r := &longProvider{completes: 8}, &recorder{}
			b := longBridge(t, p, r)
			ref := startLong(t, b)
			var all []<-chan watched
			for range watchers {
				all = append(all, watch(b.Resume(t.Context(), ref, translate.Call{}), 0))
				time.Sleep(10 * time.Millisecond)
			}
			for _, heard := range all[1:] {
				wantWatched(t, "one of many", <-heard, run.Accepted, run.Working, run.Completed)
			}
			w := <-all[0]
			wantWatched(t, "the first", w, run.Accepted, run.Working, run.Completed)
			if string(w.last.Output) != `"done"` || w.last.Ref.Source != "long" {
				t.Errorf("%+v", w.last)
			}
			if len(r.calls) != 1+watchers {
				t.Errorf("%d calls were reported, want %d", len(r.calls), 1+watchers)
			}
			counted := 0
			for _, s := range r.calls {
				counted += s.Stats.Polls
			}
			if n = p.asked(); counted != n {
				t.Errorf("%d polls were reported, and %d made", counted, n)
			}
		})
		return n
	}
	if one, ten := polls(1), polls(10); ten != one {
		t.Errorf("ten cost %d polls, and one %d", ten, one)
	}
}

// Who starts a run sees it from the beginning; who waits sees the end only.
func TestWatchFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &longProvider{completes: 4}
		b := longBridge(t, p, nil)
		wantWatched(t, "who starts it", <-watch(b.Start(t.Context(), translate.Call{Name: "long"}), 0), run.Accepted, run.Working, run.Completed)
		if o := b.Resume(t.Context(), startLong(t, b), waiting(0)).Wait(); o.Failure != nil || o.State != run.Working {
			t.Errorf("%+v, %+v", o, o.Failure)
		}
	})
}

// One who leaves, however, or looks at a state for long, disturbs nobody else: the others hear at
// the same time, and the provider is asked at the same times.
func TestWatchersDisturbNobody(t *testing.T) {
	alone := func() (at time.Duration, polls []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			p := &longProvider{completes: 8}
			b := longBridge(t, p, nil)
			at, polls = (<-watch(b.Resume(t.Context(), startLong(t, b), translate.Call{}), 0)).at, p.polls
		})
		return at, polls
	}
	wantAt, wantPolls := alone()
	short := 2500 * time.Millisecond
	for name, other := range map[string]func(t *testing.T, b *translate.Bridge, ref run.Ref){
		"hangs up": func(t *testing.T, b *translate.Bridge, ref run.Ref) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), short)
			t.Cleanup(cancel)
			watch(b.Resume(ctx, ref, translate.Call{}), 0)
		},
		"waits for a while": func(t *testing.T, b *translate.Bridge, ref run.Ref) {
			t.Helper()
			watch(b.Resume(t.Context(), ref, translate.Call{Wait: &short}), 0)
		},
		"has seen enough": func(t *testing.T, b *translate.Bridge, ref run.Ref) {
			t.Helper()
			go func() {
				for r := range b.Resume(t.Context(), ref, translate.Call{}).Watch() {
					if r.State == run.Working {
						return
					}
				}
			}()
		},
		"is slow": func(t *testing.T, b *translate.Bridge, ref run.Ref) {
			t.Helper()
			watch(b.Resume(t.Context(), ref, translate.Call{}), 3*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &longProvider{completes: 8}
				b := longBridge(t, p, nil)
				ref := startLong(t, b)
				other(t, b, ref) // asks first
				synctest.Wait()
				w := <-watch(b.Resume(t.Context(), ref, translate.Call{}), 0)
				wantWatched(t, "the other", w, run.Accepted, run.Working, run.Completed)
				if (w.at - wantAt).Abs() > wantAt/10 {
					t.Errorf("heard after %v, want %v", w.at, wantAt)
				}
				for i, at := range wantPolls {
					if len(p.polls) != len(wantPolls) || (p.polls[i]-at).Abs() > wantAt/10 {
						t.Fatalf("polls at %v, want %v", p.polls, wantPolls)
					}
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// The last one who leaves ends the polling; and nobody polls while the only one who watches looks at
// a state.
func TestTheLastWatcherEndsThePolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &longProvider{}
		b := longBridge(t, p, nil)
		ref := startLong(t, b)
		ctx, leave := context.WithCancel(t.Context())
		var all []<-chan watched
		for range 5 {
			all = append(all, watch(b.Resume(ctx, ref, translate.Call{}), 0))
		}
		time.Sleep(10 * time.Second)
		leave()
		for _, heard := range all {
			if w := <-heard; w.last.Failure == nil || w.last.Failure.Kind != run.CallerGone {
				t.Errorf("%+v, %+v", w.last, w.last.Failure)
			}
		}
		asked := p.asked()
		time.Sleep(time.Hour)
		if n := p.asked(); asked < 5 || n != asked {
			t.Errorf("%d polls while it was watched, and %d after", asked, n-asked)
		}
		slow := watch(b.Resume(t.Context(), ref, waiting(5*time.Second)), time.Minute)
		time.Sleep(30 * time.Second)
		if n := p.asked() - asked; n != 1 {
			t.Errorf("%d polls, want 1: it looks at the first state", n)
		}
		<-slow
	})
}

// What there is to see of a run depends on how far it is, and on how long it is watched.
func TestWatchYields(t *testing.T) {
	short := 2500 * time.Millisecond
	for about, c := range map[string]struct {
		answer string // to the invocation
		wait   *time.Duration
		leave  int // after so many states; 0: never
		states []run.State
	}{
		"a run that completes at once": {`{"execution_id":"e1","status":"completed","output":1}`, nil, 0, []run.State{run.Completed}},
		"a run that works at once":     {`{"execution_id":"e1","status":"running"}`, nil, 0, []run.State{run.Working, run.Accepted, run.Working, run.Completed}},
		"a wait that is over":          {"", &short, 0, []run.State{run.Accepted, run.Working, run.Working}},
		"no wait":                      {"", new(time.Duration), 0, []run.State{run.Accepted, run.Accepted}},
		"left at the first":            {"", nil, 1, []run.State{run.Accepted}},
		"left at the second":           {"", nil, 2, []run.State{run.Accepted, run.Working}},
		"left at the last":             {"", nil, 3, []run.State{run.Accepted, run.Working, run.Completed}},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, r := &longProvider{completes: 6, accepts: c.answer}, &recorder{}
				stop := new(translate.Stop)
				b := longBridgeWith(t, p, r, func(config *translate.Config) { config.Stop = stop })
				var w watched
				for o := range b.Start(t.Context(), translate.Call{Name: "long", Wait: c.wait}).Watch() {
					w.states, w.last = append(w.states, o.State), o
					if len(w.states) == c.leave {
						break
					}
				}
				wantWatched(t, "it", w, c.states...)
				calls, waiting := b.InProgress()
				if _, total := stop.InProgress(1); len(r.calls) != 1 || calls != 0 || waiting != 0 || total != 0 {
					t.Errorf("reported %d times; in progress are %d calls, %d wait, %d to stop", len(r.calls), calls, waiting, total)
				}
			})
		})
	}
}

// A call without a run yields its failure, and nothing else.
func TestWatchWithoutARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := <-watch(longBridge(t, &longProvider{}, nil).Start(t.Context(), translate.Call{Name: "other"}), 0)
		if len(w.states) != 1 || w.states[0] != 0 || w.last.Failure == nil || w.last.Failure.Kind != run.SkillNotFound {
			t.Errorf("%+v, %+v", w, w.last.Failure)
		}
	})
}
