package browse

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// descriptorsAtOnce is how many descriptors of a source one page reads at a time.
const descriptorsAtOnce = 4

// settled are the states that only a new descriptor changes.
var settled = []catalog.State{catalog.Available, catalog.Readable, catalog.NeedsCredentials, catalog.Unsupported}

// read reads the descriptors of the shown skills of each source that are not known, or no longer fresh, so that the page can say what
// can't be called. It reads those of each source separately, so that a slow source does not delay the others. If the descriptors of
// a source exceed its share of limits.documents, the rest is not read.
//
// It returns the failures, which the catalog may not keep: they may be the page's own.
func (m *pageMaker) read(ctx context.Context, shown [][]*catalog.Entry) map[*catalog.Entry]*run.Failure {
	skills := 0
	for _, entries := range shown {
		skills += len(entries)
	}
	failed := map[*catalog.Entry]*run.Failure{}
	var mu sync.Mutex
	note := func(e *catalog.Entry, failure *run.Failure) {
		mu.Lock()
		defer mu.Unlock()
		failed[e] = failure
	}
	var sources sync.WaitGroup
	for _, entries := range shown {
		share := int64(m.limits.documents) * int64(len(entries)) / int64(max(skills, 1))
		sources.Go(func() { m.readSource(ctx, entries, share, note) })
	}
	sources.Wait()
	return failed
}

// readSource reads the descriptors of one source, until there are more than share bytes of them.
func (m *pageMaker) readSource(ctx context.Context, entries []*catalog.Entry, share int64, note func(*catalog.Entry, *run.Failure)) {
	var left atomic.Int64
	left.Store(share)
	unread := make([]*catalog.Entry, 0, len(entries))
	for _, e := range entries {
		status := e.Status(ctx, m.principal)
		if status.Skill != nil {
			left.Add(-int64(len(status.Skill.Document)))
		}
		state, _ := status.State()
		if !slices.Contains(settled, state) || !m.now.Before(status.ExpiresAt) {
			unread = append(unread, e)
		}
	}
	var g errgroup.Group
	g.SetLimit(descriptorsAtOnce)
	for _, e := range unread {
		g.Go(func() error {
			if left.Load() < 0 {
				return nil
			}
			d, failure := m.bridge.Describe(ctx, translate.Call{Caller: run.Caller{Principal: m.principal}, Name: e.Name})
			if failure != nil {
				note(e, failure)
				return nil
			}
			left.Add(-int64(len(d.Document)))
			return nil
		})
	}
	_ = g.Wait() // the failures are noted
}
