package browse

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/search"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// pageLimits bound the work for one page, here and at the providers. The sources of a
// page share them fairly: a source with many or large skills does not displace others.
type pageLimits struct {
	rows           int           // skills of a list
	results        int           // skills of the results of a search
	documents      int64         // bytes of descriptors after which no further one is read
	listing, whole time.Duration // for reading the indexes, and for the whole page
}

var standardPageLimits = pageLimits{rows: 200, results: 100, documents: 8 << 20, listing: 6 * time.Second, whole: 10 * time.Second}

// Bounds of one text, in characters, and of lists.
const (
	maxShownName   = 200
	maxShownText   = 1000
	maxRowText     = 200
	maxShownInputs = 100
	maxShownList   = 20
	maxShownLink   = 2000
)

// natural is the order of names and tags on a page.
var natural = search.Natural

// bySource is the order of sources on a page. The skills that were configured one by one, which have no namespace, are the last.
func bySource(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(b, a)
	}
	return natural(a, b)
}

// maxHits bounds the results of a search of which a filter selects those that are shown.
const maxHits = 1000

// pageMaker fills a page with the skills that one caller may see.
type pageMaker struct {
	bridge    *translate.Bridge
	limits    pageLimits
	principal string
	page      *Page
	now       time.Time

	curlOptions         []string // for the A2A endpoint
	agent, agentVersion string   // URL and newest version of the A2A endpoint; empty: there is none
	needsPrincipal      bool     // callers of the endpoint have to authenticate
	account             func(ctx context.Context, principal, namespace string) (link string, connected bool)
}

// all makes the page of the skills that a filter selects, and returns its HTTP status.
func (m *pageMaker) all(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, m.limits.whole)
	defer cancel()
	ctx = catalog.ReadIndexesOnce(ctx)
	f := &m.page.Filter
	reading, stop := context.WithTimeout(ctx, m.limits.listing)
	listing := m.bridge.List(reading, translate.Query{Caller: run.Caller{Principal: m.principal}})
	stop()
	for _, u := range listing.Unavailable {
		m.page.Unavailable = append(m.page.Unavailable, Unavailable{plain(u.Namespace, maxShownName), m.reason(u.Failure)})
	}
	m.page.Skills = len(listing.Skills)
	m.sources(listing.Skills)
	if f.Namespace != "" && !slices.ContainsFunc(listing.Skills, func(e catalog.Entry) bool { return e.Namespace == f.Namespace }) {
		return m.nothing(slices.DeleteFunc(listing.Unavailable, func(u catalog.Unavailable) bool { return u.Namespace != f.Namespace }))
	}
	if f.Words != "" {
		m.search(ctx)
	} else {
		m.groups(ctx, listing.Skills)
	}
	tags := map[string]int{}
	for i := range m.page.Groups {
		m.page.Hidden += m.page.Groups[i].Hidden
		for j := range m.page.Groups[i].Skills {
			for _, tag := range m.page.Groups[i].Skills[j].Tags {
				tags[tag]++
			}
		}
	}
	m.page.Choices = f.choices(tags)
	return http.StatusOK
}

// nothing makes the page of a namespace without skills for this caller, and returns
// its HTTP status. A source whose skills are all hidden from the caller has the same
// answer as a namespace that does not exist.
func (m *pageMaker) nothing(unavailable []catalog.Unavailable) int {
	if len(unavailable) == 0 {
		m.page.Problem = "There is no source “" + m.page.Filter.Namespace + "” here with skills that you may see."
		return http.StatusNotFound
	}
	for _, u := range unavailable {
		if u.Failure.Next() == run.NextAuthenticate {
			return http.StatusForbidden
		}
	}
	return http.StatusOK
}

// sources lists the sources of skills, with links to their pages if there are several.
func (m *pageMaker) sources(entries []catalog.Entry) {
	totals := map[string]int{}
	for i := range entries {
		totals[groupOf(entries[i].Name, entries[i].Namespace)]++
	}
	for _, namespace := range slices.SortedFunc(maps.Keys(totals), bySource) {
		s := Source{Namespace: namespace, Total: totals[namespace]}
		if namespace != "" {
			s.Link = Filter{Namespace: namespace}.Link()
		}
		m.page.Sources = append(m.page.Sources, s)
	}
}

