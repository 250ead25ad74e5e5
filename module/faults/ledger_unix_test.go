//go:build unix

//nolint:thelper // the functions that inEachDatabase calls are tests
package faults_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R165: an instance is paused for 9.5 s after it has claimed calls and before it submits them. The calls with the same keys at other instances wait for it,
// nothing is executed twice, and all callers get the same outcome.
func TestR165PausedInstance(t *testing.T) {
	t.Parallel()
	inEachDatabase(t, func(t *testing.T, store string) {
		const keys = 20
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/soon"})
		p.On("acme/soon", hostile.Invoke, hostile.Accept(1))
		gate := hostile.NewGate(t)
		for _, skill := range []string{"acme/now", "acme/soon"} { // a call is claimed before its skill is read
			p.On(skill, hostile.Descriptor, gate.Then(hostile.Usual()))
		}
		var instances []*testbed.Process
		for range 3 {
			instances = append(instances, testbed.StartProcess(t, testbed.Limits{}, keeping(p, store)))
		}
		var answers [3][keys]testbed.Answer
		var group sync.WaitGroup
		call := func(i int) {
			for n := range keys {
				group.Go(func() {
					answers[i][n] = keyed(instances[i].With(testbed.Fresh()), "ann", []string{"acme.now", "acme.soon"}[n%2], fmt.Sprint("order ", n), testbed.Timeout(patience))
				})
			}
		}
		call(0)
		testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 2 }, "the instance reads the skills of its calls")
		instances[0].Signal(syscall.SIGSTOP)
		gate.Open()
		call(1)
		call(2)
		paused := time.Second
		if longtest.Runs(longtest.Long) {
			paused = 9500 * time.Millisecond // its lease is 15 s
		}
		<-time.After(paused)
		instances[0].Signal(syscall.SIGCONT)
		group.Wait()
		for n := range keys {
			for i := range instances {
				a, first := answers[i][n], answers[0][n]
				if i == 0 && a.Code != 0 && a.Data.Executed == "no" { // the pause was most of the time for reading the skill: another one has executed it
					continue
				}
				if a.Outcome() != "completed" || first.Code == 0 && a.Run().RunID != first.Run().RunID {
					t.Errorf("key %d at instance %d: %s", n, i, a)
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

// takeAway makes a database of two instances fail all writes, and those of PostgreSQL also all reads and connections, until back is called.
func takeAway(t *testing.T, store string) (back func()) {
	t.Helper()
	if dsn, ok := strings.CutPrefix(store, "store postgres "); ok {
		i := strings.LastIndexByte(dsn, '/') + 1
		server, name := dsn[:i]+"postgres", dsn[i:]
		postgrestest.Exec(t, server, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
		postgrestest.Exec(t, server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
		return func() { postgrestest.Exec(t, server, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true") }
	}
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(store, "store sqlite ")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	writing, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = writing.Rollback() }
}

// R166: the database is away while runs end, calls are answered and new ones come. What was accepted has its outcome afterwards, at each instance, and
// nothing is executed twice.
func TestR166DatabaseAway(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	inEachDatabase(t, func(t *testing.T, store string) {
		const open = 8
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/held"}, hostile.Skill{ID: "acme/soon"})
		gate := hostile.NewGate(t)
		p.On("acme/held", hostile.Invoke, gate.Then(hostile.Usual()))
		p.On("acme/soon", hostile.Invoke, hostile.Accept(40)) // some seconds
		instances := []*testbed.Process{
			testbed.StartProcess(t, testbed.Limits{}, keeping(p, store)), testbed.StartProcess(t, testbed.Limits{}, keeping(p, store)),
		}
		at := func(n int) *testbed.Client { return instances[n%2].With(testbed.Fresh()) }
		for n := range open {
			if a := keyed(at(n), "ann", "acme.soon", fmt.Sprint("open ", n), testbed.Param("wait_ms", 0)); a.Outcome() != "running" {
				t.Fatalf("%s", a)
			}
		}
		var group sync.WaitGroup
		for n := range 4 {
			group.Go(func() {
				if a := keyed(at(n), "ann", "acme.held", fmt.Sprint("held ", n), testbed.Timeout(patience)); a.Outcome() != "completed" {
					t.Errorf("in progress: %s", a)
				}
			})
		}
		testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 4 }, "the skill is invoked")
		back := takeAway(t, store)
		gate.Open()
		group.Wait() // from memory
		if a := at(0).Execute("acme.now", hostile.Object{"call": "without a key"}); a.Outcome() != "completed" {
			t.Errorf("without a key: %s", a)
		}
		invoked := p.Count("acme/now", hostile.Invoke)
		for n := range 2 {
			group.Go(func() {
				if a := keyed(at(n), "ann", "acme.now", "new", testbed.Timeout(patience)); a.Data.Executed != "no" {
					t.Errorf("a new key: %s", a)
				}
			})
		}
		group.Wait()
		if n := p.Count("acme/now", hostile.Invoke); n != invoked {
			t.Errorf("%d invocations without a claim", n-invoked)
		}
		back()
		for n := range open {
			for i := range instances {
				testbed.Eventually(t, patience, func() bool {
					return keyed(at(i), "ann", "acme.soon", fmt.Sprint("open ", n), testbed.Timeout(patience)).Outcome() == "completed"
				}, "a run that went on has its outcome")
			}
		}
		for n := range 4 {
			if a := keyed(at(n+1), "ann", "acme.held", fmt.Sprint("held ", n), testbed.Timeout(patience)); a.Outcome() != "completed" {
				t.Errorf("held %d, later: %s", n, a)
			}
		}
		testbed.Eventually(t, patience, func() bool { return keyed(at(0), "ann", "acme.now", "new").Outcome() == "completed" }, "the key of the refused call is free")
		if a := keyed(at(1), "ann", "acme.now", "new"); a.Outcome() != "completed" {
			t.Errorf("the same key: %s", a)
		}
		if n := p.Count("acme/now", hostile.Invoke); n != invoked+1 || p.Count("acme/held", hostile.Invoke) != 4 || p.Count("acme/soon", hostile.Invoke) != open {
			t.Errorf("%d, %d and %d invocations", n-invoked, p.Count("acme/held", hostile.Invoke), p.Count("acme/soon", hostile.Invoke))
		}
		for _, c := range instances {
			checkNoPanic(t, c.Log)
		}
	})
}
