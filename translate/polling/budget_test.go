package polling_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// queuing waits for turns in the background and records their order and times.
type queuing struct {
	budget *polling.Budget
	start  time.Time
	wait   sync.WaitGroup
	mu     sync.Mutex
	turns  []string
}

func (q *queuing) add(name string, likely, most time.Duration) {
	q.wait.Go(func() {
		ok := q.budget.Wait(context.Background(), q.start.Add(likely), most, time.Time{})
		q.mu.Lock()
		defer q.mu.Unlock()
		turn := fmt.Sprint(name, " ", time.Since(q.start).Round(ms))
		if !ok {
			turn += " never"
		}
		q.turns = append(q.turns, turn)
	})
	synctest.Wait()
}

// newQueuing returns a queuing for the budget of a host with ten turns a second. The first turn
// was used.
func newQueuing() *queuing {
	q := &queuing{budget: polling.NewBudgets(10, 1).Of("acme"), start: time.Now()}
	q.add("first", 0, polling.Never)
	return q
}

// mustHave waits for all and checks which turns they had.
func (q *queuing) mustHave(t *testing.T, want ...string) {
	t.Helper()
	q.wait.Wait()
	want = append(want, "first 0s")
	slices.Sort(want)
	slices.Sort(q.turns)
	if !slices.Equal(q.turns, want) {
		t.Errorf("the turns are %q, want %q", q.turns, want)
	}
}

func TestBudgetDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budgets := polling.NewBudgets(10, 3)
		hold := func(host string, want time.Duration) {
			t.Helper()
			start := time.Now()
			if ok := budgets.Of(host).Wait(t.Context(), start, polling.Never, time.Time{}); !ok || (time.Since(start)-want).Abs() > 10*time.Microsecond {
				t.Errorf("%s is held for %v, want %v", host, time.Since(start), want)
			}
		}
		for _, want := range []time.Duration{0, 0, 0, 100 * ms, 100 * ms, 100 * ms} {
			hold("acme", want)
		}
		hold("umbrella", 0)
		time.Sleep(100 * ms)
		hold("acme", 0)
		hold("acme", 100*ms)
		time.Sleep(time.Hour)
		for _, want := range []time.Duration{0, 0, 0, 100 * ms} {
			hold("acme", want)
		}
	})
}

// The poll with the earliest likely end has the next turn. Of equal ones, it is the first to arrive.
func TestBudgetOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueuing()
		q.add("late", 5*second, polling.Never)
		q.add("soon", second, polling.Never)
		q.add("overdue", -second, polling.Never)
		q.add("soon, too", second, polling.Never)
		time.Sleep(150 * ms)
		q.add("now", 150*ms, polling.Never)
		q.mustHave(t, "overdue 100ms", "now 200ms", "soon 300ms", "soon, too 400ms", "late 500ms")
	})
}

// Polls that arrive after the likely end of a run queue behind its poll.
func TestBudgetDoesNotStarve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueuing()
		q.add("late", 2*second, polling.Never)
		for n := range 40 { // as many as there are turns, each likelier than the late one until its time comes
			q.add(fmt.Sprint("other-", n), time.Since(q.start), polling.Never)
			time.Sleep(100 * ms)
		}
		q.wait.Wait()
		if i := slices.IndexFunc(q.turns, func(s string) bool { return len(s) > 4 && s[:4] == "late" }); i != 21 {
			t.Errorf("its turn is the %d.: %q", i+1, q.turns)
		}
	})
}

// A poll right before its deadline is made without a turn and does not delay others. The rate
// of such polls is bounded, too.
func TestBudgetAtTheLastMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueuing()
		q.add("patient", 0, polling.Never)
		q.add("hasty", 0, 30*ms)
		q.add("too many", 0, 30*ms)
		q.add("at once", 0, -second)
		time.Sleep(100 * ms)
		q.add("again", 0, -second)
		q.mustHave(t, "at once 0s", "hasty 30ms never", "too many 30ms never", "patient 100ms", "again 100ms")
	})
}