// search makes the group of the results of a search.
func (m *pageMaker) search(ctx context.Context) {
	f := &m.page.Filter
	ctx, cancel := context.WithTimeout(ctx, m.limits.listing)
	defer cancel()
	found := m.bridge.Search(ctx, translate.Query{Caller: run.Caller{Principal: m.principal}, Namespace: f.Namespace}, f.Words, maxHits)
	selected := m.selected(ctx, found.Skills)
	shown := selected[:min(len(selected), m.limits.results)]
	group := Group{Results: true, Total: len(selected), Hidden: len(selected) - len(shown)}
	for _, e := range shown {
		group.Skills = append(group.Skills, m.row(ctx, e, nil))
	}
	m.page.Found = len(selected)
	if len(selected) > 0 {
		m.page.Groups = []Group{group}
	}
}

// selected returns the entries that the filter selects. If the filter says so, it reads descriptors that are needed for that and not known, no more than
// a list without a filter does. Which ones these are is left to chance, so that those that can't be read do not stay in the way of others.
func (m *pageMaker) selected(ctx context.Context, entries []catalog.Entry) []*catalog.Entry {
	f := &m.page.Filter
	selected, unread := m.choose(ctx, entries)
	if f.Read && len(unread) > 0 {
		rand.Shuffle(len(unread), func(i, j int) { unread[i], unread[j] = unread[j], unread[i] }) //nolint:gosec // no secret depends on it
		var some []*catalog.Entry
		for _, s := range m.share(unread) {
			some = append(some, s.skills[:s.share]...)
		}
		m.read(ctx, some)
		selected, unread = m.choose(ctx, entries)
	}
	if m.page.Unread = len(unread); m.page.Unread > 0 {
		read := *f
		read.Read = true
		m.page.Read = read.Link()
	}
	return selected
}

// sharing are skills of a source, and how many of them have a place on the page.
type sharing struct {
	namespace string
	skills    []*catalog.Entry
	share     int
}

// share divides the places of a page among the sources of skills, which are in the order of the page.
func (m *pageMaker) share(skills []*catalog.Entry) []sharing {
	all := map[string][]*catalog.Entry{}
	for _, e := range skills {
		namespace := groupOf(e.Name, e.Namespace)
		all[namespace] = append(all[namespace], e)
	}
	sources, sizes := make([]sharing, 0, len(all)), make([]int, 0, len(all))
	for _, namespace := range slices.SortedFunc(maps.Keys(all), bySource) {
		sources, sizes = append(sources, sharing{namespace: namespace, skills: all[namespace]}), append(sizes, len(all[namespace]))
	}
	for i, share := range fairShares(m.limits.rows, sizes) {
		sources[i].share = share
	}
	return sources
}

// choose returns the entries that the filter selects, and those of which that is not known.
func (m *pageMaker) choose(ctx context.Context, entries []catalog.Entry) (selected, unread []*catalog.Entry) {
	f := &m.page.Filter
	selected = make([]*catalog.Entry, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		if f.Namespace != "" && e.Namespace != f.Namespace {
			continue
		}
		ok, unknown := f.selects(e, func() catalog.SkillStatus { return e.Status(ctx, m.principal) })
		switch {
		case ok:
			selected = append(selected, e)
		case unknown:
			unread = append(unread, e)
		}
	}
	return selected, unread
}

// groups makes the groups of the skills that the filter selects, in their natural order. Descriptors that are not known are read, unless
// the filter asks for states or tags, so that a filter has the same result as long as nothing is read.
func (m *pageMaker) groups(ctx context.Context, entries []catalog.Entry) {
	f := &m.page.Filter
	selected := m.selected(ctx, entries)
	m.page.Found = len(selected)
	sources := m.share(selected)
	shown := make([][]*catalog.Entry, len(sources))
	m.page.Groups = make([]Group, len(sources))
	for i, s := range sources {
		namespace, all, from := s.namespace, s.skills, 0
		group := &m.page.Groups[i]
		*group = Group{Namespace: namespace, Total: len(all)}
		if f.Namespace != "" {
			from = min(f.From, len(all))
		}
		to := min(from+s.share, len(all))
		if from > 0 {
			group.Before = f.of(f.Namespace, max(from-s.share, 0)).Link()
		}
		switch {
		case to == len(all):
		case f.Namespace != "":
			group.More = f.of(f.Namespace, to).Link()
		case namespace != "":
			group.More = f.of(namespace, 0).Link()
		}
		m.connect(ctx, group, namespace)
		slices.SortFunc(all, func(a, b *catalog.Entry) int { return natural(a.Name, b.Name) })
		shown[i] = all[from:to]
		group.Hidden = len(all) - len(shown[i])
	}
	var failed map[string]*run.Failure
	if f.State == "" && f.Tag == "" {
		failed = m.read(ctx, slices.Concat(shown...))
	}
	for i := range shown {
		for _, e := range shown[i] {
			m.page.Groups[i].Skills = append(m.page.Groups[i].Skills, m.row(ctx, e, failed[e.Name]))
		}
	}
}

