package callbacks_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/internal/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
)

const hook = "https://hooks.example/end"

// The end of a run is sent once, signed with the caller's token and with each secret of the operator.
func TestDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s, to := provider(), newStore(), new(receiver)
		i := start(t, p, s, to)
		for _, n := range []byte{3, 4} { // the operator replaces the one by the other
			key, err := callbacks.ParseSecret(secret(n))
			if err != nil {
				t.Fatal(err)
			}
			i.Secrets = append(i.Secrets, key)
		}
		end := p.Accept("sum")
		i.call("ada", hook, secret(1), `{"a":1}`)
		time.Sleep(time.Minute)
		if n := len(to.all()); n != 0 {
			t.Fatalf("%d requests before the end", n)
		}
		end(3)
		time.Sleep(time.Hour)
		all := to.all()
		if len(all) != 1 || all[0].url != hook || all[0].body != "ada acme.sum completed 3" || all[0].header.Get("Webhook-Id") == "" {
			t.Fatalf("%+v", all)
		}
		for _, n := range []byte{1, 3, 4} {
			if err := verify(all[0], secret(n)); err != nil {
				t.Errorf("secret %d: %v", n, err)
			}
		}
		if verify(all[0], secret(2)) == nil {
			t.Error("a wrong secret verifies")
		}
		for _, r := range s.records[realm+"ada"] {
			if strings.Contains(string(r.Data), secret(1)[6:]) {
				t.Errorf("the storage has the token: %s", r.Data)
			}
		}
		// The next process sends nothing.
		i.stop()
		next := start(t, p, s, to)
		time.Sleep(time.Hour)
		if n := len(to.all()); n != 1 || next.Deliverer.Stats() != (callbacks.Stats{}) {
			t.Errorf("%d requests, %+v", n, next.Deliverer.Stats())
		}
		next.stop()
	})
}

// A call-back that is not taken is sent again, with the same id, a new signature and growing pauses, and given up in the end.
func TestRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(int, *http.Request) (int, error) { return 500, nil }}
		i := start(t, provider(), newStore(), to)
		i.call("ada", hook, secret(1), "")
		time.Sleep(23 * time.Hour)
		all := to.all()
		if len(all) != 8 {
			t.Fatalf("%d requests", len(all))
		}
		for n, r := range all {
			if err := verify(r, secret(1)); err != nil || r.header.Get("Webhook-Id") != all[0].header.Get("Webhook-Id") {
				t.Errorf("request %d: %v, %v", n, err, r.header)
			}
		}
		if gap := all[7].at.Sub(all[6].at); gap < 10*time.Hour || gap > 11*time.Hour {
			t.Errorf("the last pause: %s", gap)
		}
		if all[0].header.Get("Webhook-Timestamp") == all[7].header.Get("Webhook-Timestamp") {
			t.Error("the timestamp is old")
		}
		attempts := i.given()
		if last := attempts[len(attempts)-1]; len(attempts) != 8 || !last.GivenUp || last.Retry != 0 || last.Status != 500 || attempts[6].GivenUp || attempts[6].Retry == 0 {
			t.Errorf("%+v", attempts)
		}
		i.stop()
	})
}

// A receiver that asks for a later request gets it then, but after an hour at the latest, and not sooner than without.
func TestRetryAfter(t *testing.T) {
	for after, want := range map[string][]time.Duration{
		"120":    {2 * time.Minute, 2 * time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour},
		"999999": {time.Hour, time.Hour, time.Hour, time.Hour, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour},
		"soon":   {5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			to := &receiver{answer: func(int, *http.Request) (int, error) { return 429, nil }, header: http.Header{"Retry-After": {after}}}
			i := start(t, provider(), newStore(), to)
			i.call("ada", hook, secret(1), "")
			time.Sleep(keptruns.Lifetime - time.Minute)
			all := to.all()
			for n, pause := range want {
				if n+1 >= len(all) {
					t.Fatalf("%s: %d requests", after, len(all))
				}
				if gap := all[n+1].at.Sub(all[n].at); gap < pause || gap > pause+pause/10+time.Second {
					t.Errorf("%s: pause %d is %s, want %s", after, n, gap, pause)
				}
			}
			i.stop()
		})
	}
}

// A receiver that answers 410 gets nothing more.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(int, *http.Request) (int, error) { return http.StatusGone, nil }}
		i := start(t, provider(), newStore(), to)
		i.call("ada", hook, secret(1), "")
		time.Sleep(23 * time.Hour)
		if given := i.given(); len(to.all()) != 1 || len(given) != 1 || !given[0].GivenUp {
			t.Errorf("%d requests, %+v", len(to.all()), given)
		}
		i.stop()
	})
}

// The next process sends what the last one has not: for runs that went on, for requests without an answer, and for submissions without one.
func TestRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s, to := provider(), newStore(), &receiver{answer: hang}
		first := start(t, p, s, to)
		first.call("ada", hook+"?ended", secret(1), "")
		end := p.Accept("sum")
		first.call("ada", hook+"?running", secret(1), "")
		p.On("POST /run/sum", func(http.ResponseWriter, *http.Request) { <-t.Context().Done() })
		go first.call("ada", hook+"?lost", secret(1), "")
		time.Sleep(time.Second)
		s = s.crashed()
		first.stop()
		if n := to.to("hooks.example"); n != 1 {
			t.Fatalf("%d requests", n)
		}
		again := new(receiver)
		next := start(t, p, s, again)
		time.Sleep(time.Minute)
		end(3)
		time.Sleep(time.Hour)
		var got []string
		for _, r := range again.all() {
			got = append(got, r.url[len(hook):]+" "+r.body)
			if r.url == hook+"?ended" && r.header.Get("Webhook-Id") != to.all()[0].header.Get("Webhook-Id") {
				t.Error("the next process uses another id")
			}
			if err := verify(r, secret(1)); err != nil {
				t.Error(err)
			}
		}
		slices.Sort(got)
		if len(got) != 3 || got[0] != "?ended ada acme.sum completed {}" || !strings.HasPrefix(got[1], "?lost ada The bridge ended while it submitted the call,") || got[2] != "?running ada acme.sum completed 3" {
			t.Errorf("%q", got)
		}
		next.stop()
	})
}

