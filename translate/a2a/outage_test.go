package a2a_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// outages are how a database can be away: its statements have no effect, or their answers are lost.
var outages = map[string]func(a *agent, away func(statement string) error){
	"no effect":     func(a *agent, away func(string) error) { a.store.Fail(away, nil) },
	"answer lost":   func(a *agent, away func(string) error) { a.store.Fail(nil, away) },
	"not available": func(a *agent, away func(string) error) { a.store.Fail(away, nil) },
}

// breaks lets all statements of an agent fail until a time.
func breaks(a *agent, how string, d time.Duration) {
	until, err := time.Now().Add(d), errors.New("the connection broke")
	if how == "not available" {
		err = &ledger.Unavailable{Full: true, Err: err}
	}
	outages[how](a, func(string) error {
		if time.Now().Before(until) {
			return err
		}
		return nil
	})
}

// R200: a run ends while the database is away. Its client is told so within 2 seconds, this instance shows the task meanwhile, and all do later.
func TestEndWithoutDatabase(t *testing.T) {
	for how := range outages {
		for name, output := range map[string]string{"short": "ok", "long": strings.Repeat("x", 2*ledger.MaxInline)} {
			for _, accepted := range []string{"never", "before", "meanwhile"} {
				t.Run(how+" "+name+" "+accepted, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						a, other := together(t, inBubble)
						other.say.Set("User", "ada")
						a.say.Set("User", "ada")
						synctest.Wait()
						a.send10(t, text("", "a question"), "", "").check(t, "result.task")
						a.On("POST /run/free", func(w http.ResponseWriter, r *http.Request) {
							time.Sleep(time.Second)
							providertest.Completed("e1", output)(w, r)
						})
						away := 500 * time.Millisecond
						if accepted != "never" {
							end := a.Accept("free")
							time.AfterFunc(6*time.Second, func() { end(output) })
							if away = 0; accepted == "before" {
								away = time.Second
							}
						}
						time.AfterFunc(away, func() { breaks(a, how, 12*time.Second) })
						if away == 0 {
							time.Sleep(time.Nanosecond)
							synctest.Wait()
						}
						began, longest := time.Now(), 3*time.Second
						if accepted != "never" {
							longest = 9 * time.Second
						}
						got := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, "")
						got.check(t, "result.task.status.state=TASK_STATE_COMPLETED;result.task.artifacts.#=1")
						if took := time.Since(began); took > longest {
							t.Errorf("answered after %v", took)
						}
						get := fmt.Sprintf(`{"id":%q}`, got.at("result.task.id"))
						a.call(t, "GetTask", get).check(t, "result.status.state=TASK_STATE_COMPLETED;result.artifacts.#=1")
						time.Sleep(20 * time.Second)
						for _, at := range []*agent{a, other} {
							at.call(t, "GetTask", get).check(t, "result.status.state=TASK_STATE_COMPLETED;result.artifacts.#=1")
							at.call(t, "ListTasks", "{}").check(t, "result.totalSize=2")
						}
						if id := got.at("result.task.id"); a.db.Ends(id) != 1 {
							t.Errorf("it ended %d times", a.db.Ends(id))
						}
						a.Received(t, "POST /run/free", 1)
					})
				})
			}
		}
	}
}

// R200: a run goes on while the database is away: its client gets no open task, but can read it later, and the run is followed.
func TestOpenTaskWithoutDatabase(t *testing.T) {
	for how := range outages {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, other := together(t, inBubble)
				synctest.Wait()
				a.send10(t, text("", "a question"), "", "").check(t, "result.task")
				end := a.Accept("free")
				a.front.Options.Wait = 3 * time.Second // longer than a try to write the task
				breaks(a, how, 8*time.Second)
				got := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, "")
				got.check(t, "error.code=-32603;error.message~Its run goes on")
				_, id, _ := strings.Cut(got.at("error.message"), "how the task ")
				id, _, _ = strings.Cut(id, " ")
				get := fmt.Sprintf(`{"id":%q}`, id)
				time.Sleep(10 * time.Second)
				for _, at := range []*agent{a, other} {
					at.call(t, "GetTask", get).check(t, "result.status.state=TASK_STATE_WORKING")
				}
				end("ok")
				time.Sleep(time.Minute)
				for _, at := range []*agent{a, other} {
					at.call(t, "GetTask", get).check(t, "result.status.state=TASK_STATE_COMPLETED;result.artifacts.#=1")
				}
				a.Received(t, "POST /run/free", 1)
			})
		})
	}
}

