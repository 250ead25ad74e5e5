package translate

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// List returns the skills that the principal may see, and the sources that can't be read.
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
	slices.SortFunc(listing.Skills, func(a, b catalog.Entry) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(listing.Unavailable, func(a, b catalog.Unavailable) int { return strings.Compare(a.Namespace, b.Namespace) })
	x.figures.Listed, x.figures.Unavailable = len(listing.Skills), len(listing.Unavailable)
	return listing
}

// list lists one source, within the source's limit. It is called for several sources at a time.
func (x *execution) list(s *catalog.Section) ([]catalog.Entry, *run.Failure) {
	if !s.Admits(x.call.Principal) {
		return nil, anonymous()
	}
	l := &x.bridge.sources[s.Index]
	if !l.acquire() {
		return nil, l.exceeded()
	}
	own := &hold{within: &x.hold}
	defer own.end([]*limiter{l})
	return x.bridge.catalog.List(context.WithValue(x.ctx, discovery.HoldKey{}, own), s, x.call.Principal)
}

// unreadable is the notice that the skills of a source are missing from a list.
func unreadable(s *catalog.Section, f *run.Failure) *exchange.Notice {
	return &exchange.Notice{
		Level: slog.LevelWarn, Source: s.Namespace, Message: "the skills of a source can't be listed", Unusable: f,
		Attrs: []slog.Attr{slog.String("code", string(document.CodeOf(f))), slog.String("url", f.URL), slog.String("error", f.Text())},
	}
}
