package tasks_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/loads"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// sized is a store that says how large a record is before it reads it.
type sized struct {
	*store
	gets atomic.Int64
}

func (s *sized) Get(ctx context.Context, owner, id string) (*run.Record, error) {
	s.gets.Add(1)
	if err := run.MakeRoom(ctx, 1<<20); err != nil {
		return nil, err
	}
	return s.store.Get(ctx, owner, id)
}

// TestReadersShareStoredTasks: readers of an ended task that is only in the Store have one copy of it for as long as one of them has
// it, and memory is reserved before a record is read, for all but one.
func TestReadersShareStoredTasks(t *testing.T) {
	from := &sized{store: newStore()}
	first := tasks.New(tasks.Config{Store: from})
	var ids []string
	for range 3 {
		made := &task.Task{ID: first.NewID(), Owner: "ada"}
		made.SetStatus(task.Completed, &task.Message{ID: "m", Role: task.Agent, Parts: []task.Part{{Part: front.Part{Kind: front.PartText, Text: strings.Repeat("x", 1<<20)}}}}, time.Now())
		if err := first.Add(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	first.Close(t.Context())
	s := tasks.New(tasks.Config{Store: from})
	defer s.Close(context.Background())
	var room, taken atomic.Int64
	room.Store(1)
	reader := func() (*loads.Reader, context.Context) {
		r := &loads.Reader{Room: func(int64) (func(), bool) {
			if taken.Add(1) > room.Load() {
				taken.Add(-1)
				return nil, false
			}
			return func() { taken.Add(-1) }, true
		}}
		return r, loads.WithReader(t.Context(), r)
	}
	var mu sync.Mutex
	var readers []*loads.Reader
	found := map[*task.Task]bool{}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			r, ctx := reader()
			got, err := s.Get(ctx, "ada", ids[0])
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			readers, found[got] = append(readers, r), true
		})
	}
	all.Wait()
	if from.gets.Load() != 1 || len(found) != 1 || taken.Load() != 0 {
		t.Errorf("read %d times, %d copies, %d reserved", from.gets.Load(), len(found), taken.Load())
	}
	second, ctx := reader()
	if _, err := s.Get(ctx, "ada", ids[1]); err != nil || !second.Holds() || taken.Load() != 1 {
		t.Errorf("another task: %v, %d reserved", err, taken.Load())
	}
	third, ctx := reader()
	if _, err := s.Get(ctx, "ada", ids[2]); !errors.Is(err, run.ErrNoRoom) || third.Holds() {
		t.Errorf("a task without memory: %v", err)
	}
	second.End()
	if _, err := s.Get(ctx, "ada", ids[2]); err != nil || taken.Load() != 1 {
		t.Errorf("a task when there is memory again: %v", err)
	}
	third.End()
	for _, r := range readers {
		r.End()
	}
	if taken.Load() != 0 {
		t.Errorf("%d reserved in the end", taken.Load())
	}
	last, ctx := reader()
	defer last.End()
	before := from.gets.Load()
	if got, err := s.Get(ctx, "ada", ids[0]); err != nil || found[got] || from.gets.Load() != before+1 {
		t.Errorf("a task that no reader has is kept: %v", err)
	}
}
