//nolint:thelper // the functions that inEachDatabase calls are tests
package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// inEachDatabase runs a test with the option store for each database that instances can share.
func inEachDatabase(t *testing.T, test func(t *testing.T, store string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "store sqlite "+filepath.Join(t.TempDir(), "bridge.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, "store postgres "+postgrestest.Start(t))
	})
}

// keeping is a Caddyfile of an instance with a database.
func keeping(p *hostile.Provider, store string, lines ...string) string {
	return testbed.Bridge(append([]string{"allow_anonymous", "name tools", "principal {http.request.header.User}", store, polling, "provider " + p.URL() + " {", "\tnamespace acme", "}"}, lines...)...)
}

// R160: calls with one key at two instances at the same instant are one execution each, and both callers get its outcome.
func TestR160OneExecution(t *testing.T) {
	t.Parallel()
	inEachDatabase(t, func(t *testing.T, store string) {
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/soon"})
		p.On("acme/soon", hostile.Invoke, hostile.Accept(1))
		instances := []*testbed.Process{
			testbed.StartProcess(t, testbed.Limits{}, keeping(p, store)), testbed.StartProcess(t, testbed.Limits{}, keeping(p, store)),
		}
		skills := []string{"acme.now", "acme.soon"}
		const keys = 20
		for n := range keys {
			var group sync.WaitGroup
			answers := make([]testbed.Answer, len(instances))
			for i, c := range instances {
				group.Go(func() {
					answers[i] = keyed(c.With(testbed.Fresh()), "ann", skills[n%2], fmt.Sprint("order ", n), testbed.Timeout(patience))
				})
			}
			group.Wait()
			for _, a := range answers {
				if a.Outcome() != "completed" || a.Run().RunID != answers[0].Run().RunID {
					t.Errorf("key %d: %s", n, a)
				}
			}
		}
		if n := p.Count("acme/now", hostile.Invoke) + p.Count("acme/soon", hostile.Invoke); n != keys || len(p.Duplicates()) > 0 {
			t.Errorf("%d invocations of %d keys: %v", n, keys, p.Duplicates())
		}
		for _, c := range instances {
			checkNoPanic(t, c.Log)
		}
	})
}

// R161: an instance is killed while it submits a call. The other one, which has a call with the same key, says that it may have been executed, and never
// submits it again.
func TestR161KilledInstance(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	inEachDatabase(t, func(t *testing.T, store string) {
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/later"})
		gate := hostile.NewGate(t)
		p.On("acme/later", hostile.Invoke, gate.Then(hostile.Usual()))
		first, second := testbed.StartProcess(t, testbed.Limits{}, keeping(p, store)), testbed.StartProcess(t, testbed.Limits{}, keeping(p, store))
		var group sync.WaitGroup
		group.Go(func() { keyed(first.Client, "ann", "acme.later", "a", testbed.Timeout(patience)) })
		testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the skill is invoked")
		var joined testbed.Answer
		group.Go(func() {
			joined = keyed(second.With(testbed.Fresh()), "ann", "acme.later", "a", testbed.Timeout(3*patience))
		})
		first.Signal(os.Kill)
		<-first.Exited()
		group.Wait()
		for _, a := range []testbed.Answer{joined, keyed(second.Client, "ann", "acme.later", "a")} {
			if a.Data.Executed != "maybe" || a.Data.Next != "none" || !strings.Contains(a.Message, "has ended or does not respond") {
				t.Errorf("%s", a)
			}
		}
		if n := p.Count("acme/later", hostile.Invoke); n != 1 {
			t.Errorf("%d invocations", n)
		}
		checkNoPanic(t, second.Log)
	})
}

// R162: reloads and a stop while calls with keys are executed and runs go on: no call is executed twice, and no outcome is lost.
func TestR162StopUnderLoad(t *testing.T) {
	t.Parallel()
	inEachDatabase(t, func(t *testing.T, store string) {
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/soon"})
		p.On("acme/soon", hostile.Invoke, hostile.Accept(3))
		config, grace := keeping(p, store), "grace_period 10s"
		c := testbed.StartProcess(t, testbed.Limits{}, config, grace)
		var mu sync.Mutex
		answered := map[string]string{} // skills by key
		stopped := make(chan struct{})
		stop := sync.OnceFunc(func() { close(stopped) })
		defer stop()
		var group sync.WaitGroup
		for worker := range 6 {
			client := c.With(testbed.Fresh())
			group.Go(func() {
				for n := 0; ; {
					select {
					case <-stopped:
						return
					default:
					}
					key, skill := fmt.Sprintf("%d-%d", worker, n), []string{"acme.now", "acme.soon"}[n%2]
					switch a := keyed(client, "ann", skill, key, testbed.Param("wait_ms", 0)); a.Outcome() {
					case "completed", "running":
						mu.Lock()
						answered[key] = skill
						mu.Unlock()
						n++
					case "broken": // each server that stops closes the connections that are idle, perhaps those of all workers: the same call once more
						time.Sleep(time.Millisecond)
					default:
						return // it is stopping
					}
				}
			})
		}
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(answered)
		}
		for n := range 3 {
			testbed.Eventually(t, patience, func() bool { return count() > 20*(n+1) }, "calls are answered")
			if err := c.Reload(keeping(p, store, fmt.Sprintf("max_batch %d", 5+n)), grace); err != nil {
				t.Error(err)
			}
		}
		c.Signal(syscall.SIGTERM)
		c.Wait(2 * patience)
		stop()
		group.Wait()
		checkNoPanic(t, c.Log)
		c = testbed.StartProcess(t, testbed.Limits{}, config)
		for key, skill := range answered {
			if a := keyed(c.Client, "ann", skill, key, testbed.Timeout(patience)); a.Outcome() != "completed" {
				t.Errorf("%s of %s: %s", key, skill, a)
			}
		}
		if len(p.Duplicates()) > 0 {
			t.Errorf("executed twice: %v", p.Duplicates())
		}
	})
}

