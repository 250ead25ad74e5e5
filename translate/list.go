package translate

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// List returns the skills that the principal may see, and the sources that can't be read. It asks the sources for what is
// not in the cache: at most one index of each source, or one for each type of a registry, and Descriptors descriptors.
func (b *Bridge) List(ctx context.Context, q Query) Listing {
	return b.fromViews(ctx, q, q.Limit > 0, func(ctx context.Context, views []*catalog.View, l *Listing) []catalog.Entry {
		if q.Limit == 0 {
			all, _ := catalog.PageByName(ctx, views, "", math.MaxInt, "")
			return all
		}
		if q.ByName {
			page, more := catalog.PageByName(ctx, views, q.AfterName, q.Limit, q.CapabilityType)
			if more {
				l.NextAfter = page[len(page)-1].Name
			}
			return page
		}
		page, more := catalog.Page(ctx, views, q.AfterTool, q.Limit, q.CapabilityType)
		if more {
			l.NextAfter = page[len(page)-1].Tool
		}
		if q.Reserved > q.AfterTool {
			page = withReserved(page, l, &q)
		}
		return page
	})
}

// withReserved gives a tool that is no skill its place on the page that its name belongs to, or on the next one.
func withReserved(page []catalog.Entry, l *Listing, q *Query) []catalog.Entry {
	last := len(page) - 1
	switch {
	case len(page) < q.Limit:
		l.Reserved = true
	case page[last].Tool < q.Reserved:
		l.NextAfter = page[last].Tool
	default:
		l.Reserved, l.NextAfter = true, q.Reserved
		if last > 0 {
			l.NextAfter = max(l.NextAfter, page[last-1].Tool)
		}
		page = page[:last]
	}
	return page
}

// Search returns the skills that the principal may see and that have words of a text, best first, at most limit (see
// [catalog.Search]). It ignores the query's Limit and AfterTool.
func (b *Bridge) Search(ctx context.Context, q Query, words string, limit int) Listing {
	return b.fromViews(ctx, q, true, func(ctx context.Context, views []*catalog.View, _ *Listing) []catalog.Entry {
		return catalog.Search(ctx, views, words, limit, q.CapabilityType)
	})
}

// fromViews makes a listing of the skills that choose selects from what the caller may see of the sources. If only is true, it leaves out those whose
// descriptors were to be read and could not.
func (b *Bridge) fromViews(ctx context.Context, q Query, only bool, choose func(context.Context, []*catalog.View, *Listing) []catalog.Entry) Listing {
	l := b.beginList(ctx, q)
	defer l.end()
	views := make([]*catalog.View, len(b.sources))
	l.read(func(ctx context.Context, s *catalog.Section) (failure *run.Failure) {
		views[s.Index], failure = s.View(ctx, q.Principal)
		return failure
	})
	views = slices.DeleteFunc(views, func(v *catalog.View) bool { return v == nil })
	l.Skills = choose(l.execution.ctx, views, &l.Listing)
	if len(l.Skills) <= q.Descriptors {
		if failed := l.describe(0); only {
			l.leaveOut(failed)
		}
	}
	if l.Executable { // a list of those that can be called leaves out those that are known not to work
		n := len(l.Skills)
		l.Skills = slices.DeleteFunc(l.Skills, func(e catalog.Entry) bool { return e.Broken() })
		l.Broken = n - len(l.Skills)
	}
	b.catalog.NoteConsent(l.execution.ctx, l.Skills, q.Principal)
	if q.Usable {
		l.Skills = slices.DeleteFunc(l.Skills, func(e catalog.Entry) bool {
			return (!q.Connectable || !e.Connects) && !e.Usable(l.execution.ctx, q.Principal)
		})
	}
	return l.Listing
}

// listing is a [Listing] in the making.
type listing struct {
	Listing
	Query
	execution  *execution
	wanted     []string    // only the sources with these namespaces; nil: all
	freshUntil []time.Time // of the sources that were fresh before they were read; zero: the others
}

// wants reports whether the listing is about a source.
func (l *listing) wants(s *catalog.Section) bool {
	return (!l.Executable || s.Kind != catalog.SiteSource) && (l.Namespace == "" || l.Namespace == s.Namespace) && (l.wanted == nil || slices.Contains(l.wanted, s.Namespace))
}

func (b *Bridge) beginList(ctx context.Context, q Query) *listing {
	q.Executable = q.Executable || q.Usable
	l := &listing{Query: q, execution: b.begin(ctx, OperationList, Call{Caller: q.Caller}), freshUntil: make([]time.Time, len(b.sources))}
	l.execution.setDeadline(b.config.MaxTimeout)
	return l
}

