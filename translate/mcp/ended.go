package mcp

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// polledRun is what the last poll of a run said that goes on. All calls of its caller share it.
type polledRun struct {
	message    string
	retryAfter time.Duration
}

// pollEvery is the shortest time between two polls of a run for clients that ask about its task.
const pollEvery = time.Second

// endedRuns are the runs of which it is known that they have ended: since when, and what the provider has said of some of them. The
// zero value is ready for use.
type endedRuns struct {
	since run.Memory[time.Time]
	said  run.Memory[endedRun]
}

// endedRun is a run as a poll has said, which has ended if it is kept.
type endedRun struct {
	skill   *translate.Skill
	outcome run.Run
}

const (
	mostEnded     = 200      // ends of runs that are kept
	mostEndedSize = 64 << 10 // bytes of what a provider has said of one run
)

// add keeps what the provider has said of the end of a run, unless it is long: for as long as its run token is valid, or until later ones take
// its place, so that a task that has ended stays as it is, whatever its provider says afterwards.
func (e *endedRuns) add(key run.Key, said endedRun) {
	if kept, ok := withoutAnswer(&said.outcome); ok {
		e.said.AddWithin(mostEnded, key, endedRun{said.skill, kept}, runtoken.MaxLifetime)
	}
}

// withoutAnswer returns a copy of a run that does not keep the answer from which it was read. ok is false if it is too large to be kept.
func withoutAnswer(o *run.Run) (c run.Run, ok bool) {
	c = *o
	c.Output = o.Output.Clone()
	size := len(c.Output)
	if o.Failure != nil {
		f := *o.Failure
		f.Rewrite(func(text string) string {
			size += len(text)
			return strings.Clone(text)
		}, func(v jsontext.Value) jsontext.Value {
			size += len(v)
			return v.Clone()
		})
		f.Cause, c.Failure = nil, &f
	}
	return c, size <= mostEndedSize
}

// sinceWhen returns when it was first called for a run, as far as it is remembered.
func (e *endedRuns) sinceWhen(key run.Key) time.Time {
	since, ok := e.since.Find(key)
	if !ok {
		since = time.Now()
		e.since.Add(key, since, runtoken.MaxLifetime)
	}
	return since
}
