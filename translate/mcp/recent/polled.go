package recent

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Poll is what the last poll of a run said that goes on.
type Poll struct {
	Message    string
	RetryAfter time.Duration
}

// pollEvery is the shortest time between two polls of a run for clients that ask about its task.
const pollEvery = time.Second

// Polled are the runs that were polled within the last second. All callers share them. The zero value is ready for use.
type Polled struct{ runs Runs[Poll] }

// Find returns what the last poll of a run said, unless it is older than a second.
func (p *Polled) Find(ref *run.Ref) (Poll, bool) { return p.runs.Find(KeyOf("", ref)) }

// Add notes what a poll said.
func (p *Polled) Add(ref *run.Ref, said Poll) { p.runs.Add(KeyOf("", ref), said, pollEvery) }
