package translate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// source is a configured [Source] at work.
type source struct {
	Source
	client *skillsharing.Client
	table  atomic.Pointer[nameTable]
	near   *nearIndex // of the names that the operator gave
	runs   places     // calls in progress that concern it
}

// catalog knows which skill a name means.
type catalog struct {
	sources    []*source
	observer   Observer
	namespaces map[string]*source // of providers and registries
	longest    int                // length of the longest of them
	lookAlikes lookAlikes         // of the namespaces
	operators  map[string]operatorName
}

// operatorName is a name that the operator gave: of a skill of an index, or, where
// id is empty, of a directly configured skill.
type operatorName struct {
	source *source
	id     string
	listed *listed // of a directly configured skill
}

func newCatalog(sources []*source, observer Observer) (*catalog, error) {
	c := &catalog{
		sources: sources, observer: observer,
		namespaces: map[string]*source{}, operators: map[string]operatorName{},
	}
	given := map[*source][]string{}
	add := func(name string, n operatorName) error {
		if _, taken := c.operators[name]; taken {
			return fmt.Errorf("the name %q is given to two skills", name)
		}
		c.operators[name] = n
		given[n.source] = append(given[n.source], name)
		return nil
	}
	for _, s := range sources {
		if s.Kind == SkillSource {
			if err := add(s.Namespace, operatorName{source: s, listed: directly(s)}); err != nil {
				return nil, err
			}
			continue
		}
		if c.namespaces[s.Namespace] != nil {
			return nil, fmt.Errorf("the namespace %q is given to two sources", s.Namespace)
		}
		c.namespaces[s.Namespace] = s
		c.longest = max(c.longest, len(s.Namespace))
		c.lookAlikes.add(s)
		for _, a := range s.Aliases {
			if err := add(a.Name, operatorName{source: s, id: a.SkillID}); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range sources {
		s.near = newNearIndex(slices.Sorted(slices.Values(given[s])))
	}
	return c, nil
}

// listed is where a name leads to.
type listed struct {
	source     *source
	name       string
	id         string // that the descriptor must have; empty: any
	descriptor discovery.Location
}

// directly is where the name of a directly configured skill leads to.
func directly(s *source) *listed {
	return &listed{source: s, name: s.Namespace, descriptor: discovery.NewLocation(s.URL.String())}
}

// resolve finds the skill that a name means. The operator's names come first;
// then a namespace decides, even while its source is down; and a bare id counts
// only where there is a single source, so that no name changes its meaning when
// a source comes or goes.
func (c *catalog) resolve(ctx context.Context, name, principal string) (*listed, *run.Failure) {
	if o, ok := c.operators[name]; ok {
		if o.id == "" {
			return o.listed, nil
		}
		return c.lookUpID(ctx, o.source, name, o.id)
	}
	s := c.namespaceOf(name)
	if s == nil {
		s = c.onlySource()
	}
	if s != nil {
		return c.lookUp(ctx, s, name, principal)
	}
	return nil, c.unqualified(ctx, name, principal)
}

// owner returns the one source that decides a name, nil if that takes reading all.
func (c *catalog) owner(name string) *source {
	if o, ok := c.operators[name]; ok {
		return o.source
	}
	if s := c.namespaceOf(name); s != nil {
		return s
	}
	return c.onlySource()
}

// lookUp finds a name in one source. What it returns beside a failure says no
// more than which source that was.
func (c *catalog) lookUp(ctx context.Context, s *source, name, principal string) (*listed, *run.Failure) {
	t, err := c.load(ctx, s)
	if err != nil {
		return &listed{source: s, name: name}, err
	}
	found := s.visible(t.find(name), principal, maxAmbiguous)
	switch len(found) {
	case 0:
		return &listed{source: s, name: name}, notFound(name, near(name, t.near), nil)
	case 1:
		return found[0].listed, nil
	}
	return &listed{source: s, name: name}, ambiguous(name, names(found))
}

// lookUpID finds an exact id in one source, as lookUp does a name.
func (c *catalog) lookUpID(ctx context.Context, s *source, name, id string) (*listed, *run.Failure) {
	t, err := c.load(ctx, s)
	if err != nil {
		return &listed{source: s, name: name}, err
	}
	e := t.byID[id]
	if e == nil {
		return &listed{source: s, name: name}, notFound(name, near(name, t.near), nil)
	}
	return e.listed, nil
}

// unqualified is why a name without a namespace leads nowhere where there are several
// sources: it does not say which skill is meant, or no source has such a skill.
func (c *catalog) unqualified(ctx context.Context, name, principal string) *run.Failure {
	var found, unread []string
	var known []*nearIndex
	loaded := c.loadAll(ctx, func(s *source) bool { return s.Kind != SkillSource && s.admits(principal) })
	for _, r := range loaded {
		if r.err != nil {
			unread = append(unread, r.source.Namespace)
			continue
		}
		found = append(found, names(r.source.visible(r.table.find(name), principal, max(1, maxAmbiguous/len(loaded))))...)
		known = append(known, r.table.near)
	}
	if len(found) > 0 {
		slices.Sort(found)
		return ambiguous(name, found[:min(len(found), maxAmbiguous)])
	}
	for _, s := range c.sources {
		if s.admits(principal) {
			known = append(known, s.near)
		}
	}
	return notFound(name, near(name, known...), unread)
}

// maxAmbiguous is how many skills an ambiguous name is said to stand for. A provider can
// list thousands whose ids differ in nothing but their separators.
const maxAmbiguous = 20

// namespaceOf returns the source with the longest namespace that name starts with.
func (c *catalog) namespaceOf(name string) *source {
	for i := min(len(name)-1, c.longest); i > 0; i-- {
		if name[i] == '.' || name[i] == '/' {
			if s := c.namespaces[name[:i]]; s != nil {
				return s
			}
		}
	}
	return nil
}

func (c *catalog) onlySource() *source {
	if len(c.namespaces) != 1 {
		return nil
	}
	for _, s := range c.namespaces {
		return s
	}
	return nil
}

// visible returns at most so many of the entries that a caller may learn of. Private ones
// that were read with the operator's credentials are kept from anonymous callers, unless the
// operator gave them a name or lists them.
func (s *source) visible(entries []*entry, principal string, most int) []*entry {
	all := principal != "" || s.ListPrivate || s.DiscoveryCredentials == nil
	if len(entries) == 1 && (all || !entries[0].hidden()) {
		return entries
	}
	var visible []*entry
	for _, e := range entries {
		if len(visible) == most {
			break
		}
		if all || !e.hidden() {
			visible = append(visible, e)
		}
	}
	return visible
}

// admits reports whether a caller may use the source at all.
func (s *source) admits(principal string) bool { return principal != "" || !s.RequirePrincipal }

// loaded is the result of loading one source.
type loaded struct {
	source *source
	table  *nameTable
	err    *run.Failure
}

// loadAll loads the wanted sources at the same time.
func (c *catalog) loadAll(ctx context.Context, wanted func(*source) bool) []loaded {
	var results []loaded
	for _, s := range c.sources {
		if wanted(s) {
			results = append(results, loaded{source: s})
		}
	}
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i].table, results[i].err = c.load(ctx, results[i].source) })
	}
	wg.Wait()
	return results
}

