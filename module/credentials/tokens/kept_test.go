package tokens_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
)

// TestR247KeptAfterPanic: a panic while something is read, which is in the background, is an error of all who wait, and the next reading may succeed.
func TestR247KeptAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept tokens.Kept[string]
		bug := true
		get := func() (string, error) {
			value, _, err := kept.Get(t.Context(), time.Hour, func(value string, _ time.Duration) bool { return value != "" }, func(context.Context) (string, error) {
				if bug {
					panic("a bug")
				}
				return "keys", nil
			})
			return value, err
		}
		if _, err := get(); err == nil || !strings.Contains(err.Error(), "a bug") {
			t.Errorf("%v", err)
		}
		bug = false
		time.Sleep(time.Minute)
		if value, err := get(); value != "keys" || err != nil {
			t.Errorf("%q, %v", value, err)
		}
	})
}
