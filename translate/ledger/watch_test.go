package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// follower is a [ledger.Follower] of runs that end after a time.
type follower struct {
	polls  atomic.Int64
	ends   time.Duration
	failed atomic.Bool
	hangs  string        // the source that does not answer
	output int           // the size of outputs
	takes  time.Duration // a poll

	suggest func(age time.Duration) time.Duration // the delay that polls suggest; nil: a second
	asks    time.Duration                         // the provider, for a delay
}

func (f *follower) Realm() string                 { return "realm" }
func (*follower) Granted(context.Context, string) {}

func (f *follower) View(string) ledger.View { return nil }

func (f *follower) Room(string) exchange.AnswerBudget { return nil }

func (f *follower) Poll(ctx context.Context, e *ledger.Entry, _ bool) run.Run {
	f.polls.Add(1)
	time.Sleep(f.takes)
	switch {
	case e.Ref.Source == f.hangs:
		<-ctx.Done()
		return run.Run{Ref: e.Ref, State: run.Working, Failure: &run.Failure{Kind: run.Unreachable}}
	case f.failed.Load():
		return run.Run{Ref: e.Ref, State: run.Working, Failure: &run.Failure{Kind: run.Unreachable}}
	case time.Since(e.Created) >= f.ends:
		return run.Run{Ref: e.Ref, State: run.Completed, Output: jsontext.Value(`"` + strings.Repeat("x", f.output) + `"`)}
	}
	o := run.Run{Ref: e.Ref, State: run.Working, RetryAfter: max(time.Second, f.asks)}
	if f.suggest != nil {
		o.RetryAfter = f.suggest(time.Since(e.Created))
	}
	if f.asks > 0 {
		o.Ref.NotBefore = time.Now().Add(f.asks)
	}
	return o
}

// open starts a ledger of an instance of a database.
func open(t *testing.T, store ledger.Store, f *follower, keep time.Duration) *ledger.Ledger {
	t.Helper()
	l := ledger.New(ledger.Config{
		Store: store, Settings: ledger.Settings{Keep: keep, Bounds: ledger.Bounds{Runs: 1e6, RunsOfOne: 1e6}}, Trouble: func(err error) { t.Error(err) },
		Panicked: func(_ context.Context, value any, stack []byte) { t.Errorf("%v\n%s", value, stack) },
	})
	l.Begin(f)
	t.Cleanup(func() { l.Close(t.Context()) })
	return l
}

func accepted(n int) *ledger.Entry {
	return &ledger.Entry{
		Owner: owner, Front: "test", Skill: "acme.sum", Asked: "acme.sum", State: ledger.Working, Notes: []byte("0"),
		Ref: run.Ref{Source: "acme", SkillID: "acme/sum", Version: "1.0.0", ExecutionID: fmt.Sprintf("x-%d", n), Accepted: time.Now()},
	}
}

func note(l *ledger.Ledger, e *ledger.Entry, text string) error {
	_, err := l.Change(context.Background(), e.Identity(), func(next *ledger.Entry) error {
		next.Notes = []byte(text)
		return nil
	})
	return err
}

