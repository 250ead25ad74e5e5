package demo

import (
	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// states keeps what a provider holds in memory over reloads of the configuration,
// for as long as one of them has the same origin and secrets.
var states = caddy.NewUsagePool()

// state is what a provider holds in memory.
type state struct {
	runs   *runs
	tokens *tokens
}

func newState() *state { return &state{newRuns(), newTokens()} }

// Destruct implements caddy.Destructor: it ends every run.
func (s *state) Destruct() error {
	s.runs.stop()
	return nil
}

// logger is the one of the present configuration; a run may outlive the one it
// was started under.
func logger() *zap.Logger { return caddy.Log().Named("http.handlers.skill_bridge_demo") }