// misses reports whether a source is among the unavailable ones.
func (l *listing) misses(s *catalog.Section) bool {
	return slices.ContainsFunc(l.Unavailable, func(u catalog.Unavailable) bool { return u.Namespace == s.Namespace })
}

// end reports the list.
func (l *listing) end() {
	x := l.execution
	x.figures.Listed, x.figures.Unavailable = len(l.Skills), len(l.Unavailable)
	if len(l.Unavailable) > 0 && callerLeft(x) {
		x.outcome = x.judge(nil, exchange.Interrupted(x.ctx, run.PhaseDiscovery, "", run.ExecutedNo))
	}
	x.end()
}

// read calls read for each source, within the limits and at the same time. If the list of a source is in memory and fresh, nothing has to be read, and
// the limits of the source do not matter.
func (l *listing) read(read func(context.Context, *catalog.Section) *run.Failure) {
	x := l.execution
	refused, role := x.acquire(&x.bridge.runs), x.bridge.catalog.Policy().Role(x.call.Principal)
	var mu sync.Mutex
	note := func(s *catalog.Section, failure *run.Failure, known bool) {
		mu.Lock()
		defer mu.Unlock()
		if known {
			l.Read++
		}
		if failure != nil {
			l.Unavailable = append(l.Unavailable, catalog.Unavailable{Namespace: s.Namespace, Failure: failure})
		}
	}
	var group panics.Group
	for _, s := range x.bridge.catalog.Sections() {
		if !l.wants(s) || !s.Knows(role) {
			continue
		}
		if l.Namespace != "" {
			x.figures.Source = l.Namespace // which is configured, so that agents can't add labels to metrics
		}
		until, _ := s.FreshUntil(x.ctx)
		switch {
		case refused != nil:
			note(s, refused, false)
		case s.Ready() && s.Admits(x.call.Principal) && time.Now().Before(until):
			l.freshUntil[s.Index] = until
			failure := read(x.ctx, s)
			note(s, failure, failure == nil)
		default:
			group.Go(func() {
				failure, known := l.readSource(s, func(ctx context.Context) (failure *run.Failure) {
					s.Stalls.Index(ctx, func(ctx context.Context) { failure = read(ctx, s) })
					return failure
				})
				note(s, failure, known)
			})
		}
	}
	group.Wait()
	l.sourcesRead()
}

// readSource calls read for one source, within the source's limit, and reports whether its list is known, also in spite of a failure. It is called for
// several sources at a time.
func (l *listing) readSource(s *catalog.Section, read func(context.Context) *run.Failure) (failure *run.Failure, known bool) {
	x := l.execution
	if !s.Admits(x.call.Principal) {
		return anonymous(), false
	}
	exceeded := x.within(x.ctx, s, func(ctx context.Context) { failure = read(ctx) })
	known, failure = failure == nil, cmp.Or(exceeded, failure)
	if failure != nil && failure.Next() != run.NextAuthenticate && failure.Kind != run.RateLimited && !callerLeft(x) {
		notice := notListed(s.Namespace, "the skills of a source can't be listed", failure)
		notice.Unusable = failure
		x.bridge.config.Observer.Notice(x.ctx, notice)
	}
	return failure, known
}

// within calls read, which reads documents of one source, within the source's limit. If that is exceeded, it returns the failure, and read gets a
// context that has ended: it has the documents that are in memory.
func (x *execution) within(ctx context.Context, s *catalog.Section, read func(context.Context)) *run.Failure {
	l := &x.bridge.sources[s.Index]
	if !l.acquire() {
		known, cancel := context.WithTimeout(ctx, 0)
		defer cancel()
		read(known)
		return l.exceeded()
	}
	own := &hold{within: &x.hold}
	defer own.end([]*limiter{l})
	read(context.WithValue(ctx, discovery.HoldKey{}, own))
	return nil
}

// ReadDescriptors reads the descriptors of skills that were listed for the caller as lists do, so that their status is known: about most bytes of them, of
// which each source has a share by its number of skills. It returns the failures by name, which the catalog may not keep.
func ReadDescriptors(ctx context.Context, b *Bridge, caller run.Caller, skills []catalog.Entry, most int64) map[string]*run.Failure {
	l := b.beginList(ctx, Query{Caller: caller})
	defer l.end()
	l.Skills = skills
	refused, failed := l.execution.acquire(&b.runs), map[string]*run.Failure{}
	if refused != nil {
		for i := range skills {
			failed[skills[i].Name] = refused
		}
		return failed
	}
	for e, failure := range l.describe(most) {
		failed[e.Name] = failure
	}
	return failed
}

