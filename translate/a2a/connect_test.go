package a2a_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// accounts adds the skill acme.book, which needs an account of the user.
func accounts(own *providertest.Accounts) setup {
	return func(a *agent) {
		book := providertest.Skill("acme/book", providertest.OAuth2(), providertest.Input("at", "integer", object{"required": true}))
		p := a.Provider
		p.On("POST /run/book", providertest.Completed("e", "booked"))
		a.skills = append(a.skills, book)
		a.credentials, a.config.Grants = own, own.Next
	}
}

var (
	ada  = http.Header{"User": {"ada"}}
	book = `{"message":` + message("1.0", data("", `{"at":7}`), `"metadata":{"skill":"acme.book"}`) + `}`
)

// as sends a request as a user.
func (a *agent) as(t *testing.T, user http.Header, method, params string) *answer {
	t.Helper()
	return a.post(t, "/a2a", request(method, params), user)
}

// TestConnect: a task waits for the account of its user, and goes on by itself. Its streams stay open.
func TestConnect(t *testing.T) {
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own := new(providertest.Accounts)
				a := newAgent(t, inBubble, accounts(own))
				user := as(d.version)
				user.Set("User", "ada")
				params := d.params("", data(d.version, `{"at":7}`), `"metadata":{"skill":"acme.book"}`)
				began := time.Now()
				time.AfterFunc(70*time.Second, func() {
					own.Set("ada", true)
					a.front.Ledger.Granted(owner("ada"))
				})
				got := a.post(t, "/a2a", request(d.stream, params), user)
				got.want(t, map[string]string{
					"1.0": "task submitted, status auth_required, status working, artifact true, status completed",
					"0.3": "task submitted, status auth-required, status working, artifact true, status completed final",
					"0.1": "status input-required, status working, artifact , status completed final",
				}[d.version])
				if took := time.Since(began); took != 70*time.Second {
					t.Errorf("after %v", took)
				}
				if !strings.Contains(got.text, "Ask the user to open "+providertest.ConnectURL+" and to connect an account there; the task then continues by itself: do not send it again.") || strings.Contains(got.text, "call again") || !strings.Contains(got.text, `"next":"connect"`) || !strings.Contains(got.text, `"connect_url":"`+providertest.ConnectURL+`"`) {
					t.Error(got.text)
				}
				a.Received(t, "POST /run/book", 1)
				if r := a.Requests("POST /run/book"); r[0].Header.Get("Authorization") != "Bearer ada" || !strings.Contains(r[0].Body, `"at":7`) {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// TestConnectAsked: a request that waits for the task is answered at once. Any message tries again, with the same inputs; a task that is canceled stays so.
func TestConnectAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := new(providertest.Accounts)
		a := newAgent(t, inBubble, accounts(own))
		began := time.Now()
		got := a.as(t, ada, "SendMessage", book)
		got.check(t, "result.task.status.state=TASK_STATE_AUTH_REQUIRED;result.task.status.message.parts.0.text~"+providertest.ConnectURL+
			";result.task.status.message.parts.1.data.next=connect;result.task.status.message.parts.1.data.executed=no")
		if took := time.Since(began); took != 0 {
			t.Errorf("answered after %v", took)
		}
		id := got.at("result.task.id")
		again := fmt.Sprintf(`{"message":%s}`, message("1.0", text("", "now?"), fmt.Sprintf(`"taskId":%q`, id)))
		a.as(t, ada, "SendMessage", again).check(t, "result.task.id="+id+";result.task.status.state=TASK_STATE_AUTH_REQUIRED")
		own.Set("ada", true) // nobody says so
		a.as(t, ada, "SendMessage", again).check(t, "result.task.id="+id+";result.task.status.state=TASK_STATE_COMPLETED;result.task.artifacts.0.parts.0.data=booked")
		a.Received(t, "POST /run/book", 1)

		own.Set("ada", false)
		id = a.as(t, ada, "SendMessage", book).at("result.task.id")
		a.as(t, ada, "CancelTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_CANCELED")
		own.Set("ada", true)
		a.front.Ledger.Granted(owner("ada"))
		synctest.Wait()
		a.as(t, ada, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_CANCELED")
		a.Received(t, "POST /run/book", 1)
	})
}

// TestConnectUnheard: if the instance that knows of the grant has ended, who reads the task, or a stream of it, finds out.
func TestConnectUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := new(providertest.Accounts)
		a := newAgent(t, inBubble, accounts(own))
		id := a.as(t, ada, "SendMessage", book).at("result.task.id")
		get := func() *answer { return a.as(t, ada, "GetTask", fmt.Sprintf(`{"id":%q}`, id)) }
		get().check(t, "result.status.state=TASK_STATE_AUTH_REQUIRED")
		own.Set("ada", true)
		get()
		synctest.Wait()
		get().check(t, "result.status.state=TASK_STATE_COMPLETED")

		own.Set("ada", false)
		began := time.Now()
		time.AfterFunc(20*time.Second, func() { own.Set("ada", true) })
		a.as(t, ada, "SendStreamingMessage", book).want(t, "task submitted, status auth_required, status working, artifact true, status completed")
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("after %v", took)
		}
		a.Received(t, "POST /run/book", 2)
	})
}

