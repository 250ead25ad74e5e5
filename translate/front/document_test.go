package front_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
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