// A waiter whose context ends uses no turn, and the others get theirs.
func TestBudgetWaitersLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueuing()
		ctx, leave := context.WithCancel(t.Context())
		for range 5 { // among them the head of the queue
			go func() {
				if q.budget.Wait(ctx, q.start, polling.Never, time.Time{}) {
					t.Error("a waiter that left has a turn")
				}
			}()
		}
		go func() {
			if q.budget.Wait(t.Context(), q.start, polling.Never, q.start.Add(20*ms)) || time.Since(q.start) != 20*ms {
				t.Error("a waiter with a time limit waits for another time")
			}
		}()
		synctest.Wait()
		q.add("stays", 0, polling.Never)
		time.Sleep(50 * ms)
		leave()
		q.mustHave(t, "stays 100ms")
	})
}

// The rate of a host is halved once for all answers of a second that ask for it or are slow, down to a 64th, and recovers. Other hosts keep theirs.
func TestBudgetFollowsTheProvider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budgets := polling.NewBudgets(640, 640)
		budget := budgets.Of("acme")
		turns := func(host string) (n int) {
			for end := time.Now().Add(second); budgets.Of(host).Wait(t.Context(), time.Now(), polling.Never, end); n++ {
			}
			return n
		}
		check := func(what string, want int) {
			t.Helper()
			if n := turns("acme"); n < want-1 || n > want+1 {
				t.Errorf("%s: %d polls a second, want %d", what, n, want)
			}
		}
		run := polling.Start(polling.Backoff{Initial: second}, budget, time.Now(), time.Time{})
		answer := func(after time.Duration) {
			run.Ask()
			time.Sleep(after)
			run.Running()
		}
		turns("acme") // the burst
		check("before", 640)
		answer(second)
		turns("acme")
		check("quick", 640)
		answer(3 * second)
		turns("acme")
		check("slow", 320)
		for range 5 {
			run.Throttled()
		}
		turns("acme")
		check("throttled", 160)
		for range 20 {
			run.Throttled()
			time.Sleep(second)
		}
		turns("acme")
		check("often", 10)
		if n := turns("umbrella"); n != 2*640 {
			t.Errorf("another host gets %d polls", n)
		}
		time.Sleep(10 * second)
		turns("acme")
		check("recovering", 20)
		time.Sleep(time.Minute)
		turns("acme")
		check("recovered", 640)
	})
}

func TestNoBudget(t *testing.T) {
	t.Parallel()
	var budgets *polling.Budgets
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 100 {
		if !budgets.Of("acme").Wait(t.Context(), time.Now(), second, time.Time{}) || budgets.Of("acme").Wait(gone, time.Now(), second, time.Time{}) {
			t.Fatal("held")
		}
	}
}

func TestBudgetsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budgets := polling.NewBudgets(10, 1)
		busy := budgets.Of("busy")
		wait := func(b *polling.Budget) { b.Wait(t.Context(), time.Now(), 0, time.Time{}) }
		for n := range 10_000 {
			time.Sleep(ms)
			wait(busy)
			wait(budgets.Of(fmt.Sprint("host-", n)))
		}
		if n := budgets.Budgets(); n > 2000 {
			t.Errorf("%d budgets are kept", n)
		}
		if budgets.Of("busy") != busy {
			t.Error("one that is in use is not kept")
		}
	})
}

// A host that was slow and is never polled again is not kept for ever.
func TestSlowedBudgetsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budgets := polling.NewBudgets(10, 1)
		for n := range 20_000 {
			time.Sleep(100 * ms)
			budgets.Of(fmt.Sprint("host-", n)).Slow()
		}
		if n := budgets.Budgets(); n > 4000 {
			t.Errorf("%d budgets are kept", n)
		}
	})
}

