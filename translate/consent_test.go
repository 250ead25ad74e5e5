package translate_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// consenting returns a bridge whose provider's skill acme.book needs an account of the user, and acme.free none.
func consenting(t *testing.T, change func(*translate.Config)) (*translate.Bridge, *providertest.Provider, *providertest.Accounts) {
	t.Helper()
	p, accounts := providertest.New(), new(providertest.Accounts)
	p.Publish(providertest.Skill("acme/book", providertest.OAuth2()), providertest.Skill("acme/free", nil))
	p.On("POST /run/book", providertest.Completed("e", 1))
	source := p.Source(t, "acme")
	source.Credentials = accounts
	config := bridgeConfig(t, nil, source)
	if change != nil {
		change(&config)
	}
	b, err := translate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return b, p, accounts
}

// ownCall is a call of a principal.
func ownCall(principal, name string) translate.Call {
	return translate.Call{Caller: run.Caller{Principal: principal}, Name: name, Inputs: jsonrpc.Object{}}
}

// TestS220StateOfOthers: without a grant nothing is sent, and the state is that of the principal alone.
func TestS220StateOfOthers(t *testing.T) {
	b, p, accounts := consenting(t, nil)
	state := func(principal string) (described catalog.State, listed string) {
		d, failure := b.Describe(t.Context(), ownCall(principal, "acme.book"))
		if failure != nil {
			t.Fatal(failure)
		}
		if (d.State == catalog.NeedsConsent) != (d.Denied != nil) || d.Denied != nil && d.Denied.SkillID != "acme/book" {
			t.Errorf("%s: %s, denied %v", principal, d.State, d.Denied)
		}
		for _, q := range []translate.Query{{Limit: 10, ByName: true}, {Limit: 10, Descriptors: 10, Usable: true}, {Limit: 10, Descriptors: 10, Usable: true, Connectable: true}} {
			q.Principal = principal
			for _, e := range b.List(t.Context(), q).Skills {
				if listed += e.Name; e.Connects {
					listed += "!"
				}
				listed += " "
			}
			listed += "| "
		}
		return d.State, listed
	}
	const without, with = "acme.book! acme.free | acme.free | acme.book! acme.free | ", "acme.book acme.free | acme.book acme.free | acme.book acme.free | "
	for range 2 {
		outcome := b.Start(t.Context(), ownCall("ada", "acme.book")).Wait()
		if f := outcome.Failure; f == nil || f.Next() != run.NextConnect || f.Executed != run.ExecutedNo || f.SkillID != "acme/book" ||
			!strings.HasSuffix(f.Text(), "Ask the user to open "+providertest.ConnectURL+" and to connect an account there; then call again.") {
			t.Fatalf("%+v", f)
		}
	}
	if described, listed := state("ada"); described != catalog.NeedsConsent || listed != without {
		t.Errorf("ada: %s, %s", described, listed)
	}
	accounts.Set("bob", true)
	if described, listed := state("bob"); described != catalog.Available || listed != with {
		t.Errorf("bob: %s, %s", described, listed)
	}
	if described, listed := state("ada"); described != catalog.NeedsConsent || listed != without {
		t.Errorf("ada, after bob: %s, %s", described, listed)
	}
	p.Received(t, "POST /run/book", 0)
	if outcome := b.Start(t.Context(), ownCall("bob", "acme.book")).Wait(); outcome.Failure != nil {
		t.Error(outcome.Failure)
	}
	if r := p.Requests("POST /run/book"); len(r) != 1 || r[0].Header.Get("Authorization") != "Bearer bob" {
		t.Errorf("%+v", r)
	}
	p.On("POST /run/book", providertest.Refused(http.StatusForbidden, "PERMISSION_DENIED"))
	b.Start(t.Context(), ownCall("bob", "acme.book")).Wait()
	accounts.Set("bob", false)
	if described, _ := state("bob"); described != catalog.NeedsConsent {
		t.Errorf("bob, whose grant has ended: %s", described)
	}
}

// TestAwaitedConsent: who waits hears at once of a grant, or looks each second if nobody says that there may be one.
func TestAwaitedConsent(t *testing.T) {
	for about, c := range map[string]struct {
		told   bool
		within time.Duration
	}{"told": {true, 0}, "not told": {false, time.Second}} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var accounts *providertest.Accounts
				b, _, own := consenting(t, func(config *translate.Config) {
					if c.told {
						config.Grants = func() <-chan struct{} { return accounts.Next() }
					}
				})
				accounts = own
				await := func() bool {
					call := ownCall("ada", "acme.book")
					call.Consent = time.Minute
					return b.Connected(t.Context(), call)
				}
				began := time.Now()
				if state := await(); state || time.Since(began) != time.Minute {
					t.Errorf("without a grant: %t after %v", state, time.Since(began))
				}
				if most := int64(time.Minute/time.Second) + 3; accounts.Asked.Load() > most {
					t.Errorf("asked %d times", accounts.Asked.Load())
				}
				const after = 10*time.Second + time.Millisecond
				began = time.Now()
				time.AfterFunc(after/2, func() { accounts.Set("bob", true) })
				time.AfterFunc(after, func() { accounts.Set("ada", true) })
				if state := await(); !state || time.Since(began) < after || time.Since(began) > after+c.within {
					t.Errorf("%t after %v", state, time.Since(began))
				}
			})
		})
	}
}

// TestWaitingForConsentTakesNoPlace: calls that wait for their user leave the places of calls to others, and a principal can let few wait.
func TestWaitingForConsentTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, accounts := consenting(t, func(config *translate.Config) { config.Places.MaxRuns = 1 })
		p.On("POST /run/free", providertest.Completed("e", 1))
		call := ownCall("ada", "acme.book")
		call.Consent = time.Minute
		began, ended := time.Now(), make(chan time.Duration, 20)
		for range cap(ended) {
			go func() {
				b.Connected(t.Context(), call)
				ended <- time.Since(began)
			}()
			synctest.Wait()
		}
		if n := len(ended); n != 12 {
			t.Errorf("%d of 20 calls did not wait", n)
		}
		if outcome := b.Start(t.Context(), ownCall("bob", "acme.free")).Wait(); outcome.Failure != nil {
			t.Error(outcome.Failure)
		}
		accounts.Set("ada", true)
		for n := range cap(ended) {
			if took := <-ended; took > time.Second {
				t.Errorf("call %d ended after %v", n, took)
			}
		}
	})
}

// TestPanicsWhileWaitingForConsent: a call that ends with a panic does not keep its place among those that wait.
func TestPanicsWhileWaitingForConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grants := func() <-chan struct{} { panic("a bug") }
		b, _, _ := consenting(t, func(config *translate.Config) { config.Grants = func() <-chan struct{} { return grants() } })
		call := ownCall("ada", "acme.book")
		call.Consent = time.Minute
		for range 20 {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				b.Connected(t.Context(), call)
			}()
		}
		grants = func() <-chan struct{} { return nil }
		began := time.Now()
		if b.Connected(t.Context(), call); time.Since(began) != time.Minute {
			t.Errorf("it waited %v", time.Since(began))
		}
	})
}

// TestNobodyConsents: lists of a bridge whose providers have one account for all ask nothing.
func TestNobodyConsents(t *testing.T) {
	p := providertest.New()
	p.Publish(providertest.Skill("acme/free", nil))
	b := newBridge(t, p.Source(t, "acme"))
	if b.Catalog().Personal {
		t.Error("it is said that a source has personal credentials")
	}
}
