package polling_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

func TestBudgetDelays(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	budgets := polling.NewBudgets(10, 3, func() time.Time { return now })
	hold := func(host string, want time.Duration) {
		t.Helper()
		if got := budgets.Of(host).Hold(time.Hour); (got - want).Abs() > time.Microsecond {
			t.Errorf("%s is held for %v, want %v", host, got, want)
		}
	}
	for _, want := range []time.Duration{0, 0, 0, 100 * ms, 200 * ms, 300 * ms} {
		hold("acme", want)
	}
	hold("umbrella", 0)
	now = now.Add(400 * ms) // three that had to wait, and a new one
	hold("acme", 0)
	hold("acme", 100*ms)
	now = now.Add(time.Hour)
	for _, want := range []time.Duration{0, 0, 0, 100 * ms} {
		hold("acme", want)
	}
}

// A poll that can't wait is made, and does not make others wait longer; but of those
// there are no more than of the others.
func TestBudgetAtTheLastMoment(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	budget := polling.NewBudgets(10, 1, func() time.Time { return now }).Of("acme")
	budget.Hold(0)
	for range 5 {
		if d := budget.Hold(30 * ms); d != 30*ms {
			t.Fatalf("held for %v, want 30ms", d)
		}
		for range 20 {
			if d := budget.Hold(-second); d != polling.Never {
				t.Fatalf("held for %v, want for ever", d)
			}
		}
		now = now.Add(100 * ms)
		if d := budget.Hold(second); d != 0 {
			t.Fatalf("held for %v, want 0", d)
		}
		if d := budget.Hold(-second); d != 0 {
			t.Fatalf("held for %v, want 0", d)
		}
		now = now.Add(100 * ms)
		budget.Hold(second)
	}
	if d := budget.Hold(second); d != 100*ms {
		t.Errorf("held for %v, want 100ms", d)
	}
}

func TestNoBudget(t *testing.T) {
	t.Parallel()
	var budgets *polling.Budgets
	for range 100 {
		if d := budgets.Of("acme").Hold(second); d != 0 {
			t.Fatalf("held for %v", d)
		}
	}
}

func TestBudgetsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	budgets := polling.NewBudgets(10, 1, func() time.Time { return now })
	busy := budgets.Of("busy")
	for n := range 10_000 {
		now = now.Add(ms)
		busy.Hold(time.Hour)
		budgets.Of(fmt.Sprint("host-", n)).Hold(second)
	}
	if n := budgets.Budgets(); n > 2000 {
		t.Errorf("%d budgets are kept", n)
	}
	if budgets.Of("busy") != busy {
		t.Error("one that is in use is not kept")
	}
}

// A run that was left alone until its host's budget was dropped counts together with
// those that came later.
func TestDroppedBudgetsAreNotSpent(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	budgets := polling.NewBudgets(10, 3, func() time.Time { return now })
	early := budgets.Of("acme")
	for n := range 2000 {
		budgets.Of(fmt.Sprint("host-", n)).Hold(0)
		now = now.Add(second)
	}
	later := budgets.Of("acme")
	if later == early {
		t.Fatal("no budget was dropped: this test sees nothing")
	}
	for i, want := range []time.Duration{0, 0, 0, 100 * ms, 200 * ms, 300 * ms} {
		if got := []*polling.Budget{early, later}[i%2].Hold(second); (got - want).Abs() > time.Microsecond {
			t.Errorf("poll %d is held for %v, want %v", i+1, got, want)
		}
	}
	if d := early.Hold(0); d != 0 {
		t.Errorf("the first poll that can't wait is held for %v", d)
	}
	for range 2 {
		later.Hold(0)
	}
	if d := early.Hold(0); d != polling.Never {
		t.Errorf("one poll too many that can't wait is held for %v", d)
	}
}

// Many at once never get more than there are.
func TestBudgetIsSafe(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	budgets := polling.NewBudgets(10, 5, func() time.Time { return now })
	var made atomic.Int64
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 100 {
				if budgets.Of("acme").Hold(0) != polling.Never {
					made.Add(1)
				}
			}
		})
	}
	running.Wait()
	if n := made.Load(); n != 10 {
		t.Errorf("%d polls at one moment, want 5 and 5 that can't wait", n)
	}
}
