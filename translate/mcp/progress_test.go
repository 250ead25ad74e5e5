package mcp

import (
	"iter"
	"testing"
	"testing/synctest"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// endless is a run that goes on until nobody watches it.
type endless struct{ translate.Execution }

func (endless) Watch() iter.Seq[run.Run] {
	return func(yield func(run.Run) bool) {
		for yield(run.Run{State: run.Working}) {
		}
	}
}

// TestProgressPanics: after a panic while progress is reported, nothing watches the run any more. A goroutine that stays fails the bubble.
func TestProgressPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if recover() != "a bug" {
				t.Error("no panic")
			}
		}()
		p := &progress{request: &request{front: &Front{Streaming: func(int) { panic("a bug") }}}}
		p.watch(endless{})
	})
}
