package translate

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// TestStop: calls are in progress until they end, and a stop ends each call, also those that begin while it stops the others.
func TestStop(t *testing.T) {
	var s Stop
	stopped := func(w *stoppable) *atomic.Bool {
		got := new(atomic.Bool)
		w.cancel = func(cause error) { got.Store(cause == run.ErrStopping) }
		return got
	}
	calls := make([]stoppable, 128)
	ended := make([]*atomic.Bool, len(calls))
	start := time.Now()
	var begun sync.WaitGroup
	for i := range calls {
		calls[i].call = &Call{Caller: run.Caller{Arrived: start.Add(time.Duration(i))}}
		ended[i] = stopped(&calls[i])
		begun.Go(func() { s.add(&calls[i]) })
	}
	begun.Wait()
	if oldest, total := s.InProgress(3); total != len(calls) || len(oldest) != 3 || oldest[0].Arrived != start || oldest[2].Arrived != start.Add(2) {
		t.Errorf("%d calls in progress, the first ones are %+v", total, oldest)
	}
	gone := len(calls) / 2
	for i := range gone {
		s.remove(&calls[i])
	}
	if _, total := s.InProgress(3); total != gone {
		t.Errorf("%d calls in progress, want %d", total, gone)
	}
	late := make([]stoppable, 100)
	lateEnded := make([]*atomic.Bool, len(late))
	for i := range late {
		lateEnded[i] = stopped(&late[i])
		begun.Go(func() { s.add(&late[i]) })
	}
	s.Now()
	begun.Wait()
	for i := range calls {
		if stopped := ended[i].Load(); stopped != (i >= gone) {
			t.Errorf("call %d: stopped is %t", i, stopped)
		}
	}
	for i := range late {
		if !lateEnded[i].Load() {
			t.Errorf("a call that began late was not stopped")
		}
		s.remove(&late[i])
	}
}

// BenchmarkStop is what calls that begin and end at the same time share.
func BenchmarkStop(b *testing.B) {
	var s Stop
	call := new(Call)
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w := stoppable{call: call}
			s.add(&w)
			s.remove(&w)
		}
	})
}
