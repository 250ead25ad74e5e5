package faults_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R54: what is answered at the end of a grace period has a run token though the
// database has had no key before, whichever configurations and instances the runs are
// of.
func TestR54AnswersAtTheEndHaveTokens(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]struct{ generations, instances int }{
		"one": {1, 1}, "two generations": {2, 1}, "three generations": {3, 1}, "two instances": {1, 2}, "two of both": {2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := lasting(t)
			p.On("acme/soon", hostile.Invoke, hostile.Accept(1<<30))
			folder := t.TempDir()
			config := func(n int) string { return withProvider(p, fmt.Sprintf("timeout %dm", n)) }
			var instances []*testbed.Process
			for range layout.instances {
				instances = append(instances, testbed.StartProcess(t, testbed.Limits{}, config(1), storage(folder), "grace_period 2s"))
			}
			var answered []<-chan testbed.Answer
			for n := 1; n <= layout.generations; n++ {
				for _, instance := range instances {
					if n > 1 {
						if err := instance.Reload(config(n), storage(folder), "grace_period 2s"); err != nil {
							t.Fatal(err)
						}
					}
					answered = append(answered, calling(unpooled(instance.Client), "acme.soon", nil))
				}
				testbed.Eventually(t, patience, func() bool { return p.Runs() == len(answered) }, "the runs are accepted")
			}
			polls := p.Count("acme/soon", hostile.Status)
			testbed.Eventually(t, patience, func() bool { return p.Count("acme/soon", hostile.Status) > polls+len(answered) }, "the runs are followed")
			for _, instance := range instances {
				instance.Signal(syscall.SIGTERM)
			}
			for _, answer := range answered {
				a := receive(t, answer)
				if a.Outcome() != "INVOCATION_TIMEOUT" || a.Data.Next != "follow_run" || a.Data.ExecutionID == "" || runToken(a) == "" {
					t.Errorf("when the bridge was stopped: %s", a)
				}
			}
			checkDuplicates(t, p)
		})
	}
}

// R54: where no key can be had, since another program has locked the database, what is
// answered at the end of a grace period is answered without a token.
func TestR54AnswersAtTheEndWithoutKey(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	p := lasting(t)
	p.On("acme/soon", hostile.Invoke, hostile.Accept(1<<30))
	folder := t.TempDir()
	c := testbed.StartProcess(t, testbed.Limits{}, withProvider(p), storage(folder), "grace_period 2s")
	testbed.Eventually(t, patience, func() bool { return len(c.Log.Lines("the database is open")) > 0 }, "the database is open")
	db, err := sql.Open("sqlite", filepath.Join(folder, "caddy", "skill_bridge.db")+"?_txlock=immediate&_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lock, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback() }()
	answered := calling(unpooled(c.Client), "acme.soon", nil)
	left := calling(unpooled(c.Client).With(wait(patience.Milliseconds())), "acme.soon", nil) // waits for a key before all else
	testbed.Eventually(t, patience, func() bool { return p.Count("acme/soon", hostile.Status) > 1 }, "the run is followed")
	c.Signal(syscall.SIGTERM)
	if a := receive(t, answered); a.Outcome() != "INVOCATION_TIMEOUT" || a.Data.Next != "follow_run" || a.Data.ExecutionID == "" || runToken(a) != "" {
		t.Errorf("when the bridge was stopped: %s", a)
	}
	if a := receive(t, left); a.Code != -32603 || a.Data.Executed != "no" || p.Posts(a.Call) != 0 {
		t.Errorf("a call that would leave its run: %s", a)
	}
	if c.Wait(patience); strings.Contains(c.Log.Text(), "panic") {
		t.Error(c.Log.Text())
	}
}
