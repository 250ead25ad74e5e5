package listeners_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/listeners"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// An id whose key is not known waits until the keys of other instances may be read again. A subscription waits for that once, however many
// ids its client names, and opens a bounded number of them.
func TestOwnTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var named []string
		for i := range 20_000 {
			named = append(named, fmt.Sprintf("forged %d", i))
		}
		for i := range 20 {
			named[i*2], named[i*2+1] = fmt.Sprint(i), fmt.Sprint(i) // twice
		}
		var opened atomic.Int64
		began := time.Now()
		own := listeners.OwnTasks(named, func(id string) (run.Ref, error) {
			opened.Add(1)
			time.Sleep(time.Second)
			if len(id) > 2 {
				return run.Ref{}, runtoken.ErrInvalid
			}
			return run.Ref{ExecutionID: id}, nil
		})
		if waited := time.Since(began); waited != time.Second || opened.Load() > 100 {
			t.Errorf("it waits %s for %d ids", waited, opened.Load())
		}
		if len(own) != listeners.MostTasks || slices.ContainsFunc(own, func(o listeners.Task) bool { return o.ID != o.Ref.ExecutionID }) || own[0].ID != "0" || own[15].ID != "15" {
			t.Errorf("%v", own)
		}
	})
}

// A panic is one of the goroutine that answers.
func TestOwnTasksPanic(t *testing.T) {
	defer func() {
		if recover() != "open" {
			t.Error("it does not panic")
		}
	}()
	listeners.OwnTasks([]string{"a"}, func(string) (run.Ref, error) { panic("open") })
}