// connect adds the link of the caller's account at a source to a group. Skills that were configured one by one have one each, on their pages.
func (m *pageMaker) connect(ctx context.Context, group *Group, namespace string) {
	if m.account != nil && namespace != "" {
		group.Account, group.Connected = m.account(ctx, m.principal, namespace)
	}
}

// read reads the descriptors of skills that are not known, or no longer fresh, so that the page can say what can't be called. It returns the failures, which
// the catalog may not keep: they may be the page's own.
func (m *pageMaker) read(ctx context.Context, shown []*catalog.Entry) map[string]*run.Failure {
	skills := make([]catalog.Entry, len(shown))
	for i, e := range shown {
		skills[i] = *e
	}
	return translate.ReadDescriptors(ctx, m.bridge, run.Caller{Principal: m.principal}, skills, m.limits.documents)
}

// row returns what lists show of a skill. failed is the failure of reading its descriptor for this page; nil: there is none.
func (m *pageMaker) row(ctx context.Context, e *catalog.Entry, failed *run.Failure) Skill {
	status := e.Status(ctx, m.principal)
	s := Skill{
		Name: plain(e.Name, maxShownName), Title: plain(e.Title, maxShownName), Namespace: groupOf(e.Name, e.Namespace),
		Version: plain(e.Version, maxShownName), Description: plain(e.Description, maxRowText),
		CapabilityType: plain(string(e.CapabilityType), maxShownName), Access: plain(string(e.Access), maxShownName),
	}
	s.State, s.Since = status.State()
	s.Ago = m.ago(s.Since)
	if s.State == catalog.Unknown && failed != nil {
		s.State, status.Fault = catalog.StateOf(nil, failed), failed
	}
	if status.Fault != nil {
		s.Reason = plain(m.reason(status.Fault), maxRowText)
	}
	if v := status.Skill; v != nil {
		s.Title, s.Version, s.Description, s.Tags = plain(v.Name, maxShownName), plain(v.Version, maxShownName), plain(v.Description, maxRowText), tags(v.Tags)
	}
	return s
}

func tags(all []string) []string {
	shown := make([]string, min(len(all), maxShownList))
	for i := range shown {
		shown[i] = plain(all[i], maxShownName)
	}
	return shown
}

// ago returns how long ago a time was, in its largest unit; empty: it is not known, or less than a minute ago.
func (m *pageMaker) ago(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, " d"}, {time.Hour, " h"}, {time.Minute, " min"}} {
		if n := m.now.Sub(since) / unit.length; n > 0 {
			return strconv.Itoa(int(n)) + unit.name
		}
	}
	return ""
}

// fairShares divides most among sources by max-min fairness: a source gets all that it
// wanted if that is no more than an equal share, and the others get equal shares.
func fairShares(most int, wanted []int) []int {
	shares, order := make([]int, len(wanted)), make([]int, len(wanted))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(wanted[i], wanted[j]) })
	for n, i := range order {
		shares[i] = min(wanted[i], most/(len(order)-n))
		most -= shares[i]
	}
	return shares
}

// groupOf returns the namespace under which the page shows a skill: "" for a skill that
// is configured by itself, whose namespace is its own name.
func groupOf(name, namespace string) string {
	if name == namespace {
		return ""
	}
	return namespace
}

// reason returns the text of a failure.
func (m *pageMaker) reason(f *run.Failure) string {
	switch {
	case f.Kind == run.VersionIncompatible && len(f.Violations) > 0:
		return "It needs version " + plain(strings.Trim(string(f.Violations[0].Actual), `"`), maxShownName) + " of the Skill Sharing Protocol; this bridge speaks version " +
			strconv.Itoa(document.ConsumerMajor) + "."
	case f.Next() == run.NextConnect:
		return "It acts in an account of yours, which you have not connected, or not for all that it does."
	case f.Kind == run.DeadlineExceeded: // the page's time limit; the failure's text is about the timeout of calls
		return "It did not answer in time."
	}
	return cmp.Or(plain(f.Text(), maxShownText), "The bridge failed because of a bug.")
}

// plain returns a text as one line with at most limit characters.
func plain(s string, limit int) string { return safetext.TrimmedLine(s, limit) }

// link returns a link from a provider, or no link if it is not a valid http or https URL.
func link(text string) Link {
	if len(text) > maxShownLink {
		return Link{}
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || plain(text, len(text)) != text {
		return Link{}
	}
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil || host == "" {
		return Link{}
	}
	return Link{u.String(), host}
}
