package agentskills

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// listing reads the skills that a caller may see.
type listing struct {
	site   *Site
	caller run.Caller

	mu             sync.Mutex
	skills         []listed
	tools          names          // of the skills; nil: no list was read
	closed, failed int            // sources, on all pages
	known          bool           // the list of a source could be read
	limited        bool           // a limit of the bridge as a whole prevented the reading
	fresh          time.Time      // the end of the freshness of the lists; zero: they are incomplete
	left           map[string]int // how many skills of a source are not read, by namespace
}

// listed is a skill of a list, without its descriptor and its files: those of all skills may take any memory.
type listed struct {
	source  string
	content *content // nil: it has none, or the source has no more room
}

// read reads what a caller may see.
func (s *Site) read(ctx context.Context, caller run.Caller) (*view, error) {
	began := time.Now()
	l := &listing{site: s, caller: caller, left: map[string]int{}}
	l.read(ctx)
	if l.limited || !l.known && l.failed > 0 {
		return nil, errUnavailable
	}
	v := &view{fresh: l.fresh, closed: len(l.skills) == 0 && l.closed > 0}
	s.fill(v, l.skills)
	for i := range l.skills {
		l.left[l.skills[i].source]++
	}
	for _, c := range v.contents {
		l.left[c.source]--
	}
	s.noteLeftOut(ctx, l.left)
	pause := min(max(recheck, costFactor*time.Since(began)), longestRecheck)
	v.next = time.Now().Add(pause)
	return v, nil
}

// portion is what is to be read of one source.
type portion struct {
	source string
	all    int // skills that it lists
	most   int // skills that are read
}

// read reads the skills with their descriptors, and makes their contents: if there are several pages, those of several sources at a time, so that
// one that stalls does not delay others.
func (l *listing) read(ctx context.Context) {
	first := l.list(ctx, translate.Query{Limit: pageSize, Descriptors: pageSize})
	l.fresh = first.FreshUntil
	if first.NextAfter == "" || l.limited {
		l.add(ctx, first.Skills, new(int))
		return
	}
	var reads panics.Group
	reads.SetLimit(sourcesAtOnce)
	for _, p := range portionsOf(l.list(ctx, translate.Query{}).Skills) {
		reads.Go(func() { l.readPortion(ctx, p) })
	}
	reads.Wait()
	if ctx.Err() != nil {
		l.fresh = time.Time{}
	}
	slices.SortStableFunc(l.skills, func(a, b listed) int { return cmp.Compare(a.source, b.source) })
}

// readPortion reads the portion of a source, page by page. After the end of the context, the pages have what is in memory.
func (l *listing) readPortion(ctx context.Context, p portion) {
	size, read, unread := 0, 0, 0
	for after := ""; read < p.most; {
		limit := min(pageSize, p.most-read)
		page := l.list(ctx, translate.Query{Namespace: p.source, Limit: limit, AfterTool: after, Descriptors: limit})
		l.add(ctx, page.Skills, &size)
		if read += limit; ctx.Err() != nil {
			unread += limit - len(page.Skills)
		}
		if after = page.NextAfter; after == "" {
			read = p.all
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left[p.source] += p.all - read + unread
}

// add adds skills of a source with their contents. size is that of its texts, in bytes; a source that has more of them than a list gets no further
// ones.
func (l *listing) add(ctx context.Context, entries []catalog.Entry, size *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tools == nil {
		l.tools = newNames(l.site.Bridge.ToolNames(ctx))
	}
	for i := range entries {
		e := &entries[i]
		made := listed{source: e.Namespace}
		if *size <= maxSize {
			made.content = l.site.contentFor(&skill{file: l.tools.of(e.Tool), name: e.Name, source: e.Namespace, descriptor: e.Descriptor, files: e.Files})
		}
		if made.content != nil {
			*size += made.content.size()
		}
		l.skills = append(l.skills, made)
	}
}

// portionsOf returns the portions of the sources: if they list more than maxSkills together, those with the fewest skills have all of theirs, and
// the others equally many.
func portionsOf(entries []catalog.Entry) (portions []portion) {
	listed := map[string]int{}
	for i := range entries {
		listed[entries[i].Namespace]++
	}
	for source, n := range listed {
		portions = append(portions, portion{source: source, all: n})
	}
	slices.SortFunc(portions, func(a, b portion) int { return cmp.Or(cmp.Compare(a.all, b.all), cmp.Compare(a.source, b.source)) })
	left := maxSkills
	for i := range portions {
		p := &portions[i]
		p.most = min(p.all, left/(len(portions)-i))
		left -= p.most
	}
	return portions
}

// list returns a list of the bridge, and notes what it says of the sources.
func (l *listing) list(ctx context.Context, q translate.Query) translate.Listing {
	q.Caller = l.caller
	list := l.site.Bridge.List(ctx, q)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = l.known || list.Read > 0
	for _, u := range list.Unavailable {
		switch {
		case u.Failure.OfBridge():
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

// sourceTexts is what one source has of the texts of a list.
type sourceTexts struct {
	contents []*content // that have had no turn
	size     int        // of the texts, in bytes
}

// sharesOf returns the shares of the sources, in the order of their first skills.
func sharesOf(skills []listed) (shares []*sourceTexts) {
	bySource := map[string]*sourceTexts{}
	for _, s := range skills {
		if s.content == nil {
			continue
		}
		of := bySource[s.source]
		if of == nil {
			of = new(sourceTexts)
			bySource[s.source] = of
			shares = append(shares, of)
		}
		of.contents = append(of.contents, s.content)
	}
	return shares
}

// fill sets the contents of a view. The source with the smallest texts so far has the next turn, so that one with large texts leaves the others
// their share of maxSize.
func (s *Site) fill(v *view, skills []listed) {
	contents, size := make([]*content, 0, len(skills)), 0
	for shares := sharesOf(skills); len(shares) > 0 && len(contents) < maxSkills; {
		of := slices.MinFunc(shares, func(a, b *sourceTexts) int { return cmp.Compare(a.size, b.size) })
		c := of.contents[0]
		if of.contents = of.contents[1:]; len(of.contents) == 0 {
			shares = slices.DeleteFunc(shares, func(other *sourceTexts) bool { return other == of })
		}
		if size += c.size(); size > maxSize {
			break
		}
		of.size += c.size()
		contents = append(contents, c)
	}
	slices.SortFunc(contents, func(a, b *content) int { return byFile(a, b.file) })
	contents = withoutRepeated(contents)
	if v.list = s.knownList(contents); v.list == nil {
		v.list = newList(contents)
	}
}

// knownList returns the list of a view with the same contents; nil: there is none.
func (s *Site) knownList(contents []*content) *list {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.views {
		if slices.Equal(v.contents, contents) {
			return v.list
		}
	}
	return nil
}
