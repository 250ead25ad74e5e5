package agentskills

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// listing reads the skills that a caller may see.
type listing struct {
	bridge Bridge
	caller run.Caller

	entries        []catalog.Entry
	closed, failed int            // sources, on all pages
	limited        bool           // a limit of the bridge prevented the reading
	fresh          time.Time      // the end of the freshness of the lists; zero: they are incomplete
	left           map[string]int // how many skills of a source are not read, by namespace
}

// read reads what a caller may see.
func (s *Site) read(ctx context.Context, caller run.Caller) (*view, error) {
	began := time.Now()
	l := &listing{bridge: s.Bridge, caller: caller, left: map[string]int{}}
	l.read(ctx)
	if l.limited || len(l.entries) == 0 && l.failed > 0 {
		return nil, errUnavailable
	}
	v := &view{fresh: l.fresh, closed: len(l.entries) == 0 && l.closed > 0}
	s.fill(ctx, v, l.entries)
	for i := range l.entries {
		l.left[l.entries[i].Namespace]++
	}
	for _, c := range v.contents {
		l.left[c.source]--
	}
	s.noteLeftOut(ctx, l.left)
	pause := min(max(recheck, costFactor*time.Since(began)), longestRecheck)
	v.next = time.Now().Add(pause)
	return v, nil
}

// turn is what is to be read of one source, or of all: the skills after a tool name.
type turn struct{ source, after string }

// read reads the entries with their descriptors. If there are more than maxSkills, the sources take turns.
func (l *listing) read(ctx context.Context) {
	first := l.list(ctx, translate.Query{Limit: pageSize, Descriptors: pageSize})
	l.entries, l.fresh = first.Skills, first.FreshUntil
	if first.NextAfter == "" || l.limited {
		return
	}
	all := l.list(ctx, translate.Query{}).Skills
	all = slices.DeleteFunc(all, func(e catalog.Entry) bool { return e.Tool == "" }) // those on no page
	turns := []turn{{after: first.NextAfter}}
	if len(all) > maxSkills {
		l.entries, turns = nil, turnsOf(all)
	}
	for len(turns) > 0 && !l.ends(ctx) {
		size := min(pageSize, max(1, (maxSkills-len(l.entries))/len(turns)))
		next := turns[:0]
		for _, t := range turns {
			if !l.ends(ctx) {
				page := l.list(ctx, translate.Query{Namespace: t.source, Limit: size, AfterTool: t.after, Descriptors: size})
				l.entries = append(l.entries, page.Skills...)
				if t.after = page.NextAfter; t.after == "" {
					continue
				}
			}
			next = append(next, t)
		}
		turns = next
	}
	if ctx.Err() != nil {
		l.fresh = time.Time{}
	}
	for _, t := range turns {
		for i := range all {
			if e := &all[i]; e.Tool > t.after && (t.source == "" || t.source == e.Namespace) {
				l.left[e.Namespace]++
			}
		}
	}
}

// ends reports whether no more skills are read.
func (l *listing) ends(ctx context.Context) bool {
	return len(l.entries) >= maxSkills || l.limited || ctx.Err() != nil
}

// turnsOf returns a turn for each source.
func turnsOf(entries []catalog.Entry) (turns []turn) {
	known := map[string]bool{}
	for i := range entries {
		if source := entries[i].Namespace; !known[source] {
			known[source] = true
			turns = append(turns, turn{source: source})
		}
	}
	return turns
}

// list returns a list of the bridge, and notes what it says of the sources.
func (l *listing) list(ctx context.Context, q translate.Query) translate.Listing {
	q.Caller = l.caller
	list := l.bridge.List(ctx, q)
	for _, u := range list.Unavailable {
		switch {
		case u.Failure.Kind == run.RateLimited && u.Failure.By == run.Bridge:
			l.limited = true
		case u.Failure.Demand != nil && u.Failure.Demand.CallerActs:
			l.closed++
		default:
			l.failed++
		}
	}
	if list.FreshUntil.Before(l.fresh) {
		l.fresh = list.FreshUntil
	}
	return list
}

// noteLeftOut reports of which sources more skills than ever have no file.
func (s *Site) noteLeftOut(ctx context.Context, left map[string]int) {
	for source, n := range left {
		s.mu.Lock()
		grown := n > s.leftOut[source]
		if grown {
			s.leftOut[source] = n
		}
		s.mu.Unlock()
		if grown && s.LeftOut != nil {
			s.LeftOut(ctx, source, n)
		}
	}
}

// share is what one source has of the texts of a list.
type share struct {
	entries []*catalog.Entry // that have had no turn
	size    int              // of the texts, in bytes
}

// sharesOf returns the shares of the sources, in the order of their first entries.
func sharesOf(entries []catalog.Entry) (shares []*share) {
	bySource := map[string]*share{}
	for i := range entries {
		e := &entries[i]
		of := bySource[e.Namespace]
		if of == nil {
			of = new(share)
			bySource[e.Namespace] = of
			shares = append(shares, of)
		}
		of.entries = append(of.entries, e)
	}
	return shares
}

// fill sets the contents of a view. The source with the smallest texts so far has the next turn, so that one with large texts leaves the others
// their share of maxSize.
func (s *Site) fill(ctx context.Context, v *view, entries []catalog.Entry) {
	tools := s.namesAfter(ctx, time.Now())
	v.contents = make([]*content, 0, len(entries))
	size := 0
	for shares := sharesOf(entries); len(shares) > 0 && len(v.contents) < maxSkills; {
		of := slices.MinFunc(shares, func(a, b *share) int { return cmp.Compare(a.size, b.size) })
		e := of.entries[0]
		if of.entries = of.entries[1:]; len(of.entries) == 0 {
			shares = slices.DeleteFunc(shares, func(other *share) bool { return other == of })
		}
		c := s.contentFor(&skill{file: tools.of(e.Tool), name: e.Name, source: e.Namespace, descriptor: e.Descriptor, files: e.Files})
		if c == nil {
			continue
		}
		if size += c.size(); size > maxSize {
			break
		}
		of.size += c.size()
		v.contents = append(v.contents, c)
	}
	slices.SortFunc(v.contents, func(a, b *content) int { return byFile(a, b.file) })
	v.contents = withoutRepeated(v.contents)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range s.contents {
		if time.Since(c.seen) > keep {
			delete(s.contents, name)
		}
	}
	for _, other := range s.views {
		if slices.Equal(other.contents, v.contents) {
			v.contents = other.contents // the same memory
			return
		}
	}
}
