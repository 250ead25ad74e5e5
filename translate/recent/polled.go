package recent

import (
	"slices"
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

// Ended are the runs of which it is known that they have ended: since when, and what the provider has said of some of them. The
// zero value is ready for use.
type Ended[V any] struct {
	since Runs[time.Time]
	said  Runs[V]
}

// mostSaid bounds the answers of providers that are kept.
const mostSaid = 200

// mostOfOne bounds what a provider has said of one run, in bytes.
const mostOfOne = 64 << 10

// Copy returns a copy of a run that does not keep the answer from which it was read. ok is false if it is too large to be kept.
func Copy(o *run.Run) (c run.Run, ok bool) {
	if len(o.Output) > mostOfOne {
		return run.Run{}, false
	}
	c = *o
	c.Output = slices.Clone(o.Output)
	if o.Failure == nil {
		return c, true
	}
	f, said := *o.Failure, o.Failure.ProviderSaid()
	if len(o.Output)+len(f.Message)+len(said.Details)+len(said.Retry) > mostOfOne {
		return run.Run{}, false
	}
	if f.Provider != nil {
		said.Details, said.Retry = slices.Clone(said.Details), slices.Clone(said.Retry)
		f.Provider = &said
	}
	f.Cause, c.Failure = nil, &f
	return c, true
}

// Find returns what the provider has said of the end of a run, if it is kept.
func (e *Ended[V]) Find(key Key) (V, bool) { return e.said.Find(key) }

// Add notes what the provider has said of the end of a run. It is kept for as long as its run token is valid, or until later ones take
// its place, so that a task that has ended stays as it is, whatever its provider says afterwards.
func (e *Ended[V]) Add(key Key, said V) {
	e.said.AddWithin(mostSaid, key, said, runtoken.MaxLifetime)
}

// Has reports whether it is known that a run has ended.
func (e *Ended[V]) Has(key Key) bool {
	_, ok := e.since.Find(key)
	return ok
}

// Since returns when Since was first called for a run, as far as it is remembered.
func (e *Ended[V]) Since(key Key) time.Time {
	since, ok := e.since.Find(key)
	if !ok {
		since = time.Now()
		e.since.Add(key, since, runtoken.MaxLifetime)
	}
	return since
}