// R200: a run is accepted while the database is away for seconds, and its client waits for the end: other instances see meanwhile that it goes on.
func TestOpenTaskIsWrittenLater(t *testing.T) {
	for how := range outages {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, other := together(t, inBubble)
				a.say.Set("User", "ada")
				other.say.Set("User", "ada")
				synctest.Wait()
				a.send10(t, text("", "a question"), "", "").check(t, "result.task")
				end := a.Accept("free")
				breaks(a, how, 4*time.Second)
				time.AfterFunc(8*time.Second, func() {
					other.call(t, "ListTasks", "{}").check(t, "result.totalSize=2;result.tasks.0.status.state=TASK_STATE_WORKING")
					end("ok")
				})
				a.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, "").check(t, "result.task.status.state=TASK_STATE_COMPLETED")
				a.Received(t, "POST /run/free", 1)
			})
		})
	}
}

// R200: too much waits for the database: who is told that the task ended, and who that its outcome may be lost, is told the truth.
func TestTooManyEndsWithoutDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		synctest.Wait()
		a.send10(t, text("", "a question"), "", "").check(t, "result.task")
		for lost := 0; lost == 0; time.Sleep(20 * time.Second) { // the database is back in between, since a bridge that is without it for long invokes nothing
			breaks(a, "no effect", 6*time.Second)
			a.front.Ledger.WriteLater(&ledger.Entry{Owner: owner("all"), ID: "all", Outcome: make([]byte, 64<<20)}, func(*ledger.Entry) error { return ledger.ErrUnchanged })
			got := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, "")
			if got.at("error.code") == "null" {
				got.check(t, "result.task.status.state=TASK_STATE_COMPLETED")
				continue
			}
			got.check(t, "error.code=-32603;error.message~may be lost;error.data.0.metadata.executed=yes")
			lost++
		}
	})
}

// R200: a task that asks its client could not be written, as far as is known: the client sends its message again, so that the first task must go.
func TestQuestionWithoutDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		a.say.Set("User", "ada")
		synctest.Wait()
		a.send10(t, text("", "a question"), "", "").check(t, "result.task")
		breaks(a, "answer lost", 3*time.Second)
		a.send10(t, text("", "a question"), "", "").check(t, "error.code=-32603;error.data.0.metadata.executed=no")
		time.Sleep(time.Minute)
		a.call(t, "ListTasks", "{}").check(t, "result.totalSize=1")
		a.send10(t, text("", "a question"), "", "").check(t, "result.task")
		a.call(t, "ListTasks", "{}").check(t, "result.totalSize=2")
	})
}

// R250: the answer of the database to a change is lost. The change is made once, and not again on what the client has answered to it meanwhile.
func TestR250ChangeIsMadeOnce(t *testing.T) {
	start := func(t *testing.T, lost string) (a, other *agent, id string) {
		t.Helper()
		a, other = together(t, inBubble)
		synctest.Wait()
		a.On("POST /run/free", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			providertest.Refused(http.StatusUnauthorized, "AUTH_REQUIRED")(w, r)
		})
		until := time.Now().Add(5 * time.Second)
		a.store.Fail(nil, func(statement string) error {
			if statement == lost && time.Now().Before(until) {
				return errors.New("the connection broke")
			}
			return nil
		})
		got := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, `"configuration":{"returnImmediately":true}`)
		return a, other, got.at("result.task.id")
	}
	get := func(t *testing.T, a *agent, id, want string) {
		t.Helper()
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, want)
	}
	t.Run("nobody answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, other, id := start(t, "change")
			time.Sleep(30 * time.Second)
			for _, at := range []*agent{a, other} {
				get(t, at, id, "result.status.state=TASK_STATE_AUTH_REQUIRED;result.history.#=1")
			}
		})
	})
	t.Run("the client answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, other, id := start(t, "change")
			time.Sleep(3 * time.Second)
			end := other.Accept("free")
			other.send10(t, text("", "again"), fmt.Sprintf(`"taskId":%q`, id), `"configuration":{"returnImmediately":true}`).check(t, "result.task.id="+id)
			time.Sleep(30 * time.Second)
			get(t, other, id, "result.status.state=TASK_STATE_WORKING")
			end("done")
			time.Sleep(time.Minute)
			get(t, other, id, "result.status.state=TASK_STATE_COMPLETED")
		})
	})
	t.Run("of a poll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, other := together(t, inBubble)
			synctest.Wait()
			a.Accept("slow")
			id := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, `"configuration":{"returnImmediately":true}`).at("result.task.id")
			time.Sleep(time.Second)
			until := time.Now().Add(time.Minute)
			a.store.Fail(nil, func(statement string) error {
				if statement == "change" && time.Now().Before(until) {
					return errors.New("the connection broke")
				}
				return nil
			})
			a.On("GET /status/x-slow", providertest.Refused(http.StatusUnauthorized, "AUTH_REQUIRED"))
			time.Sleep(5 * time.Minute)
			for _, at := range []*agent{a, other} {
				get(t, at, id, "result.status.state=TASK_STATE_AUTH_REQUIRED;result.history.#=1")
			}
		})
	})
}
