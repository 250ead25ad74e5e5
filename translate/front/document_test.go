package front_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
)

// Who has no more patience gets an error, and the reading goes on for the others. The race detector sees that they share no variable.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flights singleflight.Group
		read := func(ctx context.Context) (string, error) {
			time.Sleep(2 * time.Second)
			return "read", ctx.Err()
		}
		ask := func(patience time.Duration) (string, error) {
			return front.Shared(t.Context(), &flights, "key", time.Minute, patience, read)
		}
		go func() {
			if _, err := ask(time.Second); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}()
		if got, err := ask(time.Hour); got != "read" || err != nil {
			t.Error(got, err)
		}
	})
}

// TestSharedPanics: a panic of the reading is one of each goroutine that waits for it, which reports it.
func TestSharedPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flights singleflight.Group
		var group panics.Group
		for range 2 {
			group.Go(func() {
				bug := panics.Recovered(func() {
					_, _ = front.Shared(t.Context(), &flights, "key", time.Minute, time.Minute, func(context.Context) (string, error) {
						time.Sleep(time.Second)
						panic("a bug")
					})
				})
				if p, ok := errors.AsType[*panics.Panic](bug); !ok || p.Value != "a bug" {
					t.Errorf("%v", bug)
				}
			})
		}
		group.Wait()
	})
}
