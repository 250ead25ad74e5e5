package tasks_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// The memory of an idle subscription is small, and tasks take about as much memory as Stats says.
func TestMemory(t *testing.T) {
	const n = 5000
	s := open(t, tasks.Config{MostPerOwner: n})
	before := heap()
	var made []*task.Task
	for i := range n {
		c := &task.Task{ID: s.NewID(), Owner: fmt.Sprint(i % 100), Context: s.NewID(), Skill: "convert", Inputs: []byte(`{"amount":12.5}`)}
		c.AddMessage(task.Message{ID: "m", Role: task.User, Parts: []task.Part{{Part: front.Part{Kind: front.PartText, Text: string(make([]byte, 500))}}}})
		c.SetStatus(task.Working, nil, time.Now())
		if err := s.Add(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		made = append(made, &task.Task{ID: c.ID, Owner: c.Owner})
	}
	kept := heap()
	_, _, size := s.Stats()
	perTask, estimate := (kept-before)/n, uint64(size)/n
	t.Logf("a task has %d bytes, by estimate %d", perTask, estimate)
	if perTask > 2*estimate {
		t.Errorf("a task has %d bytes, by estimate %d", perTask, estimate)
	}
	subs := make([]*tasks.Subscription, 0, n)
	kept = heap()
	for _, c := range made {
		_, sub, err := s.Subscribe(t.Context(), c.Owner, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	perSub := (int64(heap()) - int64(kept)) / n
	t.Logf("a subscription has %d bytes", perSub)
	if perSub > 512 {
		t.Errorf("a subscription has %d bytes", perSub)
	}
	runtime.KeepAlive(made)
	for _, sub := range subs {
		sub.Close()
	}
}

// Who ends a task with a large output waits until it is stored, a few at a time, while readers see the end at once. If the Store fails, the
// task stays in memory.
func TestLargeEndsWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		st.slow = time.Minute
		s := open(t, tasks.Config{Store: st, Flush: 24 * time.Hour})
		end := func(size int) (took time.Duration) {
			made, begun := add(t, s, "ada"), time.Now()
			change(t, s, made, func(t *task.Task) error {
				t.SetArtifact([]task.Part{{Part: front.Part{Kind: front.PartData, Data: []byte(`"` + strings.Repeat("x", size) + `"`)}}})
				t.SetStatus(task.Completed, nil, time.Now())
				return nil
			})
			return time.Since(begun)
		}
		if took := end(60 << 10); took != 0 {
			t.Errorf("a short output took %v", took)
		}
		var wg sync.WaitGroup
		begun := time.Now()
		for range 8 {
			wg.Go(func() {
				if took := end(70 << 10); took < time.Minute {
					t.Errorf("a large output took %v", took)
				}
			})
		}
		synctest.Wait()
		if byState, _, _ := s.Stats(); byState[task.Completed] != 9 {
			t.Errorf("before they are stored: %v", byState)
		}
		wg.Wait()
		if took := time.Since(begun); took < 2*time.Minute { // four at a time
			t.Errorf("all took %v", took)
		}
		st.fail(errors.New("disk full"))
		if took := end(70 << 10); took > time.Hour {
			t.Errorf("a failure took %v", took)
		}
		if byState, _, _ := s.Stats(); byState[task.Completed] != 10 {
			t.Errorf("after a failure: %v", byState)
		}
		st.fail(nil)
	})
}
