package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/internal/testbed"
)

// lockFile is where the lock of the keys of run tokens is in a folder of Caddy's
// file storage.
func lockFile(folder string) string {
	return filepath.Join(folder, "locks", certmagic.StorageKeys.Safe("skill_bridge/run_token_keys.json")+".lock")
}

// R54: what is answered at the end of a grace period has a run token though the
// storage has had no key before, whichever configurations and instances the runs are
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

// R54: where no key can be had, since an instance that holds the lock is dead, what is
// answered at the end of a grace period is answered without a token.
func TestR54AnswersAtTheEndWithoutKey(t *testing.T) {
	t.Parallel()
	p := lasting(t)
	p.On("acme/soon", hostile.Invoke, hostile.Accept(1<<30))
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(lockFile(folder)), 0o700); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour).Format(time.RFC3339) // so that it does not become stale
	if err := os.WriteFile(lockFile(folder), []byte(`{"created":"`+later+`","updated":"`+later+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := testbed.StartProcess(t, testbed.Limits{}, withProvider(p), storage(folder), "grace_period 2s")
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
