package ledger_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// An owner's runs are listed in pages, the newest first, also those that this process has not stored yet. Submissions that were not
// executed are left out.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		i := start(t, p, s, nil)
		i.Call("old", "acme.sum", "")
		time.Sleep(lifetime)
		for _, key := range []string{"1", "2", "3"} {
			i.Call(key, "acme.sum", `{"a":`+key+`}`)
		}
		p.On("POST /run/sum", providertest.Refused(http.StatusUnauthorized, "AUTH_REQUIRED"))
		i.Call("refused", "acme.sum", "")
		p.On("POST /run/sum", providertest.Answer(http.StatusOK, `{`))
		i.Call("broken", "acme.sum", "")
		end := p.Accept("add")
		i.Call("5", "acme.add", "", waits(0))
		i.Call("1", "acme.sum", "", func(q *keptcalls.Request) { q.Owner = bob })

		all := func(*ledger.Entry) bool { return true }
		list := func(q ledger.Query, match func(*ledger.Entry) bool) (statuses []string, next string) {
			t.Helper()
			q.Owner = &owner
			page, next, err := i.List(context.Background(), &q, match)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				statuses = append(statuses, r.Skill+" "+r.State.Run().String())
			}
			return statuses, next
		}
		want := []string{"acme.add running", "acme.sum lost", "acme.sum completed", "acme.sum completed", "acme.sum completed"}
		if got, next := list(ledger.Query{Limit: 5}, all); !slices.Equal(got, want) || next != "" {
			t.Errorf("%q, %q", got, next)
		}
		var pages []string
		for before, n := "", 0; ; n++ {
			page, next := list(ledger.Query{Limit: 2, Before: before}, all)
			pages = append(pages, page...)
			if before = next; next == "" || n > 9 {
				break
			}
		}
		if !slices.Equal(pages, want) {
			t.Errorf("pages: %q", pages)
		}
		got, next := list(ledger.Query{Limit: 1}, func(e *ledger.Entry) bool { return e.State == ledger.Completed })
		if len(got) != 1 || next == "" {
			t.Errorf("%q, %q", got, next)
		}
		down(i)
		if _, _, err := i.List(context.Background(), &ledger.Query{Owner: &owner, Limit: 1}, func(*ledger.Entry) bool { return true }); err == nil {
			t.Error("the failure of the storage is hidden")
		}
		i.Store.Fail(nil, nil)
		end(3)
		time.Sleep(time.Minute)
	})
}