// Who watches a run here sees each version at once, whichever instance makes it, and subscribers get them in order, also if several callers change it.
func TestWatch(t *testing.T) {
	for _, announcements := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			db := ledgertest.New()
			f := &follower{ends: time.Hour}
			store := db.Instance(announcements)
			var changes atomic.Int64
			store.Fail(nil, func(statement string) error { // the answers to later changes come earlier
				if n := changes.Add(1); statement == "change" && n%2 == 0 {
					time.Sleep(20 * time.Millisecond)
				}
				return nil
			})
			a, b := open(t, store, f, 0), open(t, db.Instance(announcements), f, 0)
			var mu sync.Mutex
			var told []int64
			a.Subscribe(func(e *ledger.Entry) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, e.Version)
			})
			e := accepted(1)
			if _, failure := a.Add(t.Context(), e, 0); failure != nil {
				t.Fatal(failure)
			}
			seen := map[*ledger.Ledger][]string{}
			var group sync.WaitGroup
			for _, l := range []*ledger.Ledger{a, b} {
				group.Go(func() {
					var notes []string
					for next := range l.Watch(t.Context(), e) {
						late := time.Since(next.Changed)
						if most := map[bool]time.Duration{true: 200 * time.Millisecond, false: time.Second}[announcements || l == a && next.State != ledger.Canceled]; late > most {
							t.Errorf("%s after %s", next.Notes, late)
						}
						notes = append(notes, string(next.Notes))
					}
					mu.Lock()
					defer mu.Unlock()
					seen[l] = notes
				})
			}
			time.Sleep(7 * time.Second)
			for n := range 5 {
				group.Go(func() {
					if err := note(a, e, fmt.Sprint("note ", n)); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(7 * time.Second)
			if canceled, err := b.Cancel(t.Context(), e.Identity()); err != nil || canceled.State != ledger.Canceled {
				t.Errorf("%+v, error %v", canceled, err)
			}
			group.Wait()
			if err := note(a, e, "late"); !errors.Is(err, ledger.ErrEnded) {
				t.Error(err)
			}
			if len(seen[a]) != 6 || len(seen[b]) == 0 || seen[a][5] != seen[a][4] || seen[b][len(seen[b])-1] != seen[a][5] {
				t.Errorf("%q and %q", seen[a], seen[b])
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, []int64{1, 2, 3, 4, 5, 6, 7}) {
				t.Errorf("told: %v", told)
			}
			polls := f.polls.Load()
			time.Sleep(time.Hour)
			if f.polls.Load() > polls {
				t.Error("a canceled run is polled")
			}
		})
	}
}

// A run that nobody waits for is polled some 300 times on its first day, and less often then, also if its provider is down or what was
// learned of its skill suggests long pauses, and ends as lost when the time for which it is kept is over.
func TestPollsOfALongRun(t *testing.T) {
	for name, c := range map[string]struct {
		down    bool
		ends    time.Duration
		want    ledger.State
		late    time.Duration
		days    int // for which runs are kept
		polls   int64
		suggest func(age time.Duration) time.Duration // the delay that polls suggest
		asks    time.Duration                         // the provider, for a delay
	}{
		"an hour":     {ends: time.Hour, want: ledger.Completed, late: 3 * time.Minute, days: 1, polls: 320},
		"a day":       {ends: 23 * time.Hour, want: ledger.Completed, late: 11 * time.Minute, days: 1, polls: 320},
		"too long":    {ends: 100 * time.Hour, want: ledger.Lost, days: 1, polls: 320},
		"unreachable": {down: true, want: ledger.Lost, days: 1, polls: 320},
		"three days":  {ends: 70 * time.Hour, want: ledger.Completed, late: 35 * time.Minute, days: 3, polls: 480},
		"learned":     {ends: 70 * time.Hour, want: ledger.Completed, late: 35 * time.Minute, days: 3, polls: 480, suggest: func(age time.Duration) time.Duration { return age / 4 }},
		"asked for":   {ends: 71*time.Hour + 50*time.Minute, want: ledger.Completed, late: 10 * time.Minute, days: 3, polls: 15, asks: 6 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			if c.days > 1 || name == "too long" {
				longtest.Need(t, longtest.Long)
			}
			synctest.Test(t, func(t *testing.T) {
				db := ledgertest.New()
				f := &follower{ends: c.ends, suggest: c.suggest, asks: c.asks}
				f.failed.Store(c.down)
				keep := time.Duration(c.days) * 24 * time.Hour
				l := open(t, db.Instance(true), f, keep)
				e := accepted(1)
				l.Add(t.Context(), e, 0)
				time.Sleep(keep + 2*time.Minute)
				stored := db.Entries()[0]
				o, ok := l.Outcome(t.Context(), stored, nil)
				if n := f.polls.Load(); stored.State != c.want || !ok || n > c.polls || (c.want == ledger.Lost) != (o.Failure != nil && o.Failure.Lost) {
					t.Errorf("%s after %d polls: %+v", stored.State.Run(), n, o)
				}
				if late := stored.Changed.Sub(stored.Created) - c.ends; c.late > 0 && late > c.late {
					t.Errorf("%s late", late)
				}
				time.Sleep(keep + 2*time.Minute)
				if len(db.Entries()) != 0 {
					t.Error("it is kept for ever")
				}
			})
		})
	}
}

