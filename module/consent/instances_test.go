package consent_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// atTwoInstances runs a test with two processes that share PostgreSQL, and with two that share a file of SQLite. Their site has some lines.
func atTwoInstances(t *testing.T, lines func(*bed) []string, test func(t *testing.T, b *bed, at [2]*testbed.Process)) {
	t.Helper()
	for _, kind := range []string{"postgres", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "skills.db")
			store := "store sqlite " + file
			if kind == "postgres" {
				store = `store postgres "` + postgrestest.Start(t) + `"`
			}
			s := newLogin(t)
			b := &bed{login: s, provider: hostile.NewProvider(t, s.skills(scopes)...)}
			config := strings.Replace(siteWith(file, sealKey, lines(b)...), "store sqlite "+file, store, 1)
			var at [2]*testbed.Process
			for i := range at {
				at[i] = testbed.StartProcess(t, testbed.Limits{}, config)
			}
			b.base = "http://127.0.0.1:" + at[0].Port("PORT")
			s.register(t, b.base+"/connect/acme/callback")
			test(t, b, at)
		})
	}
}

// TestS348CallbackAtTwoInstances: a flow that was begun at one instance is finished at either, once, also if the same callback comes to both at once, and its account
// can be used and disconnected at both.
func TestS348CallbackAtTwoInstances(t *testing.T) {
	t.Parallel()
	atTwoInstances(t, func(b *bed) []string {
		return []string{source(b.provider, "acme", b.login, "revocation_url "+b.login.URL+"/revoke")}
	},
		func(t *testing.T, b *bed, instances [2]*testbed.Process) { //nolint:thelper // it is the test
			s := b.login
			s.slow = 300 * time.Millisecond
			at := []string{b.base, "http://127.0.0.1:" + instances[1].Port("PORT")}
			ada := b.browser(t, "ada")
			callback := ada.consent(ada.begin("/connect/acme"))
			cookie := ada.jar.Cookies(mustURL(t, at[0]))[0]
			var finished atomic.Int32
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					own := b.browser(t, "ada")
					a := own.get(strings.Replace(callback, at[0], at[i%2], 1), "Cookie", cookie.Name+"="+cookie.Value)
					if a.status == http.StatusSeeOther {
						finished.Add(1)
					} else if !strings.Contains(a.body, "finished before") {
						t.Errorf("%d %s", a.status, a.body)
					}
				})
			}
			group.Wait()
			if finished.Load() != 1 || s.tokens.Load() != 1 {
				t.Errorf("finished %d times, with %d token requests", finished.Load(), s.tokens.Load())
			}
			const call = `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.book"}}`
			calls := func(want string) bool {
				return !slices.ContainsFunc(at, func(base string) bool {
					return !strings.Contains(ada.send(http.MethodPost, base+"/rpc", call, "Content-Type", "application/json").body, want)
				})
			}
			if !calls(`"status":"completed"`) {
				t.Error("the account can't be used at both")
			}
			if a := ada.send(http.MethodPost, at[1]+"/connect/acme", "do=disconnect", "Origin", at[1]); a.status != http.StatusSeeOther || s.revoked.Load() != 1 {
				t.Errorf("%d %s, %d revocations", a.status, a.body, s.revoked.Load())
			}
			testbed.Eventually(t, 10*time.Second, func() bool { return calls("AUTH_REQUIRED") }, "the account is disconnected at both")
		})
}
