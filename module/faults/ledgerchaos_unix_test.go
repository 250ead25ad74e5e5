//go:build unix

//nolint:thelper // the functions that inEachDatabase calls are tests
package faults_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R242: of three instances, one after the other is killed or paused at random moments, while callers repeat their calls at any of them until they have an
// outcome. No call is executed twice, and what a caller has learned is what every instance says afterwards.
func TestR242ThreeInstances(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	inEachDatabase(t, func(t *testing.T, store string) {
		const faults, callers, between = 8, 6, 20
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/soon"})
		p.On("acme/now", hostile.Invoke, func(x *hostile.Exchange) {
			<-time.After(rand.N(200 * time.Millisecond))
			hostile.Usual()(x)
		})
		p.On("acme/soon", hostile.Invoke, hostile.Accept(3))
		var mu sync.Mutex
		var instances [3]*testbed.Process
		start := func(i int) {
			c := testbed.StartProcess(t, testbed.Limits{}, keeping(p, store))
			mu.Lock()
			defer mu.Unlock()
			instances[i] = c
		}
		for i := range instances {
			start(i)
		}
		call := func(i, n int, options ...testbed.Option) testbed.Answer {
			mu.Lock()
			c := instances[i]
			mu.Unlock()
			return keyed(c.With(testbed.Fresh()), "ann", []string{"acme.now", "acme.soon"}[n%2], fmt.Sprint("order ", n), append(options, testbed.Timeout(patience))...)
		}
		said := map[int]string{} // what a call has said first: its run, or that it may have been executed
		learned := func(a testbed.Answer) string {
			if a.Data.Executed == "maybe" && a.Data.Next == "none" {
				return "maybe"
			}
			return a.Run().Status + a.Run().RunID
		}
		stopped := make(chan struct{})
		stop := sync.OnceFunc(func() { close(stopped) })
		defer stop()
		var group sync.WaitGroup
		for caller := range callers {
			group.Go(func() {
				for n := caller; ; n += callers {
					for {
						select {
						case <-stopped:
							return
						default:
						}
						ctx, hangUp := context.WithTimeout(t.Context(), 3*time.Second)
						a := call(rand.IntN(len(instances)), n, testbed.Context(ctx))
						hangUp()
						if what := learned(a); a.Outcome() == "completed" || what == "maybe" {
							mu.Lock()
							said[n] = what
							mu.Unlock()
							break
						}
					}
				}
			})
		}
		progress := func() {
			mu.Lock()
			before := len(said)
			mu.Unlock()
			testbed.Eventually(t, 2*patience, func() bool { mu.Lock(); defer mu.Unlock(); return len(said) >= before+between }, "calls have outcomes")
		}
		for n := range faults {
			progress()
			if i := n % len(instances); rand.IntN(2) == 0 {
				instances[i].Signal(os.Kill)
				<-instances[i].Exited()
				progress()
				start(i)
			} else {
				instances[i].Signal(syscall.SIGSTOP)
				<-time.After(rand.N(4 * time.Second)) // it may hold the lock of SQLite: then nobody makes progress
				instances[i].Signal(syscall.SIGCONT)
			}
		}
		progress()
		stop()
		group.Wait()
		for n, what := range maps.All(said) {
			for i := range instances {
				if a := call(i, n); learned(a) != what {
					t.Errorf("order %d was %s, instance %d says %s", n, what, i, a)
				}
			}
			if executed := p.Executions(fmt.Sprint("ann order ", n)); executed > 1 || executed == 0 && what != "maybe" {
				t.Errorf("order %d, %s: %d executions", n, what, executed)
			}
		}
		for _, c := range instances {
			checkNoPanic(t, c.Log)
		}
	})
}
