package fronts

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/keptcallstest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// tokens are those of one run.
type tokens run.Ref

func (*tokens) Ready(context.Context) error                             { return nil }
func (*tokens) Seal(context.Context, run.Ref, string) (string, error)   { return "token", nil }
func (t *tokens) Open(context.Context, string, string) (run.Ref, error) { return run.Ref(*t), nil }
func (*tokens) Lifetime() time.Duration                                 { return time.Hour }

// Calls about a kept run read it once, also while the database does not respond, and a canceled one is written by one statement.
func TestKeptRunIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := keptcallstest.Provider()
		p.Accept("sum")
		i := keptcallstest.Start(t, p, ledgertest.New(), func(c *ledger.Config) { c.Trouble = func(error) {} })
		begun := i.Call("k", "acme.sum", "", keptcallstest.Waits(0))
		follower := &runFollower{realm: keptcallstest.Ada.Realm}
		server := &jsonrpc.Server{Profile: skillsprotocol.Profile(10), Handler: (&skillsprotocol.Front{
			Bridge: i.Bridge, Tokens: (*tokens)(&begun.Ref), Kept: &skillsprotocol.KeptRuns{Ledger: i.Ledger, Owner: follower.owner},
			Canceled: i.Canceled,
		}).ServeRPC}
		for _, c := range []struct {
			name, method, want string
			down               bool
			gets, changes      int
		}{
			{"a run that goes on", "get_run", `"status":"running"`, false, 1, 0},
			{"a database that hangs", "get_run", `"status":"running"`, true, 1, 0},
			{"to cancel while it hangs", "cancel_run", `not known whether the run has ended or is canceled now`, true, 1, 0},
			{"to cancel", "cancel_run", `"status":"canceled"`, false, 1, 1},
			{"a canceled run", "get_run", `"status":"canceled"`, false, 1, 0},
			{"to cancel it again", "cancel_run", `"status":"canceled"`, false, 1, 0},
		} {
			i.Store.Hang(func(string) bool { return c.down })
			all, gets, changes, began := i.Store.Sent(""), i.Store.Sent("get"), i.Store.Sent("change"), time.Now()
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":{"run_token":"token","wait_ms":0}}`))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			server.Serve(translate.WithCaller(t.Context(), run.Caller{Principal: "ada"}), w, r)
			all, gets, changes = i.Store.Sent("")-all, i.Store.Sent("get")-gets, i.Store.Sent("change")-changes
			if all != gets+changes || gets != c.gets || changes != c.changes || !strings.Contains(w.Body.String(), c.want) ||
				strings.Contains(w.Body.String(), "-32603") && !strings.Contains(w.Body.String(), `"next":"follow_run"`) {
				t.Errorf("%s: %d statements, %d to read and %d to write; %s", c.name, all, gets, changes, w.Body)
			}
			if took := time.Since(began); c.down && took > 2100*time.Millisecond {
				t.Errorf("%s: %s", c.name, took)
			}
			i.Store.Hang(nil)
			time.Sleep(time.Second)
		}
	})
}
