package front_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
			return front.Shared(t.Context(), &flights, "key", time.Minute, patience, nil, read)
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

// TestSharedPanics: a panic of the reading is reported once, also if nobody waits for it any more. To those who wait, it is an error.
func TestSharedPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flights singleflight.Group
		var reported []any
		ask := func(patience time.Duration) {
			_, err := front.Shared(t.Context(), &flights, "key", time.Minute, patience, func(_ context.Context, value any, _ []byte) {
				reported = append(reported, value)
			}, func(context.Context) (string, error) {
				time.Sleep(time.Second)
				panic("a bug")
			})
			if err == nil {
				t.Error("no error")
			}
		}
		ask(time.Millisecond)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		for range 2 {
			go ask(time.Minute)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(reported) != 2 || !strings.Contains(fmt.Sprint(reported), "a bug") {
			t.Errorf("%d reports: %v", len(reported), reported)
		}
	})
}