// The pauses between the polls of a run grow with its age, so that their number is bounded for 90 days, and its end is noticed within a hundredth of its time.
func TestGaps(t *testing.T) {
	polls := 0
	for age := time.Second; age < 90*24*time.Hour; polls++ {
		gap := ledger.GapAt(age)
		if gap > age/25 || age > 24*time.Hour && gap > age/100 || age > time.Hour && gap < 2*time.Minute {
			t.Fatalf("%s after %s", gap, age)
		}
		age += max(gap, 100*time.Millisecond)
	}
	if polls < 500 || polls > 1020 {
		t.Errorf("%d polls", polls)
	}
}

// A provider that does not answer takes only its share of the polls.
func TestProviderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ledgertest.New()
		f := &follower{ends: 10 * time.Second, hangs: "slow"}
		l := open(t, db.Instance(true), f, 0)
		for n := range 200 {
			e := accepted(n)
			e.Ref.Source = "slow"
			l.Add(t.Context(), e, 0)
		}
		e := accepted(0)
		l.Add(t.Context(), e, 0)
		time.Sleep(20 * time.Second)
		if now, err := l.Get(t.Context(), e.Identity()); err != nil || now.State != ledger.Completed {
			t.Errorf("%+v, error %v", now, err)
		}
	})
}

// An owner of many runs takes only a share of the polls of a source.
func TestOwnerOfManyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ledgertest.New()
		f := &follower{ends: 20 * time.Second, takes: time.Second}
		l := open(t, db.Instance(true), f, 0)
		for n := range 3000 {
			l.Add(t.Context(), accepted(n), 0)
		}
		e := accepted(0)
		e.Owner = bob
		l.Add(t.Context(), e, 0)
		time.Sleep(40 * time.Second)
		if now, err := l.Get(t.Context(), e.Identity()); err != nil || now.State != ledger.Completed {
			t.Errorf("%+v, error %v", now, err)
		}
	})
}

// Runs that nobody waits for take no goroutine, no statement of the database beside their adoption, and little memory: 100,000 take 140 MB at most, and so a
// process with them less than 300.
func TestManyOpenRuns(t *testing.T) {
	runs := 5000
	if longtest.Runs(longtest.Long) {
		runs = 20_000
	}
	synctest.Test(t, func(t *testing.T) {
		const adoptedAtOnce = 50
		db := ledgertest.New()
		f := &follower{ends: 100 * time.Hour}
		first := db.Instance(true)
		filling := open(t, first, f, 0)
		for n := range runs {
			e := accepted(n)
			e.Ref.Accepted = time.Now().Add(-24 * time.Hour)
			filling.Add(t.Context(), e, 0)
		}
		filling.Close(t.Context())
		next := db.Instance(true)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		goroutines := runtime.NumGoroutine()
		l := open(t, next, f, 0)
		time.Sleep(21 * time.Minute)
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 1400*int64(runs) {
			t.Errorf("%d bytes for each", used/int64(runs))
		}
		if n := runtime.NumGoroutine() - goroutines; n > 100 {
			t.Errorf("%d goroutines", n)
		}
		if n, loops := next.Sent(""), next.Sent("adopt")+next.Sent("renew")+next.Sent("newer"); n > 0 || loops > runs/adoptedAtOnce+1000 {
			t.Errorf("%d statements, and %d of the loops", n, loops)
		}
		if polls := f.polls.Load(); polls < int64(runs) || polls > 4*int64(runs) {
			t.Errorf("%d polls", polls)
		}
		runtime.KeepAlive(l)
	})
}
