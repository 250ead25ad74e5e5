package catalog

import (
	"context"
	"sync/atomic"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// ReadDescriptors reads the descriptors of entries of one source, of which there is at least one, those that the cache does not have as discovery.Stalls says. It sets those that it
// could read and use, and returns the failures of the others, in the order of the entries. It begins to read no further one when it has read most bytes; 0: no bound.
func ReadDescriptors(ctx context.Context, entries []*Entry, most int64) []*run.Failure {
	failures := make([]*run.Failure, len(entries))
	var left atomic.Int64
	left.Store(most)
	read := func(ctx context.Context, i int) (late bool) {
		if most > 0 && left.Load() <= 0 {
			return false
		}
		e := entries[i]
		skill, state, failure := e.listed.read(ctx)
		if failure == nil {
			left.Add(-int64(len(skill.Document)))
			failure = skill.Unsupported()
		}
		if failures[i] = failure; failure != nil {
			return ctx.Err() != nil && failure.Kind != run.RateLimited // a limit says nothing about the host
		}
		e.Descriptor = skill.Descriptor
		if e.Files = skill.Files.Brief(); e.Files == nil { // a list does not hold the other files, which may take 16 MiB each
			e.skill = skill
		}
		return ctx.Err() != nil && state == cache.Stale
	}
	lanes := map[int]discovery.Lane{}
	for i, e := range entries {
		if s := e.Section(); discovery.IsFresh(&s.Client.Reader, e.listed.descriptor) {
			read(ctx, i)
		} else {
			lanes[i] = discovery.LaneOf(e.listed.descriptor, e.listed.ID, s.Kind == RegistrySource)
		}
	}
	entries[0].Section().Stalls.Read(ctx, lanes, read)
	return failures
}
