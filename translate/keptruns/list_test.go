package keptruns_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/internal/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
)

// An owner's runs are listed in pages, the newest first, also those that this process has not stored yet. Submissions that were not
// executed are left out.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), newStore()
		i := start(t, p, s, nil)
		i.call("old", "acme.sum", "")
		time.Sleep(keptruns.Lifetime)
		for _, key := range []string{"1", "2", "3"} {
			i.call(key, "acme.sum", `{"a":`+key+`}`)
		}
		p.On("POST /run/sum", providertest.Refused(http.StatusUnauthorized, "AUTH_REQUIRED"))
		i.call("refused", "acme.sum", "")
		p.On("POST /run/sum", providertest.Answer(http.StatusOK, `{`))
		i.call("broken", "acme.sum", "")
		end := p.Accept("add")
		i.call("5", "acme.add", "", waits(0))
		i.call("1", "acme.sum", "", func(q *keptruns.Request) { q.Owner = "realm\nbob" })

		list := func(q keptruns.Query) (statuses []string, next string) {
			t.Helper()
			q.Owner = owner
			if q.Match == nil {
				q.Match = func(*keptruns.Record) bool { return true }
			}
			page, next, err := i.List(context.Background(), &q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				statuses = append(statuses, r.Skill+" "+string(r.Status()))
			}
			return statuses, next
		}
		all := []string{"acme.add running", "acme.sum unknown", "acme.sum completed", "acme.sum completed", "acme.sum completed"}
		if got, next := list(keptruns.Query{Limit: 5}); !slices.Equal(got, all) || next != "" {
			t.Errorf("%q, %q", got, next)
		}
		var pages []string
		for before, n := "", 0; ; n++ {
			page, next := list(keptruns.Query{Limit: 2, Before: before})
			pages = append(pages, page...)
			if before = next; next == "" || n > 9 {
				break
			}
		}
		if !slices.Equal(pages, all) {
			t.Errorf("pages: %q", pages)
		}
		got, next := list(keptruns.Query{Limit: 1, Match: func(r *keptruns.Record) bool { return r.Status() == keptruns.StatusCompleted }})
		if len(got) != 1 || next == "" {
			t.Errorf("%q, %q", got, next)
		}
		s.fail(func(string) error { return errDisk })
		if _, _, err := i.List(context.Background(), &keptruns.Query{Owner: owner, Limit: 1}); err == nil {
			t.Error("the failure of the storage is hidden")
		}
		s.fail(nil)
		end(3)
		time.Sleep(time.Minute)
	})
}
