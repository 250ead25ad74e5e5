package translate

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// List returns the skills that the principal may see, and the sources that can't be read. It asks the sources for what is
// not in the cache: at most one index of each source, or one for each type of a registry, and Descriptors descriptors.
func (b *Bridge) List(ctx context.Context, q Query) Listing {
	x := b.begin(ctx, OperationList, Call{Caller: q.Caller})
	defer x.end()
	x.setDeadline(b.config.MaxTimeout)
	refused := x.acquire(&b.runs)
	var (
		listing Listing
		mu      sync.Mutex
		wg      sync.WaitGroup
	)
	for _, s := range b.catalog.Sections() {
		if q.Namespace != "" && q.Namespace != s.Namespace {
			continue
		}
		if q.Namespace != "" {
			x.figures.Source = q.Namespace // which is configured, so that agents can't add labels to metrics
		}
		if refused != nil {
			listing.Unavailable = append(listing.Unavailable, catalog.Unavailable{Namespace: s.Namespace, Failure: refused})
			continue
		}
		wg.Go(func() {
			entries, failure := x.list(s)
			if failure != nil && failure.Next() != run.NextAuthenticate && failure.Kind != run.RateLimited {
				b.config.Observer.Notice(x.ctx, unreadable(s, failure))
			}
			mu.Lock()
			defer mu.Unlock()
			listing.Skills = append(listing.Skills, entries...)
			if failure != nil {
				listing.Unavailable = append(listing.Unavailable, catalog.Unavailable{Namespace: s.Namespace, Failure: failure})
			}
		})
	}
	wg.Wait()
	if len(listing.Skills) <= q.Descriptors {
		x.describe(listing.Skills)
	}
	listing.FreshUntil = x.freshUntil(q.Namespace, listing.Unavailable)
	slices.SortFunc(listing.Skills, func(a, b catalog.Entry) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(listing.Unavailable, func(a, b catalog.Unavailable) int { return strings.Compare(a.Namespace, b.Namespace) })
	x.figures.Listed, x.figures.Unavailable = len(listing.Skills), len(listing.Unavailable)
	return listing
}

// list lists one source, within the source's limit. It is called for several sources at a time.
func (x *execution) list(s *catalog.Section) (entries []catalog.Entry, failure *run.Failure) {
	if !s.Admits(x.call.Principal) {
		return nil, anonymous()
	}
	exceeded := x.within(x.ctx, s, func(ctx context.Context) {
		entries, failure = x.bridge.catalog.List(ctx, s, x.call.Principal)
	})
	return entries, cmp.Or(exceeded, failure)
}

// within calls read, which reads documents of one source, within the source's limit.
func (x *execution) within(ctx context.Context, s *catalog.Section, read func(context.Context)) *run.Failure {
	l := &x.bridge.sources[s.Index]
	if !l.acquire() {
		return l.exceeded()
	}
	own := &hold{within: &x.hold}
	defer own.end([]*limiter{l})
	read(context.WithValue(ctx, discovery.HoldKey{}, own))
	return nil
}

// describe reads the descriptors of skills, of which those of a source follow one another. A source above its limit is
// left out.
func (x *execution) describe(skills []catalog.Entry) {
	ctx, cancel := context.WithTimeout(x.ctx, discoveryTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for len(skills) > 0 {
		n := 1
		for n < len(skills) && skills[n].Section() == skills[0].Section() {
			n++
		}
		own := skills[:n]
		skills = skills[n:]
		wg.Go(func() {
			_ = x.within(ctx, own[0].Section(), func(ctx context.Context) { catalog.ReadDescriptors(ctx, own) })
		})
	}
	wg.Wait()
}

// freshUntil returns when the first of the listed sources' lists is no longer fresh; zero: one of them can't be read.
// Sources that the caller may not use do not count.
func (x *execution) freshUntil(namespace string, unavailable []catalog.Unavailable) (first time.Time) {
	for _, u := range unavailable {
		if u.Failure.Kind != run.AuthRequired || u.Failure.By != run.Bridge {
			return time.Time{}
		}
	}
	for _, s := range x.bridge.catalog.Sections() {
		if namespace != "" && namespace != s.Namespace || !s.Admits(x.call.Principal) {
			continue
		}
		until := s.FreshUntil(x.ctx)
		if until.IsZero() {
			return until
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	return first
}

// unreadable is the notice that the skills of a source are missing from a list.
func unreadable(s *catalog.Section, f *run.Failure) *exchange.Notice {
	return &exchange.Notice{
		Level: slog.LevelWarn, Source: s.Namespace, Message: "the skills of a source can't be listed", Unusable: f,
		Attrs: []slog.Attr{slog.String("code", string(document.CodeOf(f))), slog.String("url", f.URL), slog.String("error", f.Text())},
	}
}