// A run whose budget was dropped and replaced uses the new one.
func TestDroppedBudgetsAreNotSpent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budgets := polling.NewBudgets(10, 3)
		early := budgets.Of("acme")
		for n := range 2000 {
			budgets.Of(fmt.Sprint("host-", n)).Wait(t.Context(), time.Now(), 0, time.Time{})
			time.Sleep(second)
		}
		later := budgets.Of("acme")
		if later == early {
			t.Fatal("no budget was dropped: this test sees nothing")
		}
		for i, want := range []time.Duration{0, 0, 0, 100 * ms, 100 * ms, 100 * ms} {
			start := time.Now()
			if []*polling.Budget{early, later}[i%2].Wait(t.Context(), start, second, time.Time{}); (time.Since(start) - want).Abs() > 10*time.Microsecond {
				t.Errorf("poll %d is held for %v, want %v", i+1, time.Since(start), want)
			}
		}
		for i, want := range []bool{true, true, true, false} { // the turns that come at once
			if got := []*polling.Budget{early, later}[i%2].Wait(t.Context(), time.Now(), -second, time.Time{}); got != want {
				t.Errorf("poll %d that can't wait: %v", i+1, got)
			}
		}
	})
}

// What a run earns that holds a dropped budget is for the one that took its place.
func TestDroppedBudgetsEarn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budgets := polling.NewEarnedBudgets(1000, 10)
		early, polls := budgets.Of("acme"), 0
		for n := range 2000 {
			budgets.Of(fmt.Sprint("host-", n))
		}
		if budgets.Of("acme") == early {
			t.Fatal("no budget was dropped: this test sees nothing")
		}
		for end := time.Now().Add(10 * second); time.Now().Before(end); polls++ {
			early.Wait(t.Context(), time.Now(), second, time.Time{})
			early.Found()
		}
		if polls < 10_000 {
			t.Errorf("%d polls in 10 s, of which each has found an end", polls)
		}
	})
}

// Concurrent polls never exceed the rate.
func TestBudgetIsSafe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budgets := polling.NewBudgets(10, 5)
		var mu sync.Mutex
		made := 0
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				for range 100 {
					if budgets.Of("acme").Wait(t.Context(), time.Now(), 0, time.Time{}) {
						mu.Lock()
						made++
						mu.Unlock()
					}
				}
			})
		}
		running.Wait()
		if made != 10 {
			t.Errorf("%d polls at one moment, want 5 and 5 that can't wait", made)
		}
	})
}

// Polls that are made at the same time are counted, too, whether they need the lock or not.
func TestBudgetIsSharedByConcurrentPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const burst, pollers, each = 1000, 64, 100
		budget := polling.NewBudgets(100, burst).Of("acme")
		var made atomic.Int64
		poll := func() {
			var wait sync.WaitGroup
			for range pollers {
				wait.Go(func() {
					for range each {
						if budget.Wait(t.Context(), time.Now(), polling.Never, time.Now()) {
							made.Add(1)
						}
					}
				})
			}
			wait.Wait()
		}
		for _, want := range []int64{burst, burst + 200} {
			if poll(); made.Load() != want {
				t.Errorf("%d polls are made, want %d", made.Load(), want)
			}
			time.Sleep(2 * second)
		}
		budget.Slow() // the budget needs the lock, and has half of the tokens of the last two seconds
		if poll(); made.Load() != burst+300 {
			t.Errorf("%d polls are made, want %d", made.Load(), burst+300)
		}
	})
}

// Polls that find no end have a rate of their own. One that finds an end earns others, which need not wait any longer.
func TestBudgetEarned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := polling.NewEarnedBudgets(1000, 2).Of("acme")
		run := polling.Start(polling.Backoff{Initial: second}, budget, time.Now(), time.Time{})
		var made atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		for range 100 {
			go func() {
				if budget.Wait(ctx, time.Now(), polling.Never, time.Time{}) {
					made.Add(1)
				}
			}()
		}
		check := func(what string, want int64) {
			t.Helper()
			synctest.Wait()
			if n := made.Load(); n != want {
				t.Errorf("%s: %d polls, want %d", what, n, want)
			}
		}
		check("at once", 2)
		time.Sleep(2100 * ms)
		check("two seconds later", 6)
		run.Found()
		check("an end was found", 8) // no more than a second's worth at once
		run.Throttled()
		time.Sleep(4 * second)
		check("throttled", 12)
		stop()
	})
}