// R203: while the database does not respond, get_run and cancel_run are answered in some seconds, and no answer says what is not known.
func TestR203DatabaseHangs(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Start(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1_000_000))
	c := testbed.StartProcess(t, testbed.Limits{}, keeping(p, "store postgres "+dsn))
	begun := keyed(c.Client, "ann", "acme.slow", "a", testbed.Param("wait_ms", 0))
	if begun.Outcome() != "running" {
		t.Fatalf("%s", begun)
	}
	about := func(method string, most time.Duration) testbed.Answer {
		began := time.Now()
		a := c.With(testbed.Header("User", "ann")).Call(method, hostile.Object{"run_token": runToken(begun), "wait_ms": 0})
		if took := time.Since(began); took > most {
			t.Errorf("%s: answered after %s", method, took)
		}
		return a
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err == nil {
		_, err = conn.Exec(t.Context(), "BEGIN; LOCK TABLE runs, things IN ACCESS EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		t.Fatal(err)
	}
	if a := about("get_run", 4*time.Second); a.Outcome() != "running" {
		t.Errorf("%s", a)
	}
	if a := about("cancel_run", 6*time.Second); !strings.Contains(a.Message, "is not known") || a.Data.Next != "follow_run" || a.Data.Executed != "yes" {
		t.Errorf("%s", a)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	testbed.Eventually(t, patience, func() bool { return about("cancel_run", patience).Outcome() == "canceled" }, "the run is canceled")
	checkNoPanic(t, c.Log)
}

// R204: the clock of the database is ten minutes off that of the instances. No call is executed twice, no task ends before its time, and when an instance is
// killed, the other one follows its runs.
func TestR204ClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	for _, ahead := range []string{"10 minutes", "-10 minutes"} {
		t.Run(ahead, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.Start(t)
			postgrestest.Exec(t, dsn, "CREATE SCHEMA off; CREATE FUNCTION off.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "+
				"$$SELECT pg_catalog.clock_timestamp() + interval '"+ahead+"'$$")
			t.Cleanup(func() { postgrestest.Exec(t, dsn, "DROP SCHEMA off CASCADE") })
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/later", Edit: endpoint("timeout_ms", 120_000)})
			p.On("acme/later", hostile.Invoke, hostile.Accept(1_000_000))
			config := strings.Replace(withAgents(p), "\trpc\n", "\tname tools\n\tstore postgres "+dsn+"?search_path=off%2Cpg_catalog%2Cpublic\n\trpc\n", 1)
			first, second := testbed.StartProcess(t, testbed.Limits{}, config), testbed.StartProcess(t, testbed.Limits{}, config)
			id := agentOf(first.Client, "ann").Invoke("acme.later", true).Task().ID
			for n := range 10 {
				for _, c := range []*testbed.Process{first, second} {
					if a := keyed(c.With(testbed.Fresh(), testbed.BasicAuth("ann", testbed.Password)), "ann", "acme.now", fmt.Sprint(n), testbed.Timeout(patience)); a.Outcome() != "completed" {
						t.Errorf("key %d: %s", n, a)
					}
				}
			}
			state := func() string { return agentOf(second.Client, "ann").GetTask(id).Task().State() }
			testbed.Eventually(t, patience, func() bool { return state() == "WORKING" }, "the run is accepted")
			first.Signal(os.Kill)
			<-first.Exited()
			polls := p.Count("acme/later", hostile.Status)
			testbed.Eventually(t, 4*patience, func() bool { return p.Count("acme/later", hostile.Status) > polls+1 }, "the other instance follows the run")
			if s := state(); s != "WORKING" {
				t.Errorf("the task is %s before its time is up", s)
			}
			p.On("acme/later", hostile.Status, hostile.Complete(nil))
			testbed.Eventually(t, patience, func() bool { return state() == "COMPLETED" }, "the task ends")
			if n := p.Count("acme/now", hostile.Invoke); n != 10 || len(p.Duplicates()) > 0 {
				t.Errorf("%d invocations of 10 keys: %v", n, p.Duplicates())
			}
			checkNoPanic(t, second.Log)
		})
	}
}
