package push_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// slow is a store in which each writing takes some time.
type slow struct{ *store }

func (s slow) Put(ctx context.Context, records ...*run.Record) error {
	time.Sleep(50 * time.Millisecond)
	return s.store.Put(ctx, records...)
}

// Webhooks that are set at two instances at the same time are both kept: each instance holds the lock of the task until its change is stored.
func TestWebhooksSetTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow{newStore()}
		one, other := start(t, s, new(receiver)), start(t, s, new(receiver))
		open := one.add("ann")
		if _, err := one.tasks.Get(t.Context(), open.Owner, open.ID); err != nil { // it stores the task
			t.Fatal(err)
		}
		for i, at := range []*bench{one, other} {
			go func() {
				_, fault := at.Set(t.Context(), &push.Call{
					Version: wire.V10, Params: jsonrpc.Object{Text: jsontext.Value(fmt.Sprintf(`{"taskId":%q,"id":"p%d","url":"https://p.example/"}`, open.ID, i))},
					Find:    func(_, id string) (*task.Task, error) { return at.tasks.Get(t.Context(), "ann", id) },
					Fail:    func(_ string, err error) *jsonrpc.Error { return &jsonrpc.Error{Message: err.Error()} },
					Refuse:  func(v ...wire.Violation) *jsonrpc.Error { return &jsonrpc.Error{Message: fmt.Sprint(v)} },
					Changed: func(*task.Task, *task.PushConfig, bool) {},
				})
				if fault != nil {
					t.Error(fault)
				}
			}()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for i, at := range []*bench{one, other} {
			if got, err := at.tasks.Get(t.Context(), "ann", open.ID); err != nil || len(got.Push) != 2 {
				t.Errorf("%d: %+v, %v", i, got, err)
			}
		}
		one.stop()
		other.stop()
	})
}
