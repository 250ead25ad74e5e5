package polling_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

func skill(provider string, n int) polling.Key {
	return polling.Key{Provider: provider, Skill: fmt.Sprint("skill-", n), Version: "1.0.0"}
}

func learn(l *polling.Learner, d time.Duration, times int) {
	for range times {
		l.Done(seen(d))
	}
}

func TestStoreTellsSkillsApart(t *testing.T) {
	t.Parallel()
	store := newStore(t, 0, newRandom(1))
	key := polling.Key{Provider: "a", Skill: "b", Version: "c"}
	first := store.Learner(key)
	learn(first, second, 3)
	if again := store.Learner(key); again != first || again.History().Len() != 3 {
		t.Error("a skill is not known again")
	}
	for _, other := range []polling.Key{{"x", "b", "c"}, {"a", "x", "c"}, {"a", "b", "x"}, {"ab", "", "c"}} {
		if store.Learner(other).History().Len() != 0 {
			t.Errorf("%v is taken for %v", other, key)
		}
	}
}

func TestStoreIsBounded(t *testing.T) {
	t.Parallel()
	store := polling.NewStore(polling.Config{Skills: 10})
	for n := range 3 {
		learn(store.Learner(skill("small", n)), second, 1)
	}
	for n := range 1000 {
		learn(store.Learner(skill("large", n)), second, 1)
		store.Learner(skill("large", 0)) // is in use
	}
	if n := store.Skills(); n != 10 {
		t.Errorf("%d skills, want 10", n)
	}
	known := func(key polling.Key) bool { return store.Learner(key).History().Len() > 0 }
	for n := range 3 {
		if !known(skill("small", n)) {
			t.Errorf("one provider's many skills crowd out another's %d", n)
		}
	}
	if !known(skill("large", 0)) || !known(skill("large", 999)) || known(skill("large", 500)) {
		t.Error("not the least recently used ones are forgotten")
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	before := newStore(t, 0, newRandom(1))
	for n := range 20 {
		learn(before.Learner(skill("acme", n)), time.Duration(n+1)*second, n)
	}
	learn(before.Learner(polling.Key{}), second, 1)
	data := before.Save()

	after := newStore(t, 0, newRandom(1))
	known := after.Learner(skill("acme", 7))
	learn(known, time.Minute, 1)
	if err := after.Load(data); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		if n == 7 {
			continue
		}
		a, b := before.Learner(skill("acme", n)), after.Learner(skill("acme", n))
		if !slices.Equal(a.History().Times(), b.History().Times()) || !slices.Equal(a.Schedule().Times(), b.Schedule().Times()) {
			t.Errorf("skill %d is not what it was", n)
		}
	}
	if times := known.History().Times(); !slices.Equal(times, []float32{60}) {
		t.Errorf("what was known is replaced: %v", times)
	}
	if after.Learner(polling.Key{}).History().Len() != 1 {
		t.Error("a skill without a name is not stored")
	}

	small := polling.NewStore(polling.Config{Skills: 5})
	if err := small.Load(data); err != nil || small.Skills() != 5 {
		t.Errorf("a smaller store has %d skills, error %v", small.Skills(), err)
	}
}

