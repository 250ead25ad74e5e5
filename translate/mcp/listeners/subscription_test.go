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

func (f *feed) ListsChanged() <-chan struct{}           { return nil }
func (f *feed) ReadLists(ctx context.Context) time.Time { return f.read(ctx) }
func (f *feed) TasksCanceled() <-chan struct{}          { return nil }
func (f *feed) CanceledTask(int) jsontext.Value         { return nil }
func (f *feed) SendChange(string) error                 { return f.send("change") }
func (f *feed) SendTask(task jsontext.Value) error      { return f.send(string(task)) }
func (f *feed) KeepAlive() error                        { return f.send("comment") }
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
				Lists: []string{"changed"}, Tasks: 1, Stopping: stopping, Recovered: func(context.Context) {}, Feed: f,
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
		go new(listeners.Listeners).Serve(ctx, &listeners.Subscription{Lists: []string{"changed"}, Recovered: func(context.Context) {}, Feed: f})
		time.Sleep(5*time.Minute + 30*time.Second)
		synctest.Wait()
		if reads < 5 || reads > 7 {
			t.Errorf("%d reads in 5.5 minutes", reads)
		}
		cancel()
		synctest.Wait()
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