// onceKey is the key of what [ReadIndexesOnce] keeps, a *sync.Map from sources to their names.
type onceKey struct{}

// ReadIndexesOnce returns a context for several requests that are made for one answer: an
// index that one of them has read is not read again for those that begin later.
func ReadIndexesOnce(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, new(sync.Map))
}

// load reads the indexes of a source and makes its names.
func (c *catalog) load(ctx context.Context, s *source) (*nameTable, *run.Failure) {
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

// read is load, for this once.
func (c *catalog) read(ctx context.Context, s *source) (*nameTable, *run.Failure) {
	known := s.table.Load()
	if s.Kind == ProviderSource {
		index, err := s.client.Index(ctx)
		if err != nil {
			return nil, err
		}
		if known != nil && known.indexes[0] == index {
			return known, nil
		}
		return c.renew(ctx, s, []*document.Index{index}), nil
	}
	indexes, err := s.answers(ctx)
	if err != nil {
		return nil, err
	}
	if known != nil && slices.Equal(known.indexes, indexes) {
		return known, nil
	}
	return c.renew(ctx, s, indexes), nil
}

// renew makes the names of a source anew.
func (c *catalog) renew(ctx context.Context, s *source, indexes []*document.Index) *nameTable {
	t := c.nameTable(ctx, s, indexes)
	s.Faults.keep(t, s.table.Swap(t))
	return t
}

// known returns the names of a source as far as they are known without asking it; nil:
// they are not.
func (c *catalog) known(ctx context.Context, s *source) *nameTable {
	if t := s.table.Load(); t != nil {
		return t
	}
	var indexes []*document.Index // which an earlier configuration may have read
	if s.Kind == ProviderSource {
		indexes = []*document.Index{s.client.PeekIndex()}
	} else {
		for _, t := range s.types() {
			indexes = append(indexes, s.client.PeekRegistry(t))
		}
	}
	if slices.Contains(indexes, nil) {
		return nil
	}
	return c.renew(ctx, s, indexes)
}

// types are those that a registry is asked for; the empty one is all.
func (s *source) types() []document.CapabilityType {
	if len(s.CapabilityTypes) == 0 {
		return []document.CapabilityType{""}
	}
	return s.CapabilityTypes
}

// purge forgets a source's documents.
func (c *catalog) purge(ctx context.Context, s *source) {
	if s.Kind != SkillSource {
		if t := c.known(ctx, s); t != nil {
			for _, e := range t.entries {
				s.client.Forget(e.listed.descriptor)
			}
		}
	}
	switch s.Kind {
	case ProviderSource:
		s.client.ForgetIndex()
	case RegistrySource:
		for _, t := range s.types() {
			s.client.ForgetRegistry(t)
		}
	case SkillSource:
		s.client.Forget(directly(s).descriptor)
	}
}

// purgeSkill forgets one descriptor, by the skill's id or name. It reports whether
// the source is known to have it.
func (c *catalog) purgeSkill(ctx context.Context, s *source, id string) bool {
	if s.Kind == SkillSource {
		l := directly(s)
		known := id == s.Namespace
		if doc, _ := s.client.Peek(ctx, l.descriptor); doc != nil {
			known = known || doc.Value.(*discovery.Skill).ID == id
		}
		if known {
			s.client.Forget(l.descriptor)
		}
		return known
	}
	t := c.known(ctx, s)
	if t == nil {
		return false
	}
	found := t.find(id)
	for _, e := range found {
		s.client.Forget(e.listed.descriptor)
	}
	return len(found) > 0
}

// answers reads the answers of a registry for each of the wanted types.
func (s *source) answers(ctx context.Context) ([]*document.Index, *run.Failure) {
	types := s.types()
	indexes := make([]*document.Index, len(types))
	errs := make([]*run.Failure, len(types))
	var g errgroup.Group
	for i, t := range types {
		g.Go(func() error {
			indexes[i], errs[i] = s.client.Registry(ctx, t)
			return nil
		})
	}
	_ = g.Wait() // errors are in errs
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return indexes, nil
}

// wants reports whether the source is restricted to other types than t.
func (s *source) wants(t document.CapabilityType) bool {
	return len(s.CapabilityTypes) == 0 || slices.Contains(s.CapabilityTypes, t)
}
