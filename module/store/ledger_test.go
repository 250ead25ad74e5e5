package store

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// provider executes the skills sum, at once, and slow, whose runs go on until ends is closed. It is the bridge of an instance, too.
type provider struct {
	executed map[string]*atomic.Int64
	polls    atomic.Int64
	ends     chan struct{}
}

func newProvider() *provider {
	return &provider{executed: map[string]*atomic.Int64{"sum": {}, "slow": {}}, ends: make(chan struct{})}
}

// member is an instance of the bridge with a ledger in a database.
type member struct {
	*ledger.Ledger
	*provider
	db *DB
}

func join(t *testing.T, settings Settings, p *provider) *member {
	t.Helper()
	m := &member{db: open(t, settings), provider: p}
	m.Ledger = ledger.New(ledger.Config{
		Store: m.db.Runs(), Trouble: func(err error) { t.Log(err) },
		Panicked: func(_ context.Context, value any, stack []byte) { t.Errorf("%v\n%s", value, stack) },
	})
	m.Begin(m)
	t.Cleanup(func() { m.stop(t) })
	return m
}

// stop ends the instance.
func (m *member) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
	defer cancel()
	m.Close(ctx)
	m.db.Close()
}

func (*member) Realm() string                     { return "main" }
func (*member) Room(string) exchange.AnswerBudget { return nil }

// View implements [ledger.Follower].
func (*member) Granted(context.Context, string) {}

func (m *member) View(string) ledger.View { return nil }

// Poll implements [ledger.Follower].
func (m *member) Poll(_ context.Context, e *ledger.Entry, _ bool) run.Run {
	m.polls.Add(1)
	select {
	case <-m.ends:
		return run.Run{Ref: e.Ref, State: run.Completed, Output: jsontext.Value("4")}
	default:
		return run.Run{Ref: e.Ref, State: run.Working, RetryAfter: 10 * time.Millisecond}
	}
}

func (*member) ReportRun(context.Context, translate.Call, translate.Operation, *run.Run) {}
func (*member) Find(_ context.Context, name, _ string) (listed string, _ *run.Failure) {
	return name, nil
}
func (*member) Audience(string) int           { return 0 }
func (*member) Permits(*run.Ref, string) bool { return true }

// execution is a call of a member.
type execution struct {
	m    *member
	ctx  context.Context //nolint:containedctx // as in package translate
	wait time.Duration
	run  run.Run
	end  func(run.Run) run.Run // nil: none
}

// Start implements [keptcalls.Bridge].
func (m *member) Start(ctx context.Context, call translate.Call) translate.Execution {
	x := &execution{m: m, ctx: ctx, wait: *call.Wait}
	ref := run.Ref{Source: "acme", SkillID: call.Name, Version: "1.0.0"}
	endpoint := document.Endpoint{StatusURL: "https://acme.example/{execution_id}"}
	if x.run.Failure = call.Prepare.Invoke(ctx, &translate.Skill{Name: call.Name, Ref: ref, Descriptor: &document.Descriptor{Endpoint: endpoint}}); x.run.Failure != nil {
		return x
	}
	m.executed[call.Name].Add(1)
	time.Sleep(20 * time.Millisecond)
	ref.ExecutionID = "e"
	if x.run = (run.Run{Ref: ref, State: run.Working}); call.Name == "sum" {
		x.run.State, x.run.Output = run.Completed, jsontext.Value("3")
	}
	return x
}

// Resume implements [keptcalls.Bridge].
func (m *member) Resume(ctx context.Context, ref run.Ref, call translate.Call) translate.Execution {
	x := &execution{m: m, ctx: ctx, wait: *call.Wait, run: run.Run{Ref: ref, State: run.Working}}
	record := m.Follow(ctx, ledger.Owner{Realm: "main", Principal: call.Principal}, &ref, &call)
	if x.ctx, x.end = record.Asking, record.Settle; record.Ended != nil {
		x.run = *record.Ended
	}
	return x
}

func (x *execution) Wait() run.Run {
	if x.run.Failure == nil && !x.run.State.Ended() {
		select {
		case <-x.ctx.Done():
			x.run.Failure = &run.Failure{Kind: run.CallerGone, Executed: run.ExecutedYes}
		case <-x.m.ends:
			x.run.State, x.run.Output = run.Completed, jsontext.Value("4")
		case <-time.After(x.wait):
		}
		if x.end != nil {
			x.run = x.end(x.run)
		}
	}
	return x.run
}

