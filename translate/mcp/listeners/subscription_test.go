package listeners_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/listeners"
)

// feed is the feed of a subscription to lists and to one task. It keeps what is sent.
type feed struct {
	read  func(context.Context) time.Time
	ended chan struct{}

	mu   sync.Mutex
	sent []string
}

func (f *feed) send(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, what)
	return nil
}

func (f *feed) count(what string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sent {
		if s == what {
			n++
		}
	}
	return n
}

func (f *feed) ListsChanged() <-chan struct{}      { return nil }
func (f *feed) TasksCanceled() <-chan struct{}     { return nil }
func (f *feed) CanceledTask(int) jsontext.Value    { return nil }
func (f *feed) SendChange(string) error            { return f.send("change") }
func (f *feed) SendTask(task jsontext.Value) error { return f.send(string(task)) }
func (f *feed) KeepAlive() error                   { return f.send("comment") }
func (f *feed) ReadLists(ctx context.Context, sources []string) map[string]time.Time {
	return map[string]time.Time{sources[0]: f.read(ctx)}
}

func (f *feed) AwaitTask(ctx context.Context, _ int) jsontext.Value {
	select {
	case <-f.ended:
		return jsontext.Value("{}")
	case <-ctx.Done():
		return nil
	}
}

// While a source hangs, comments and ends of tasks are sent, and a stop ends the subscription.
func TestSourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &feed{ended: make(chan struct{}), read: func(ctx context.Context) time.Time {
			<-ctx.Done()
			return time.Time{}
		}}
		stopping, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			new(listeners.Listeners).Serve(t.Context(), &listeners.Subscription{
				Lists: []string{"changed"}, Sources: []string{"acme"}, Tasks: 1, Stopping: stopping, Recovered: func(context.Context) {}, Feed: f,
			})
		}()
		time.Sleep(46 * time.Second)
		synctest.Wait()
		if n := f.count("comment"); n != 3 {
			t.Errorf("%d comments in 46 seconds", n)
		}
		close(f.ended)
		synctest.Wait()
		if f.count("{}") != 1 {
			t.Errorf("the end of the task is not sent: %q", f.sent)
		}
		close(stopping)
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("a stop does not end the subscription")
		}
	})
}

// The lists are read again when they are stale.
func TestListsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		f := &feed{read: func(context.Context) time.Time {
			reads++
			return time.Now().Add(time.Minute)
		}}
		ctx, cancel := context.WithCancel(t.Context())
		go new(listeners.Listeners).Serve(ctx, &listeners.Subscription{Lists: []string{"changed"}, Sources: []string{"acme"}, Recovered: func(context.Context) {}, Feed: f})
		time.Sleep(5*time.Minute + 30*time.Second)
		synctest.Wait()
		if reads < 5 || reads > 7 {
			t.Errorf("%d reads in 5.5 minutes", reads)
		}
		cancel()
		synctest.Wait()
	})
}

// Each source has its own time, so that a listener to one whose list is fresh for long does not delay others, and each is read for all
// listeners together. One who has no sources has none read.
func TestListenersOfDifferentSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l listeners.Listeners
		reads := map[string]int{}
		fresh := map[string]time.Duration{"slow": 10 * time.Minute, "quick": 2 * time.Second}
		until := map[string]time.Time{}
		next := func(sources ...string) time.Duration {
			return time.Until(l.Refresh(t.Context(), sources, func(_ context.Context, due []string) map[string]time.Time {
				for _, source := range due {
					reads[source]++
					if !time.Now().Before(until[source]) { // else it comes from the cache
						until[source] = time.Now().Add(fresh[source])
					}
				}
				return until
			}))
		}
		check := func(about string, got, want time.Duration, slow, quick int) {
			t.Helper()
			if got != want || reads["slow"] != slow || reads["quick"] != quick {
				t.Errorf("%s: again in %v, want %v; read: %v", about, got, want, reads)
			}
		}
		check("no sources", next(), listeners.Longest, 0, 0)
		check("bob", next("slow"), 10*time.Minute, 1, 0)
		check("alice", next("quick"), 2*time.Second, 1, 1)
		check("both", next("quick", "slow"), 2*time.Second, 1, 1)
		time.Sleep(2 * time.Second)
		check("alice, once stale", next("quick"), 10*time.Second, 1, 2)
		check("both, once read", next("slow", "quick"), 10*time.Second, 1, 2)
		check("bob, while fresh", next("slow"), 10*time.Minute-2*time.Second, 1, 2)
		time.Sleep(10 * time.Minute)
		check("both, once stale", next("slow", "quick"), 10*time.Second, 2, 3)
	})
}

// counted is a feed of a task whose memory is freed with the context of AwaitTask.
type counted struct {
	feed
	held context.Context //nolint:containedctx // of the task
	kept bool            // while the task was sent
}

func (f *counted) AwaitTask(ctx context.Context, _ int) jsontext.Value {
	f.held = ctx
	return jsontext.Value("{}")
}

func (f *counted) SendTask(jsontext.Value) error {
	f.kept = f.held.Err() == nil
	return nil
}

// The memory of a task is freed when its notification is written, not before.
func TestTasksAreCountedUntilTheyAreSent(t *testing.T) {
	f := &counted{}
	new(listeners.Listeners).Serve(t.Context(), &listeners.Subscription{Tasks: 1, Recovered: func(context.Context) {}, Feed: f})
	if !f.kept || f.held.Err() == nil {
		t.Errorf("the memory is kept: %t, freed: %t", f.kept, f.held.Err() != nil)
	}
}