// Receivers that do not answer delay no call-back of another caller, and not each other's for long.
func TestDeadReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(n int, r *http.Request) (int, error) {
			if strings.HasPrefix(r.URL.Host, "dead") {
				return hang(n, r)
			}
			return http.StatusOK, nil
		}}
		i := start(t, provider(), newStore(), to)
		for n := range 10_000 {
			i.call("eve", fmt.Sprintf("https://dead%d.example/", n), secret(1), "")
		}
		if n := to.inProgress(); n != 16 {
			t.Errorf("%d requests for one caller", n)
		}
		i.call("ada", hook, secret(1), "")
		synctest.Wait()
		if n := to.to("hooks.example"); n != 1 {
			t.Errorf("%d call-backs while others do not answer", n)
		}
		if waiting := i.Deliverer.Stats().Waiting; waiting > 5_000 {
			t.Errorf("%d call-backs of one caller wait in memory", waiting)
		}
		i.stop()
	})
}

// Without a configuration for call-backs, none is sent. A later configuration sends it.
func TestReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, to := provider(), new(receiver)
		i := start(t, p, newStore(), to)
		end := p.Accept("sum")
		i.call("ada", hook, secret(1), "")
		i.Callbacks.End()
		end(3)
		time.Sleep(time.Hour)
		if n := len(to.all()); n != 0 {
			t.Fatalf("%d requests without a configuration", n)
		}
		next := i.configuration(i.Deliverer, to, keyOf(1))
		next.Begin()
		time.Sleep(time.Minute)
		if n := len(to.all()); n != 1 {
			t.Errorf("%d requests", n)
		}
		next.End()
		i.stop()
	})
}

// A call-back whose token can't be read any more is given up, and not sent without a signature.
func TestOtherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, to := provider(), new(receiver)
		i := start(t, p, newStore(), to)
		end := p.Accept("sum")
		i.call("ada", hook, secret(1), "")
		i.Callbacks.End()
		next := i.configuration(i.Deliverer, to, keyOf(7))
		next.Begin()
		end(3)
		time.Sleep(time.Hour)
		if given := i.given(); len(to.all()) != 0 || len(given) != 1 || !given[0].GivenUp || given[0].Outcome != "" {
			t.Errorf("%d requests, %+v", len(to.all()), given)
		}
		next.End()
		i.stop()
	})
}

// An outcome that is too large is not sent.
func TestLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, to := provider(), new(receiver)
		i := start(t, p, newStore(), to)
		p.On("POST /run/sum", providertest.Completed("x", strings.Repeat("a", 300<<10)))
		i.call("ada", hook, secret(1), "")
		time.Sleep(time.Minute)
		if all := to.all(); len(all) != 1 || all[0].body != "ada too large" {
			t.Errorf("%d requests", len(all))
		}
		i.stop()
	})
}

// A run whose call-back can't be stored is not submitted.
func TestNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), newStore()
		i := start(t, p, s, new(receiver))
		s.fail(errors.New("the disk is gone"))
		if a := i.call("ada", hook, secret(1), ""); a.Failure == nil || a.Failure.Executed != "no" {
			t.Errorf("%+v", a)
		}
		p.Received(t, "POST /run/sum", 0)
		s.fail(nil)
		i.stop()
	})
}

// A call that was not executed has no call-back, and a run that has expired none either.
func TestNothingToSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, to := provider(), new(receiver)
		i := start(t, p, newStore(), to)
		p.On("POST /run/sum", providertest.Answer(http.StatusUnauthorized, "{}"))
		i.call("ada", hook, secret(1), "")
		time.Sleep(time.Hour)
		if given := i.given(); len(given) != 0 {
			t.Errorf("%+v", given)
		}
		p.On("POST /run/sum", providertest.Completed("x", 3))
		i.Callbacks.End()
		i.call("ada", hook, secret(1), "")
		time.Sleep(keptruns.Lifetime + time.Minute)
		next := i.configuration(i.Deliverer, to, keyOf(1))
		next.Begin()
		time.Sleep(time.Hour)
		if given := i.given(); len(to.all()) != 0 || len(given) != 1 || !given[0].GivenUp {
			t.Errorf("%d requests, %+v", len(to.all()), given)
		}
		next.End()
		i.stop()
	})
}

func TestParseSecret(t *testing.T) {
	for text, ok := range map[string]bool{
		secret(1):                               true,
		strings.TrimRight(secret(1), "="):       true,
		"whsec_":                                false,
		"":                                      false,
		secret(1)[6:]:                           false,
		"whsec_" + strings.Repeat("AAAA", 8):    true,
		"whsec_" + strings.Repeat("AAAA", 7):    false,
		"whsec_" + strings.Repeat("AAAA", 22):   false,
		"whsec_" + strings.Repeat("AA\n==", 12): false,
		"whsec_" + strings.Repeat("--__", 8):    false,
	} {
		s, err := callbacks.ParseSecret(text)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if shown := fmt.Sprintf("%v %+v %#v %s", s, s, &s, []callbacks.Secret{s}); strings.Contains(shown, "1 1") || strings.Contains(shown, "0x1") {
			t.Error(shown)
		}
	}
}