func (x *execution) Watch() iter.Seq[run.Run] {
	return func(yield func(run.Run) bool) {
		if x.run.Failure != nil || x.run.State.Ended() || yield(x.run) {
			yield(x.Wait())
		}
	}
}

func (x *execution) Leave() run.Run        { return x.run }
func (*execution) Skill() *translate.Skill { return nil }
func (*execution) Unknown() []string       { return nil }
func (*execution) Detach()                 {}

func (m *member) call(t *testing.T, key, skill, args string, wait time.Duration) keptcalls.Answer {
	t.Helper()
	return keptcalls.Execute(t.Context(), m.Ledger, m, &keptcalls.Request{
		Owner: ledger.Owner{Realm: "main", Principal: "ada"}, Key: key, MaxOutput: 1 << 20,
		Call: translate.Call{Caller: run.Caller{Principal: "ada", Front: "skills"}, Name: skill, Inputs: jsonrpc.Object{Text: jsontext.Value(args)}, Wait: &wait},
	})
}

// The ledger of several instances executes nothing twice, tells an end at one instance to calls at another, and keeps what an instance was following.
func TestLedger(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is a test
		p := newProvider()
		members := []*member{join(t, settings, p), join(t, settings, p)}
		if settings.Kind == Memory {
			members = members[:1]
		}
		var group sync.WaitGroup
		for n := range 80 {
			group.Go(func() {
				a := members[n%len(members)].call(t, fmt.Sprint(n/4), "sum", fmt.Sprintf(`{"n":%d}`, n/4), time.Minute)
				if a.Failure != nil || string(a.Output) != "3" {
					t.Errorf("%d: %+v, %v", n, a, a.Failure)
				}
			})
		}
		group.Wait()
		if n := p.executed["sum"].Load(); n != 20 {
			t.Errorf("%d executions", n)
		}
		last := members[len(members)-1]
		first := members[0].call(t, "slow", "slow", "", 0)
		if first.Failure != nil || first.Entry == nil {
			t.Fatalf("%+v", first)
		}
		canceled := make(chan time.Time)
		go func() {
			if a := last.call(t, "slow", "slow", "", time.Minute); a.State != run.Canceled {
				t.Errorf("%+v", a)
			}
			canceled <- time.Now()
		}()
		for p.polls.Load() < 3 {
			time.Sleep(10 * time.Millisecond)
		}
		if e, err := members[0].Cancel(t.Context(), first.Entry.Identity()); err != nil || e.State != ledger.Canceled {
			t.Errorf("%+v, error %v", e, err)
		}
		<-canceled
		members[0].call(t, "next", "slow", "", 0)
		if len(members) > 1 {
			members[0].stop(t)
		}
		close(p.ends)
		if a := last.call(t, "next", "slow", "", time.Minute); string(a.Output) != "4" {
			t.Errorf("%+v", a)
		}
		if n := p.executed["slow"].Load(); n != 2 {
			t.Errorf("%d executions", n)
		}
	})
}

// While the clock of the machine jumps by 10 minutes, forward and back, leases end and runs are adopted, but no call is executed twice, and no run is lost.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	p, ahead := newProvider(), time.Duration(0)
	settings := Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "s.db")}
	members := []*member{join(t, settings, p), join(t, settings, p)}
	if a := members[0].call(t, "slow", "slow", "", 0); a.Failure != nil || a.Entry == nil {
		t.Fatalf("%+v", a)
	}
	adopted, unknown, keys := 0, 0, 0
	jumps := []time.Duration{10 * time.Minute, 0, -10 * time.Minute, 0, 10 * time.Minute, -10 * time.Minute}
	if !longtest.Runs(longtest.Long) {
		jumps = jumps[:3]
	}
	for _, jump := range jumps {
		var calls sync.WaitGroup
		var mu sync.Mutex
		for range 10 {
			key := fmt.Sprint(keys)
			keys++
			for _, m := range append(members, members...) {
				calls.Go(func() {
					a := m.call(t, key, "sum", "", time.Minute)
					mu.Lock()
					defer mu.Unlock()
					if a.Failure != nil && a.Failure.Executed == run.ExecutedMaybe {
						unknown++
					} else if a.Failure != nil || string(a.Output) != "3" {
						t.Errorf("%+v, %v", a, a.Failure)
					}
				})
			}
		}
		time.Sleep(10 * time.Millisecond) // many calls are being submitted
		age(t, members[0].db, jump-ahead)
		ahead = jump
		for _, m := range members { // as the loops of the ledger do
			if _, err := m.db.Runs().Renew(t.Context()); err != nil {
				t.Error(err)
			}
			taken, err := m.db.Runs().Adopt(t.Context(), m.db.Runs().Instance(), []string{"main"}, 50)
			if adopted += len(taken); err != nil {
				t.Error(err)
			}
			if _, err := m.db.Runs().Expire(t.Context(), 50); err != nil {
				t.Error(err)
			}
		}
		calls.Wait()
	}
	if n := p.executed["sum"].Load(); int(n) != keys || adopted == 0 {
		t.Errorf("%d executions of %d calls, %d runs were adopted", n, keys, adopted)
	}
	t.Logf("%d runs adopted, %d answers that it is not known", adopted, unknown)
	close(p.ends)
	if a := members[1].call(t, "slow", "slow", "", time.Minute); string(a.Output) != "4" || p.executed["slow"].Load() != 1 {
		t.Errorf("%+v, %d executions", a, p.executed["slow"].Load())
	}
}

