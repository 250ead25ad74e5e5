package translate_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// waiting is a call whose agent does not want to wait any longer than that.
func waiting(wait time.Duration) translate.Call {
	c := call(`{"city":"x"}`)
	c.Wait = &wait
	return c
}

func TestWaitEnds(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	p.On("GET /status/e1", providertest.Answer(200, providertest.Response("e1", "running", nil)))
	bridge := newBridge(t, s)
	o := bridge.Start(t.Context(), waiting(0)).Wait()
	if o.Failure != nil || o.State != run.Accepted || o.RetryAfter <= 0 || o.RetryAfter > time.Minute {
		t.Fatalf("%+v, %+v", o, o.Failure)
	}
	ref := o.Ref
	if ref.Source != "acme" || ref.SkillID != "acme/weather" || ref.Version != "1.2.3" || ref.ExecutionID != "e1" || time.Since(ref.Accepted) > time.Minute {
		t.Errorf("%+v", ref)
	}
	p.Received(t, "GET /status/e1", 0)

	if o := bridge.Resume(t.Context(), ref, waiting(0)).Wait(); o.Failure != nil || o.State != run.Working || o.Ref != ref {
		t.Errorf("%+v, %+v", o, o.Failure)
	}
	p.Received(t, "GET /status/e1", 1)

	// The timeout bounds the wait, and is no failure then.
	c := waiting(time.Hour)
	c.Timeout = 50 * time.Millisecond
	if o := bridge.Start(t.Context(), c).Wait(); o.Failure != nil || o.State.Ended() {
		t.Errorf("%+v, %+v", o, o.Failure)
	}
}

// Whatever keeps a run from being followed, it exists: the failure says so and names it.
func TestFollowFailures(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	ref := newBridge(t, s).Start(t.Context(), call(`{"city":"x"}`)).Leave().Ref
	gone := ref
	gone.SkillID = "acme/gone"
	foreign := ref
	foreign.Source = "other"
	for name, c := range map[string]struct {
		ref    run.Ref
		broken bool
		kind   run.Kind
		next   run.Next
	}{
		"skill gone":           {gone, false, run.ProviderFault, run.NextNone},
		"source not there":     {foreign, false, run.ProviderFault, run.NextNone},
		"documents unreadable": {ref, true, run.Unreachable, run.NextFollowRun},
	} {
		if c.broken {
			p.On("GET /.well-known/skill-sharing", providertest.Answer(503, ""))
		}
		o := newBridge(t, s).Resume(t.Context(), c.ref, waiting(0)).Wait()
		if o.Failure == nil || o.Failure.Kind != c.kind || o.Failure.Next() != c.next ||
			o.Failure.Executed != run.ExecutedYes || o.Failure.ExecutionID != "e1" || o.State == 0 || o.ExecutionID != "e1" {
			t.Errorf("%s: %+v %+v", name, o.Failure, o)
		}
		p.On("GET /.well-known/skill-sharing") // as published
	}
}

// That there was no time to find out how a run is says nothing about the run.
func TestFollowInventsNoTimeout(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	ref := newBridge(t, s).Start(t.Context(), call(`{"city":"x"}`)).Leave().Ref
	gate := make(chan struct{})
	defer close(gate)
	p.On("GET /skills/0.json", func(http.ResponseWriter, *http.Request) { <-gate })
	config := bridgeConfig(t, nil, s)
	config.DefaultTimeout, config.MaxTimeout = 50*time.Millisecond, 200*time.Millisecond
	bridge, err := translate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	o := bridge.Resume(t.Context(), ref, waiting(time.Millisecond)).Wait()
	if o.Failure == nil || o.Failure.Kind != run.Unreachable || o.Failure.Next() != run.NextFollowRun || o.State == 0 || o.ExecutionID != "e1" {
		t.Errorf("%+v: %+v", o.Failure, o.Failure)
	}
}

// What a provider has asked for counts for those who come back, too.
func TestFollowNotBefore(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	p.On("GET /status/e1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "60")
		providertest.Answer(200, providertest.Response("e1", "running", nil))(w, r)
	})
	bridge := newBridge(t, s)
	ref := bridge.Start(t.Context(), call(`{"city":"x"}`)).Leave().Ref
	for range 3 {
		o := bridge.Resume(t.Context(), ref, waiting(0)).Wait()
		if o.Failure != nil || o.State.Ended() || time.Until(o.NotBefore) < 50*time.Second || o.RetryAfter < 50*time.Second {
			t.Fatalf("%+v, %+v", o, o.Failure)
		}
		ref = o.Ref
	}
	p.Received(t, "GET /status/e1", 1)
}

// While a run's end or its result is waited for, the bridge holds neither the
// arguments nor the body that they were sent in.
func TestWaitingHoldsNoArguments(t *testing.T) {
	const size = 16 << 20
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)), providertest.Answer(200, providertest.Response("e1", "completed", nil)))
	var before, polled, fetched int64
	heap := func(held *int64, answer http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			p.Forget()
			*held = heapInUse() - before
			answer(w, r)
		}
	}
	p.On("GET /status/e1", heap(&polled, providertest.Answer(200, providertest.Response("e1", "completed", object{"output": 1}))))
	p.On("GET /result/e1", heap(&fetched, providertest.Answer(200, object{"output": 1})))
	bridge := newBridge(t, s)
	for _, held := range []*int64{&polled, &fetched} {
		before = heapInUse()
		if o := bridge.Start(t.Context(), largeCall(size)).Wait(); o.Failure != nil {
			t.Fatal(o.Failure)
		}
		if *held == 0 || *held > size/2 {
			t.Errorf("%d bytes are held while the run is waited for, of arguments of %d", *held, size)
		}
	}
}

// largeCall is a call with so many bytes of arguments, which nothing else holds.
func largeCall(size int) translate.Call {
	return call(`{"city":"` + strings.Repeat("x", size) + `"}`)
}

// heapInUse is how much memory is in use after all garbage was collected.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what a pool held at the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
