package ledger_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// marks have room for one run.
type marks struct {
	mu        sync.Mutex
	principal string
	ref       run.Ref
	at        time.Time
	next      chan struct{}
}

func newMarks() *marks { return &marks{next: make(chan struct{})} }

func (m *marks) Add(_ context.Context, principal string, ref *run.Ref) *run.Limit {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.at.IsZero() {
		return &run.Limit{Name: "canceled runs", Max: 1}
	}
	m.principal, m.ref, m.at = principal, *ref, time.Now()
	close(m.next)
	m.next = make(chan struct{})
	return nil
}

func (m *marks) When(_ context.Context, principal string, ref *run.Ref) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.principal != principal || m.ref != *ref {
		return time.Time{}
	}
	return m.at
}

func (m *marks) Next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next
}

// What the marks have no room for is refused, and not forgotten.
func TestCanceledWithoutRoom(t *testing.T) {
	c := ledger.Cancellations{Marks: newMarks()}
	first, further := &run.Ref{Source: "acme", ExecutionID: "1"}, &run.Ref{Source: "acme", ExecutionID: "2"}
	if ended, f := c.Cancel(t.Context(), "ada", first); ended || f != nil || c.When(t.Context(), "ada", first).IsZero() {
		t.Errorf("ended %t, failure %v", ended, f)
	}
	ended, f := c.Cancel(t.Context(), "ada", further)
	if ended || f == nil || f.Kind != run.RateLimited || f.Limit.Max != 1 || f.Executed != run.ExecutedYes || !c.When(t.Context(), "ada", further).IsZero() {
		t.Errorf("ended %t, failure %v", ended, f)
	}
}

// The entry of a run decides whether it is canceled, and takes no place in the marks.
func TestCanceledEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, db := newMarks(), ledgertest.New()
		store := db.Instance(true)
		l := open(t, store, &follower{ends: time.Hour}, 0)
		refs := map[string]*run.Ref{}
		for n, id := range []string{"open", "ended", "unreadable"} {
			e := accepted(n)
			if _, failure := l.Add(t.Context(), e, 0); failure != nil {
				t.Fatal(failure)
			}
			refs[id] = &e.Ref
		}
		refs["unknown"] = &run.Ref{Source: "acme", ExecutionID: "x", Kept: "none"}
		if _, err := l.Change(t.Context(), ledger.Identity{Owner: owner, ID: refs["ended"].Kept}, func(next *ledger.Entry) error {
			next.State = ledger.Completed
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		c := ledger.Cancellations{Realm: "realm", Ledger: l, Marks: m}
		for id, want := range map[string]bool{"open": true, "ended": false, "unknown": true} {
			ended, failure := c.Cancel(t.Context(), "ada", refs[id])
			if ended == want || failure != nil || c.When(t.Context(), "ada", refs[id]).IsZero() == want {
				t.Errorf("%s: ended %t, failure %v", id, ended, failure)
			}
		}
		if m.ref.ExecutionID != "x" {
			t.Errorf("%q is marked", m.ref.ExecutionID)
		}
		for _, down := range []string{"get", "change"} {
			store.Hang(func(statement string) bool { return statement == down })
			began := time.Now()
			_, f := c.Cancel(t.Context(), "ada", refs["unreadable"])
			if f == nil || f.Kind != run.Internal || f.Next() != run.NextFollowRun || !strings.Contains(f.Message, "is not known") || time.Since(began) > 2100*time.Millisecond {
				t.Errorf("%q does not respond: after %s: %v", down, time.Since(began), f)
			}
			if at := c.When(t.Context(), "ada", refs["unreadable"]); !at.IsZero() || time.Since(began) > 4200*time.Millisecond {
				t.Errorf("%q does not respond: after %s: canceled at %s", down, time.Since(began), at)
			}
		}
		store.Hang(nil)
	})
}

// A call that waits for a run without an entry ends when the run is canceled, here or at another instance.
func TestCanceledWhileACallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		p.Accept("sum")
		i, m := start(t, p, ledgertest.New(), nil), newMarks()
		begun := i.Bridge.Start(t.Context(), translate.Call{Caller: run.Caller{Principal: "ada"}, Name: "acme.sum", Wait: new(time.Duration)}).Wait()
		for n, by := range []*ledger.Cancellations{i.Canceled, {Marks: m}} {
			ref := begun.Ref
			if n == 1 {
				ref.Accepted = ref.Accepted.Add(time.Millisecond) // it is another run
				i.Canceled.Marks = m
			}
			canceled := time.Now().Add(10 * time.Second)
			var group sync.WaitGroup
			group.Go(func() {
				if o := about(i, ref, time.Minute); o.State != run.Canceled || o.Failure != nil || time.Since(canceled) > 200*time.Millisecond {
					t.Errorf("%d: after %s: %+v", n, time.Since(canceled), o)
				}
			})
			time.Sleep(time.Until(canceled))
			if _, failure := by.Cancel(t.Context(), "ada", &ref); failure != nil {
				t.Error(failure)
			}
			group.Wait()
		}
	})
}

// buggy are marks that can't be read because of a bug.
type buggy struct{ *marks }

func (buggy) When(context.Context, string, *run.Ref) time.Time { panic("a bug") }

// R253: a panic of what waits for a cancellation is one of the call that waits, and does not end the process.
func TestR253PanicOfMarks(t *testing.T) {
	c, wait := ledger.Cancellations{Marks: buggy{newMarks()}}, time.Minute
	record := c.Follow(t.Context(), &run.Ref{Source: "acme", ExecutionID: "1"}, &translate.Call{Wait: &wait})
	<-record.Asking.Done()
	if bug := panics.Recovered(func() { record.Settle(run.Run{}) }); bug == nil {
		t.Error("the call does not hear of it")
	}
}