// TestBounds tests that a process begins no more runs than the bounds allow, while it counts what it has begun, and over changes of its settings, and that the
// oldest ended tasks make place.
func TestBounds(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		m, owner := join(t, settings, newProvider()), func(n int) ledger.Owner { return ledger.Owner{Realm: "main", Principal: fmt.Sprint(n)} }
		bounds := ledger.Bounds{Runs: 35, RunsOfOne: 10}
		m.Set(ledger.Settings{Bounds: bounds})
		var added [4]atomic.Int64
		var one atomic.Pointer[ledger.Entry] // of owner 0
		var wg sync.WaitGroup
		for n := range 160 {
			wg.Go(func() { // the first ones count
				if n%40 == 39 {
					m.Set(ledger.Settings{Bounds: bounds})
				}
				e := &ledger.Entry{Owner: owner(n % 4), Key: []byte{byte(n)}}
				switch _, failure := m.Add(t.Context(), e, 0); {
				case failure == nil:
					if added[n%4].Add(1); n%4 == 0 {
						one.Store(e)
					}
				case failure.Kind != run.RateLimited || failure.Limit == nil || failure.Limit.Max != 10 && failure.Limit.Max != 35:
					t.Error(failure)
				}
			})
		}
		wg.Wait()
		all := int64(0)
		for n := range added {
			if all += added[n].Load(); added[n].Load() > 10 {
				t.Errorf("%d runs of owner %d", added[n].Load(), n)
			}
		}
		if u, err := m.db.Runs().Count(t.Context(), nil); err != nil || all > 35 || all < 30 || u.Entries != int(all) {
			t.Errorf("%d runs were added, %+v, %v", all, u, err)
		}
		if _, err := m.Change(t.Context(), one.Load().Identity(), func(next *ledger.Entry) error { next.State = ledger.Completed; return nil }); err != nil { // from now on, some may make place
			t.Fatal(err)
		}
		exec(t, m.db, "UPDATE runs SET state = {ended}, stage = 1, at = 1")
		task := &ledger.Entry{Owner: owner(0), State: ledger.Completed, Label: ledger.Label{State: 1, At: time.Now()}}
		if _, failure := m.Add(t.Context(), task, 0); failure != nil {
			t.Error(failure)
		}
		if u, err := m.db.Runs().Count(t.Context(), nil); err != nil || u.Entries > 35 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

// R255: a replica takes over that lacks the last changes of a run. Its end is stored, and told to those who watch the run at another instance.
func TestR255OlderState(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is a test
		if settings.Kind == Memory {
			t.Skip("it has no replica")
		}
		p := newProvider()
		a, b := join(t, settings, p), join(t, settings, p)
		id := a.call(t, "slow", "slow", "", 0).Entry.Identity()
		for n := range 3 {
			if _, err := a.Change(t.Context(), id, func(next *ledger.Entry) error { next.Notes = []byte{byte(n)}; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		known, err := b.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		feed := b.Feed(known)
		defer feed.Close()
		exec(t, a.db, "UPDATE runs SET version = 1")
		close(p.ends)
		for deadline := time.After(time.Minute); !known.State.Ended(); {
			select {
			case known = <-feed.Versions:
				if known == nil {
					t.Fatal("it is gone")
				}
			case <-deadline:
				t.Fatal("who watches the run does not hear of its end")
			}
		}
		if stored, err := b.db.Runs().Get(t.Context(), id); err != nil || stored.State != ledger.Completed || stored.Version != known.Version {
			t.Errorf("%+v, %v", stored, err)
		}
	})
}
