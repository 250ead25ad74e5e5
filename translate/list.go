package translate

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// List returns the skills that the principal may see. Sources that can't be read
// are named; they keep nothing from the others.
func (b *Bridge) List(ctx context.Context, q Query) Listing {
	x := b.begin(ctx, Call{Caller: q.Caller})
	defer x.release()
	x.setDeadline(b.config.MaxTimeout)
	listing := b.list(x, q)
	x.figures.Listed, x.figures.Unavailable = len(listing.Skills), len(listing.Unavailable)
	if slices.ContainsFunc(b.catalog.sources, func(s *source) bool { return s.Namespace == q.Namespace }) {
		x.figures.Source = q.Namespace // which agents can't make up
	}
	x.report(OperationList)
	return listing
}

func (b *Bridge) list(x *execution, q Query) Listing {
	ctx, refused := x.ctx, x.admit()
	var (
		listing Listing
		mu      sync.Mutex
		wg      sync.WaitGroup
	)
	for _, s := range b.catalog.sources {
		if q.Namespace != "" && q.Namespace != s.Namespace {
			continue
		}
		if refused != nil {
			listing.Unavailable = append(listing.Unavailable, Unavailable{s.Namespace, b.runs.busy()})
			continue
		}
		wg.Go(func() {
			entries, failure := b.listSource(ctx, &x.stay, s, q.Principal)
			if failure != nil && failure.Next() != run.NextAuthenticate && failure.Kind != run.RateLimited {
				b.config.Observer.Notice(ctx, unreadable(s, failure))
			}
			mu.Lock()
			defer mu.Unlock()
			listing.Skills = append(listing.Skills, entries...)
			if failure != nil {
				listing.Unavailable = append(listing.Unavailable, Unavailable{s.Namespace, failure})
			}
		})
	}
	wg.Wait()
	slices.SortFunc(listing.Skills, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(listing.Unavailable, func(a, b Unavailable) int { return strings.Compare(a.Namespace, b.Namespace) })
	return listing
}

// unreadable tells the operator why the skills of a source are missing from a list.
func unreadable(s *source, f *run.Failure) *exchange.Notice {
	return &exchange.Notice{
		Level: slog.LevelWarn, Source: s.Namespace, Message: "the skills of a source can't be listed", Unusable: f,
		Attrs: []slog.Attr{slog.String("code", string(document.CodeOf(f))), slog.String("url", f.URL), slog.String("error", f.Message)},
	}
}

func (b *Bridge) listSource(ctx context.Context, within *stay, s *source, principal string) ([]Entry, *run.Failure) {
	if !s.admits(principal) {
		return nil, anonymous()
	}
	if !s.runs.take() {
		return nil, s.runs.busy()
	}
	own := &stay{within: within}
	defer own.end([]*places{&s.runs})
	ctx = &stayContext{ctx, own}
	if s.Kind == SkillSource {
		skill, err := s.client.Skill(ctx, directly(s).descriptor)
		if err != nil {
			return nil, err
		}
		return []Entry{{
			Name: s.Namespace, Namespace: s.Namespace, Version: skill.Version, Description: skill.Description,
			CapabilityType: skill.CapabilityType, Access: skill.Access,
		}}, nil
	}
	t, err := b.catalog.load(ctx, s)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, e := range t.entries {
		if e.hidden() && principal == "" && !s.ListPrivate {
			continue
		}
		entries = append(entries, Entry{
			Name: e.name, Namespace: s.Namespace, Version: e.Version, Description: e.Description,
			CapabilityType: e.CapabilityType, Access: e.Access,
		})
	}
	return entries, nil
}

// byRef finds the skill of a run, by its exact id.
func (c *catalog) byRef(ctx context.Context, ref run.Ref) (*listed, *run.Failure) {
	for _, s := range c.sources {
		switch {
		case s.Namespace != ref.Source:
		case s.Kind == SkillSource:
			l := directly(s)
			l.id = ref.SkillID
			return l, nil
		default:
			return c.lookUpID(ctx, s, ref.SkillID, ref.SkillID)
		}
	}
	return nil, notFound(ref.SkillID, nil, nil)
}
