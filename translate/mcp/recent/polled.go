package recent

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
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

// Ended are the runs of which it is known that they have ended: since when, and, for a second, what the provider has said. All callers
// share them. The zero value is ready for use.
type Ended[V any] struct {
	since Runs[time.Time]
	said  Runs[V]
}

// mostSaid bounds the answers of providers that are kept.
const mostSaid = 200

// MostOutput is the length of the longest output that should be kept.
const MostOutput = 64 << 10

// Find returns what the last poll of a run said, unless it is older than a second.
func (e *Ended[V]) Find(ref *run.Ref) (V, bool) { return e.said.Find(KeyOf("", ref)) }

// Add notes what a poll said.
func (e *Ended[V]) Add(ref *run.Ref, said V) {
	e.said.addWithin(mostSaid, KeyOf("", ref), said, pollEvery)
}

// Since returns when Since was first called for a run, as far as it is remembered.
func (e *Ended[V]) Since(ref *run.Ref) time.Time {
	key := KeyOf("", ref)
	since, ok := e.since.Find(key)
	if !ok {
		since = time.Now()
		e.since.Add(key, since, runtoken.Lifetime)
	}
	return since
}
