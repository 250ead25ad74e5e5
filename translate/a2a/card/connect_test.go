package card_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// TestS225CardsOfOthers: a card says to each principal whether its user has to connect an account, and to no other.
func TestS225CardsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, accounts := providertest.New(), new(providertest.Accounts)
		p.Publish(providertest.Skill("acme/book", providertest.Merge(providertest.Object{"description": strings.Repeat("Books a table. ", 100)}, providertest.OAuth2())), providertest.Skill("acme/free", nil))
		source := p.Source(t, "acme")
		source.Credentials = accounts
		b, err := translate.New(providertest.Config(t, source))
		if err != nil {
			t.Fatal(err)
		}
		builder := card.New(b, card.Config{Extended: true})
		asks := func(principal, skill, version string, extended, old bool) int {
			t.Helper()
			c, err := builder.Card(t.Context(), card.Request{
				Base: "https://bridge.example.com/a2a", Skill: skill, Version: version, Extended: extended, Old: old, Caller: run.Caller{Principal: principal},
			})
			if err != nil {
				t.Fatal(err)
			}
			text := string(c.JSON())
			if !strings.Contains(text, `"acme.book"`) || strings.Contains(text, `Does free. (asks`) {
				t.Error(text)
			}
			return strings.Count(text, `(asks the user to connect an account first)","tags"`)
		}
		check := func(want map[string]int) {
			t.Helper()
			time.Sleep(time.Second)
			for range 2 {
				for principal, n := range want {
					for _, version := range []string{"1.0", "0.3", ""} {
						if got := asks(principal, "", version, false, false) + asks(principal, "", version, true, false) + asks(principal, "acme.book", version, false, false) + asks(principal, "", "", false, true); got != 4*n {
							t.Errorf("%s %s: %d, want %d", principal, version, got, 4*n)
						}
					}
				}
			}
		}
		check(map[string]int{"ada": 1, "bob": 1})
		accounts.Set("bob", true)
		check(map[string]int{"ada": 1, "bob": 0})
		accounts.Set("bob", false)
		accounts.Set("ada", true)
		check(map[string]int{"ada": 0, "bob": 1})
	})
}