// describe reads the descriptors of the skills, about most bytes of them (0: no bound), and returns the failures of those that can't be read.
func (l *listing) describe(most int64) map[*catalog.Entry]*run.Failure {
	x := l.execution
	bySource := map[*catalog.Section][]*catalog.Entry{}
	for i := range l.Skills {
		e := &l.Skills[i]
		bySource[e.Section()] = append(bySource[e.Section()], e)
	}
	failed := map[*catalog.Entry]*run.Failure{}
	var mu sync.Mutex
	var group panics.Group
	for s, own := range bySource {
		group.Go(func() {
			var failures []*run.Failure
			exceeded := x.within(x.ctx, s, func(ctx context.Context) {
				failures = catalog.ReadDescriptors(ctx, own, most/int64(len(l.Skills))*int64(len(own)))
			})
			mu.Lock()
			defer mu.Unlock()
			for i, e := range own {
				if failures[i] != nil {
					failed[e] = cmp.Or(exceeded, failures[i])
				}
			}
		})
	}
	group.Wait()
	return failed
}

// leaveOut removes the skills whose descriptors could not be read. It logs those that can't be called, and adds the sources of the others to
// Unavailable. It does not change Read: the descriptors of one page say nothing about those of the next.
func (l *listing) leaveOut(failed map[*catalog.Entry]*run.Failure) {
	if len(failed) == 0 {
		return
	}
	x := l.execution
	left := callerLeft(x)
	read, unread := map[*catalog.Section]bool{}, map[*catalog.Section]bool{} // those of which a descriptor was read, and those that are Unavailable
	for i := range l.Skills {
		e := &l.Skills[i]
		read[e.Section()] = read[e.Section()] || failed[e] == nil
		unread[e.Section()] = l.misses(e.Section())
	}
	kept := make([]catalog.Entry, 0, len(l.Skills))
	for i := range l.Skills {
		e := &l.Skills[i]
		s, failure := e.Section(), failed[e]
		switch {
		case failure == nil:
			kept = append(kept, *e)
		case unread[s]:
		case catalog.IsOfDescriptor(failure), read[s] && !catalog.MayPass(failure):
			x.bridge.config.Observer.Notice(x.ctx, notListed(e.Namespace, "a skill is not listed as a tool, since its descriptor can't be used", failure, slog.String("skill", e.Name)))
		default:
			unread[s] = true
			l.Unavailable = append(l.Unavailable, catalog.Unavailable{Namespace: s.Namespace, Failure: failure})
			if failure.Kind != run.RateLimited && !left {
				x.bridge.config.Observer.Notice(x.ctx, notListed(s.Namespace, "skills of a source can't be listed as tools, since their descriptors can't be read at the moment", failure))
			}
		}
	}
	l.Skills = kept
	l.sourcesRead()
}

// sourcesRead sets what follows from the sources that were read and those that are unavailable: when the first of their lists is no longer
// fresh (zero: one of them can't be read), and which lists are stale. Sources that the caller may not use do not count.
func (l *listing) sourcesRead() {
	slices.SortFunc(l.Unavailable, func(a, b catalog.Unavailable) int { return strings.Compare(a.Namespace, b.Namespace) })
	unread := slices.ContainsFunc(l.Unavailable, func(u catalog.Unavailable) bool {
		return u.Failure.Kind != run.AuthRequired || u.Failure.By != run.Bridge
	})
	x := l.execution
	c := x.bridge.catalog
	role := c.Policy().Role(x.call.Principal)
	var first time.Time
	l.Stale = nil
	for _, s := range c.Sections() {
		if !l.wants(s) || !s.Admits(x.call.Principal) || !s.Knows(role) {
			continue
		}
		until, stale := l.freshUntil[s.Index], (*run.Failure)(nil)
		if until.IsZero() {
			until, stale = s.FreshUntil(x.ctx)
		}
		if stale != nil && !l.misses(s) {
			l.Stale = append(l.Stale, catalog.Unavailable{Namespace: s.Namespace, Failure: stale})
		}
		unread = unread || until.IsZero()
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	if unread {
		first = time.Time{}
	}
	l.FreshUntil = first
	l.Private = c.Policy().Distinguishes() || slices.ContainsFunc(c.Sections(), (*catalog.Section).Hides)
}

// notListed is the notice that skills of a source are missing from a list.
func notListed(source, message string, f *run.Failure, attrs ...slog.Attr) *exchange.Notice {
	attrs = append(attrs, slog.String("code", string(document.CodeOf(f))), slog.String("url", f.URL), slog.String("error", f.Text()))
	return &exchange.Notice{Level: slog.LevelWarn, Source: source, Message: message, Attrs: attrs}
}
