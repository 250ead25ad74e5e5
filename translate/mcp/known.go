package mcp

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/recent"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// polledRun is what the last poll of a run said that goes on.
type polledRun struct {
	message    string
	retryAfter time.Duration
}

// pollEvery is the shortest time between two polls of a run for clients that ask about its task.
const pollEvery = time.Second

// polledRuns are the runs that were polled within the last second. All callers share them.
type polledRuns struct{ recent.Runs[polledRun] }

func (p *polledRuns) find(ref *run.Ref) (polledRun, bool) { return p.Find(recent.KeyOf("", ref)) }

func (p *polledRuns) note(ref *run.Ref, r polledRun) { p.Add(recent.KeyOf("", ref), r, pollEvery) }

// canceledRuns are the runs whose tasks were canceled.
type canceledRuns struct{ recent.Runs[struct{}] }

func (c *canceledRuns) add(principal string, ref *run.Ref) {
	c.Add(recent.KeyOf(principal, ref), struct{}{}, runtoken.Lifetime)
}

func (c *canceledRuns) has(principal string, ref *run.Ref) bool {
	_, ok := c.Find(recent.KeyOf(principal, ref))
	return ok
}
