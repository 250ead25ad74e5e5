package catalog

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// loaded is the result of loading one source.
type loaded struct {
	section *Section
	table   *nameTable
	err     *run.Failure
}

// loadAll loads the wanted sources concurrently.
func (c *Catalog) loadAll(ctx context.Context, wanted func(*Section) bool) []loaded {
	var results []loaded
	for _, s := range c.sections {
		if wanted(s) {
			results = append(results, loaded{section: s})
		}
	}
	var group panics.Group
	for i := range results {
		group.Go(func() { results[i].table, results[i].err = c.load(ctx, results[i].section) })
	}
	group.Wait()
	return results
}

// list is load for lists, which show the words that the guard of the source chooses.
func list(ctx context.Context, s *Section) (*nameTable, *run.Failure) {
	t, err := s.catalog.load(ctx, s)
	if err == nil {
		err = discovery.Learn(ctx, s.Guard, t)
		t.learned.Store(err == nil)
	}
	return t, err
}

// onceKey is the context key of [ReadIndexesOnce]. The value is a *sync.Map from *Section to *nameTable.
type onceKey struct{}

// ReadIndexesOnce returns a context in which each source is read at most once by calls that follow one another. It is for several calls that
// contribute to one answer.
func ReadIndexesOnce(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, new(sync.Map))
}

// load returns the names of a source, whose indexes it reads if they are not cached.
func (c *Catalog) load(ctx context.Context, s *Section) (*nameTable, *run.Failure) {
	once, _ := ctx.Value(onceKey{}).(*sync.Map)
	if once == nil {
		return c.read(ctx, s)
	}
	if known, ok := once.Load(s); ok {
		return known.(*nameTable), nil
	}
	t, err := c.read(ctx, s)
	if err == nil {
		once.Store(s, t)
	}
	return t, err
}

// read is load regardless of [ReadIndexesOnce].
func (c *Catalog) read(ctx context.Context, s *Section) (*nameTable, *run.Failure) {
	var known []*document.Index
	if t := s.table.Load(); t != nil {
		known = t.indexes
	}
	indexes, err := s.Client.Indexes(ctx, known, time.Time{})
	if err != nil {
		return nil, err
	}
	return s.tableOf(ctx, indexes), nil
}

// Reread reads the index of a provider or site again unless it was asked for it after a time, also if the index is fresh. A failure changes nothing. The
// lists of other sources do not depend on runs of their skills: a registry is the server of others.
func (s *Section) Reread(ctx context.Context, asked time.Time) {
	if s.Kind != ProviderSource && s.Kind != SiteSource {
		return
	}
	if indexes, err := s.Client.Indexes(ctx, nil, asked); err == nil {
		s.tableOf(ctx, indexes)
	}
}

// tableOf returns the name table of the indexes of a source, or of newer ones. It makes one table at a time, of the newest indexes: a source that
// changes its index all the time does not make the process make and keep a table of each.
func (s *Section) tableOf(ctx context.Context, indexes []*document.Index) *nameTable {
	if known := s.table.Load(); known != nil && slices.Equal(known.indexes, indexes) {
		return known
	}
	s.newest.Store(new(indexes)) // a copy, so that the parameter does not escape to the heap: every call asks
	s.naming.Lock()
	defer s.naming.Unlock()
	newest := *s.newest.Load()
	if known := s.table.Load(); known != nil && slices.Equal(known.indexes, newest) {
		return known
	}
	return s.catalog.renew(context.WithoutCancel(ctx), s, newest)
}

// renew builds the name table of a source from its indexes and stores it.
func (c *Catalog) renew(ctx context.Context, s *Section, indexes []*document.Index) *nameTable {
	t := c.nameTable(ctx, s, indexes)
	before := s.table.Swap(t)
	keep := t.keepsFaults(before)
	s.Faults.Prune(keep)
	s.refusals.Prune(keep)
	compare(c, before, t)
	count(ctx, c)
	return t
}

// OnCount sets the function that is called when the list of a source of a catalog was read for the first time or has changed, with the number of
// skills of all sources as far as their lists were read. The lists that the cache has from an earlier configuration count at once. OnCount
// must be called before the catalog is used.
func OnCount(ctx context.Context, c *Catalog, counted func(ctx context.Context, skills int)) {
	c.counted = counted
	for _, s := range c.sections {
		if s.Kind != SkillSource {
			c.peek(ctx, s)
		}
	}
}

// count calls the function of [OnCount].
func count(ctx context.Context, c *Catalog) {
	skills := 0
	for _, s := range c.sections {
		if t := s.table.Load(); t != nil {
			skills += len(t.entries)
		} else if s.Kind == SkillSource {
			skills++
		}
	}
	if c.counted != nil {
		c.counted(ctx, skills)
	}
}

// keepsFaults returns whether the failure under an id is kept: its skill is listed, and its listed version has not changed. before is nil if the
// earlier list is not known.
func (t *nameTable) keepsFaults(before *nameTable) func(id string) bool {
	return func(id string) bool {
		if at := strings.LastIndexByte(id, separator); at >= 0 && t.byID[id] == nil {
			id = id[:at]
		}
		listed := t.byID[id]
		return listed != nil && (before == nil || before.byID[id] == nil || before.byID[id].Version == listed.Version)
	}
}

// peek returns the names of a source from memory; nil: its indexes are not cached.
func (c *Catalog) peek(ctx context.Context, s *Section) *nameTable {
	if t := s.table.Load(); t != nil {
		return t
	}
	if indexes := s.Client.PeekIndexes(); !slices.Contains(indexes, nil) { // those that the cache has from an earlier configuration
		return s.tableOf(ctx, indexes)
	}
	return nil
}

// purge removes the documents of a source from the cache.
func (s *Section) purge(ctx context.Context) {
	for _, l := range s.known(ctx) {
		s.Client.Forget(l.descriptor)
	}
	s.Client.ForgetIndexes()
}

// purgeSkill removes one descriptor from the cache, by the skill's id or name. It reports
// whether the source is known to have the skill.
func (c *Catalog) purgeSkill(ctx context.Context, s *Section, id string) bool {
	if s.Kind == SkillSource {
		doc, _ := s.Client.Peek(ctx, s.direct.descriptor, discovery.Names{})
		known := id == s.Namespace || doc != nil && doc.Value.(*discovery.Skill).ID == id
		if known {
			s.Client.Forget(s.direct.descriptor)
		}
		return known
	}
	t := c.peek(ctx, s)
	if t == nil {
		return false
	}
	found := t.find(id)
	for _, e := range found {
		s.Client.Forget(e.descriptor)
	}
	return len(found) > 0
}

// lists reports whether the source also lists a registry's skill, with the same descriptor URL.
func (t *nameTable) lists(l *Listed) bool {
	for _, index := range t.indexes {
		for i := range index.Skills {
			if e := &index.Skills[i]; e.ID == l.ID {
				return discovery.NewLocation(e.DescriptorURL) == l.descriptor
			}
		}
	}
	return false
}