func TestDamagedSnapshotIsRefused(t *testing.T) {
	t.Parallel()
	store := newStore(t, 0, newRandom(1))
	learn(store.Learner(skill("acme", 1)), second, 3)
	learn(store.Learner(skill("umbrella", 1)), second, 2)
	good := store.Save()
	refused := func(about string, data []byte) {
		t.Helper()
		fresh := polling.NewStore(polling.Config{})
		if fresh.Load(data) == nil {
			t.Errorf("%s is accepted", about)
		}
		if n := fresh.Skills(); n != 0 {
			t.Errorf("%s: %d skills are taken over", about, n)
		}
	}
	for i := range good {
		refused("less", good[:i])
	}
	times := func(times string) []byte {
		return []byte(`[{"Provider":"p","Skill":"s","Version":"1","Times":` + times + `}]`)
	}
	if err := polling.NewStore(polling.Config{}).Load(times("[1,2]")); err != nil {
		t.Errorf("a good one is refused: %v", err)
	}
	refused("another format", []byte("b1"))
	refused("another kind", []byte(`[{"Name":"p"}]`))
	refused("no number", times(`["NaN"]`))
	refused("an infinite time", times("[1e999]"))
	refused("a negative time", times("[-1]"))
	refused("a huge time", times("[1e9]"))
	refused("too many times", times("[0"+strings.Repeat(",1", 128)+"]"))
	refused("a rest", append(times("[1]"), '1'))
	if err := polling.NewStore(polling.Config{}).Load(polling.NewStore(polling.Config{}).Save()); err != nil {
		t.Errorf("nothing: %v", err)
	}
}

// A snapshot has the execution times in their order, for any number of them.
func TestSnapshotOfManyTimes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5, 127, 128, 129, 200} {
		before, after := newStore(t, 0, newRandom(1)), newStore(t, 0, newRandom(1))
		r := newRandom(n)
		for range n {
			before.Learner(skill("acme", 1)).Done(seen(duration(nine[4].draw(r))))
		}
		data := before.Save()
		if len(data) > 1600 {
			t.Errorf("%d times: %d bytes", n, len(data))
		}
		if err := after.Load(data); err != nil {
			t.Fatalf("%d times: %v", n, err)
		}
		a, b := before.Learner(skill("acme", 1)).History(), after.Learner(skill("acme", 1)).History()
		if !slices.Equal(a.Times(), b.Times()) {
			t.Errorf("%d times: %v became %v", n, a.Times(), b.Times())
		}
		if !slices.Equal(polling.NewSchedule(a, 0).Times(), polling.NewSchedule(b, 0).Times()) {
			t.Errorf("%d times: another schedule", n)
		}
		for i := range 200 {
			b.Add(seen(time.Duration(i) * ms))
		}
		if b.Len() > 128 {
			t.Errorf("%d times after further ones", b.Len())
		}
	}
}

func TestCompletionsAreCounted(t *testing.T) {
	t.Parallel()
	store := newStore(t, 0, newRandom(1))
	learn(store.Learner(skill("acme", 1)), second, 3)
	learn(store.Learner(skill("acme", 2)), second, 4)
	if n := store.Completions(); n != 7 {
		t.Errorf("%d, want 7", n)
	}
}

