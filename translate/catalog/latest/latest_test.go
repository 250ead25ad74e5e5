package latest_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/latest"
)

// However many come while a value is made, one more is made for all of them, from the newest source.
func TestOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m latest.Maker[int, int]
		var made, atOnce atomic.Int32
		square := func(n int) int {
			if atOnce.Add(1) > 1 {
				t.Error("two values are made at once")
			}
			time.Sleep(time.Second)
			atOnce.Add(-1)
			made.Add(1)
			return n * n
		}
		var callers sync.WaitGroup
		values := make([]int, 100)
		for i := range values {
			callers.Go(func() { values[i] = m.Make(i, square) })
			synctest.Wait()
		}
		callers.Wait()
		if values[0] != 0 || values[1] != 99*99 || values[99] != 99*99 || made.Load() != 2 {
			t.Errorf("%d values were made: %v", made.Load(), values)
		}
		if got := m.Make(7, square); got != 49 {
			t.Errorf("later: %d", got)
		}
	})
}

// A panic reaches those who wait for the value, and nobody else.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m latest.Maker[string, string]
		echo := func(text string) string {
			time.Sleep(time.Second)
			if text == "bad" {
				panic(text)
			}
			return text
		}
		var callers sync.WaitGroup
		var panics atomic.Int32
		for _, text := range []string{"good", "bad", "bad"} {
			callers.Go(func() {
				defer func() {
					if recover() != nil {
						panics.Add(1)
					}
				}()
				m.Make(text, echo)
			})
			synctest.Wait()
		}
		callers.Wait()
		if panics.Load() != 2 {
			t.Errorf("%d panics", panics.Load())
		}
		if got := m.Make("good", echo); got != "good" {
			t.Errorf("later: %q", got)
		}
	})
}
