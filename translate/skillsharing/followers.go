package skillsharing

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// followers holds the followers of runs: one per run, which all its callers share.
type followers struct {
	known run.Memory[sightings] // of runs that may go on, but have no follower at the moment

	mu   sync.Mutex
	runs map[run.Key]*follower
}

// mostKnown bounds the runs of a client whose sightings are remembered.
const mostKnown = 2000

// keyOf is the key of a run of a skill. It does not keep the answer that the id is from. If each principal has credentials of its own, a provider may
// use the same execution id for runs of several.
func (c *Client) keyOf(ctx context.Context, s *discovery.Skill, executionID string) run.Key {
	owner := ""
	if _, personal := c.Credentials.(credential.Personal); personal {
		owner, _ = ctx.Value(credential.OwnerKey{}).(string)
	}
	return run.KeyOf(owner, &run.Ref{SkillID: s.ID, ExecutionID: strings.Clone(executionID)})
}

// sightings are what a provider has said about whether it has a run. They outlast the follower of the run, since some callers poll only once
// for each request.
type sightings struct {
	seen           bool // it has answered with a state of the run
	status, result row  // of answers from one URL that deny the run (see [exchange.Denied])
}

// row counts what happens in a row.
type row struct {
	count int
	since time.Time // when it happened first
}

// add counts one. It reports whether there were so many at least, over so much time.
func (r *row) add(least int, span time.Duration) bool {
	if r.count++; r.count == 1 {
		r.since = time.Now()
	}
	return r.count >= least && time.Since(r.since) >= span
}

// A run that was seen is lost after two denials at least confirmedAfter apart. Before, a provider may not know it everywhere yet: then it is lost
// after as many denials, over as much time, as other failures end following.
const confirmedAfter = 2 * time.Second

// recall returns the sightings of a run. One that was just accepted has none: the provider may have used its execution id before.
func (all *followers) recall(key run.Key, options *FollowOptions) sightings {
	if !options.Resumed {
		all.known.Remove(key)
	}
	known, _ := all.known.Find(key)
	return known
}

// join returns the follower of a run, and whether the watcher is the one that asks.
func (all *followers) join(c *Client, s *discovery.Skill, options *FollowOptions, w *watcher) (f *follower, asks bool) {
	f = newFollower(c, s, options, w) // before the lock, although few runs have a follower already
	f.mustAsk = options.Resumed
	f.begin(options)
	all.mu.Lock()
	defer all.mu.Unlock()
	if known := all.runs[f.key]; known != nil {
		known.mu.Lock()
		defer known.mu.Unlock()
		if !known.ended && sameSkill(known.poller.skill, s) {
			return known, known.enter(w)
		}
	}
	if all.runs == nil {
		all.runs = make(map[run.Key]*follower)
	}
	all.runs[f.key] = f
	return f, true
}

// leave removes a follower that has ended, unless another one for the same run has replaced it. It remembers what is known of a run that may go on.
func (all *followers) leave(f *follower) {
	if f.response != nil {
		all.known.Remove(f.key)
	} else if f.poller.known != (sightings{}) {
		all.known.AddWithin(mostKnown, f.key, f.poller.known, runtoken.MaxLifetime)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.runs[f.key] == f {
		delete(all.runs, f.key)
	}
}

// sameSkill reports whether two skills come from the same document at the same hosts, so
// that requests about their runs are equal.
func sameSkill(s, other *discovery.Skill) bool {
	return s == other || discovery.SameOrigin(s.URL, other.URL) && slices.EqualFunc(s.Way, other.Way, discovery.SameOrigin) && bytes.Equal(s.Document, other.Document)
}