// TestS223TasksOfOthers: a grant makes the tasks of its principal go on, and no others.
func TestS223TasksOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := new(providertest.Accounts)
		a := newAgent(t, inBubble, accounts(own))
		bob := http.Header{"User": {"bob"}}
		ids := map[string]string{}
		for name, user := range map[string]http.Header{"ada": ada, "bob": bob} {
			ids[name] = a.as(t, user, "SendMessage", book).at("result.task.id")
		}
		own.Set("bob", true)
		a.front.Ledger.Granted(owner("ada")) // whoever says so
		synctest.Wait()
		a.Received(t, "POST /run/book", 0)
		a.front.Ledger.Granted(owner("bob"))
		synctest.Wait()
		a.as(t, ada, "GetTask", fmt.Sprintf(`{"id":%q}`, ids["ada"])).check(t, "result.status.state=TASK_STATE_AUTH_REQUIRED")
		a.as(t, bob, "GetTask", fmt.Sprintf(`{"id":%q}`, ids["bob"])).check(t, "result.status.state=TASK_STATE_COMPLETED")
		a.as(t, ada, "GetTask", fmt.Sprintf(`{"id":%q}`, ids["bob"])).check(t, "error.code=-32001")
		if r := a.Requests("POST /run/book"); len(r) != 1 || r[0].Header.Get("Authorization") != "Bearer bob" {
			t.Errorf("%+v", r)
		}
	})
}

// TestS224GrantAtTwoInstances: a task goes on once, although several instances, streams and messages want that at the same instant.
func TestS224GrantAtTwoInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := new(providertest.Accounts)
		first, second := together(t, inBubble, accounts(own))
		first.On("POST /run/book", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			providertest.Completed("e", "booked")(w, r)
		})
		const tasks = 20
		var streams sync.WaitGroup
		for range tasks {
			streams.Go(func() {
				first.as(t, ada, "SendStreamingMessage", book).want(t, "task submitted, status auth_required, status working, artifact true, status completed")
			})
		}
		synctest.Wait()
		var waiting []string
		page := second.as(t, ada, "ListTasks", `{"pageSize":100}`)
		for i := range tasks {
			waiting = append(waiting, page.at(fmt.Sprintf("result.tasks.%d.id", i)))
		}
		own.Set("ada", true)
		for _, a := range []*agent{first, second} {
			go a.front.Ledger.Granted(owner("ada"))
			for _, id := range waiting {
				go a.as(t, ada, "GetTask", fmt.Sprintf(`{"id":%q}`, id))
			}
		}
		streams.Wait()
		first.Received(t, "POST /run/book", tasks)
	})
}

// TestConnectExpires: a task does not wait longer than tasks are kept.
func TestConnectExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := new(providertest.Accounts)
		a := newAgent(t, inBubble, accounts(own), func(a *agent) { a.keep = ledger.Settings{Keep: time.Hour} })
		id := a.as(t, ada, "SendMessage", book).at("result.task.id")
		time.Sleep(time.Hour + 2*time.Minute)
		own.Set("ada", true)
		a.front.Ledger.Granted(owner("ada"))
		a.as(t, ada, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_FAILED")
		a.Received(t, "POST /run/book", 0)
	})
}

// TestGrantEndsDuringRun: a run whose grant has ended waits for another one, and is followed then; it is not started again.
func TestGrantEndsDuringRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := new(providertest.Accounts)
		own.Set("ada", true)
		a := newAgent(t, inBubble, accounts(own))
		end := a.Accept("book")
		time.AfterFunc(10*time.Second, func() { own.Set("ada", false) })
		time.AfterFunc(60*time.Second, func() {
			end("booked")
			own.Set("ada", true)
			a.front.Ledger.Granted(owner("ada"))
		})
		got := a.as(t, ada, "SendStreamingMessage", book)
		got.want(t, "task submitted, status working, status auth_required, status working, artifact true, status completed")
		if !strings.Contains(got.text, `"executed":"yes","next":"connect"`) {
			t.Error(got.text)
		}
		a.Received(t, "POST /run/book", 1)
	})
}

// lacking is the answer of a provider that wants the further scope pay, until the user has consented to it.
func lacking(own *providertest.Accounts) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if own.Missing(r.Context(), "ada", &document.Auth{}, []string{"pay"}, nil) == nil {
			providertest.Completed("e", "booked")(w, r)
			return
		}
		providertest.Answer(http.StatusForbidden, object{"error": object{"code": "PERMISSION_DENIED", "message": "no", "details": object{"required_scopes": []string{"pay"}}}})(w, r)
	}
}

// TestConnectForScopes: a task whose provider wants further scopes waits until the user has consented to them. Nobody who looks at it sends it again before.
func TestConnectForScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := new(providertest.Accounts)
		own.Set("ada", true)
		a := newAgent(t, inBubble, accounts(own))
		a.On("POST /run/book", lacking(own))
		began := time.Now()
		time.AfterFunc(40*time.Second, func() {
			page := a.as(t, ada, "ListTasks", "{}")
			a.as(t, ada, "GetTask", fmt.Sprintf(`{"id":%q}`, page.at("result.tasks.0.id"))).check(t, "result.status.state=TASK_STATE_AUTH_REQUIRED;result.status.message.parts.1.data.code=PERMISSION_DENIED"+
				";result.status.message.parts.1.data.details.connect_url="+providertest.ConnectURL+"+pay")
			a.front.Ledger.Granted(owner("ada")) // of something else
			synctest.Wait()
			a.Received(t, "POST /run/book", 1)
			own.Set("ada", true, "pay")
			a.front.Ledger.Granted(owner("ada"))
		})
		a.as(t, ada, "SendStreamingMessage", book).want(t, "task submitted, status auth_required, status working, artifact true, status completed")
		if took := time.Since(began); took != 40*time.Second {
			t.Errorf("after %v", took)
		}
		a.Received(t, "POST /run/book", 2)
	})
}