// Only one function at a time makes schedules. It returns when none is due.
func TestRunIsCalledForOneAtATime(t *testing.T) {
	t.Parallel()
	var running, most, calls atomic.Int64
	var background sync.WaitGroup
	store := polling.NewStore(polling.Config{Run: func(f func()) {
		calls.Add(1)
		background.Go(func() {
			most.Store(max(most.Load(), running.Add(1)))
			f()
			running.Add(-1)
		})
	}})
	var callers sync.WaitGroup
	for n := range 8 {
		callers.Go(func() {
			r := newRandom(n)
			for range 200 {
				l := store.Learner(skill("acme", r.IntN(20)))
				l.Next(polling.Progress{Remaining: polling.NoDeadline})
				l.Done(seen(duration(nine[5].draw(r))))
				if r.IntN(50) == 0 {
					l.Throttled()
					if err := store.Load(store.Save()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	callers.Wait()
	background.Wait()
	if most.Load() != 1 {
		t.Errorf("%d at a time", most.Load())
	}
	if calls.Load() == 0 || calls.Load() > 1600 {
		t.Errorf("%d calls", calls.Load())
	}
	for n := range 20 {
		if l := store.Learner(skill("acme", n)); l.History().Len() > 0 && len(l.Schedule().Times()) == 0 {
			t.Errorf("there is no schedule for skill %d", n)
		}
	}
}

// Without Run, a goroutine makes the schedules and ends.
func TestSchedulesAreMadeInTheBackground(t *testing.T) {
	t.Parallel()
	l := polling.NewStore(polling.Config{}).Learner(skill("acme", 1))
	l.Done(seen(second))
	deadline := time.Now().Add(10 * second)
	for len(l.Schedule().Times()) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("there is no schedule")
		}
		time.Sleep(ms)
	}
}

// False execution times of one skill do not change the polls of another, and the polls of the
// skill itself keep the rules.
func TestProviderThatLies(t *testing.T) {
	t.Parallel()
	const actual = 3 * second
	for about, lie := range map[string]func(n int, c polling.Completion) time.Duration{
		"nothing":        func(int, polling.Completion) time.Duration { return 0 },
		"one ns":         func(int, polling.Completion) time.Duration { return 1 },
		"negative":       func(int, polling.Completion) time.Duration { return -time.Hour },
		"the least":      func(int, polling.Completion) time.Duration { return math.MinInt64 },
		"a year":         func(int, polling.Completion) time.Duration { return 365 * 24 * time.Hour },
		"the most":       func(int, polling.Completion) time.Duration { return math.MaxInt64 },
		"just now":       func(_ int, c polling.Completion) time.Duration { return c.Ended },
		"now and nought": func(n int, c polling.Completion) time.Duration { return time.Duration(n/8%2) * c.Ended },
	} {
		r := newRandom(1)
		store := newStore(t, 0, r)
		honest := store.Learner(skill("acme", 1))
		for range 100 {
			honest.Done(seen(duration(nine[1].draw(r))))
		}
		before := honest.Schedule()
		liar := store.Learner(skill("acme", 2))
		for n := range 500 {
			c := follow(liar, actual)
			if late := c.Ended - actual; late > 5*second {
				t.Errorf("%s: noticed after %v", about, late)
			}
			if c.Polls > 100 {
				t.Errorf("%s: %d polls", about, c.Polls)
			}
			c.Execution = lie(n, c)
			liar.Done(c)
		}
		if honest.Schedule() != before {
			t.Errorf("%s: another skill has a new schedule", about)
		}
		if times := liar.History().Times(); slices.Max(times) > 10 {
			t.Errorf("%s: %v s are believed", about, slices.Max(times))
		}
	}
}

func TestThrottledSkillsArePolledLess(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	store := polling.NewStore(polling.Config{Run: func(f func()) { f() }, Now: func() time.Time { return now }, Random: middle})
	learner := store.Learner(skill("acme", 1))
	other := store.Learner(skill("umbrella", 1))
	ask := func(want time.Duration) {
		t.Helper()
		learner.Next(polling.Progress{Remaining: polling.NoDeadline})
		if got := learner.Schedule().Price(); (got - want).Abs() > time.Microsecond {
			t.Errorf("the price is %v, want %v", got, want)
		}
	}
	ask(20 * ms)
	learner.Throttled()
	learner.Throttled() // of the same storm
	ask(40 * ms)
	now = now.Add(second)
	learner.Throttled()
	ask(80 * ms)
	now = now.Add(59 * second)
	ask(80 * ms)
	now = now.Add(second)
	ask(40 * ms)
	now = now.Add(time.Minute)
	ask(20 * ms)
	for range 20 {
		learner.Throttled()
		now = now.Add(2 * second)
	}
	ask(64 * 20 * ms)
	now = now.Add(time.Hour)
	ask(20 * ms)
	if got := other.Schedule().Price(); got != 20*ms {
		t.Errorf("another skill has the price %v", got)
	}
	// A higher price leads to fewer polls, for known and for unknown skills.
	learn(learner, second, 20)
	before := follow(learner, 20*second)
	learner.Throttled()
	if after := follow(learner, 20*second); after.Polls >= before.Polls {
		t.Errorf("%d polls, and %d before", after.Polls, before.Polls)
	}
}
