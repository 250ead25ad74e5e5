package browse

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/idna"
	"golang.org/x/sync/errgroup"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// pageLimits bound the work for one page, here and at the providers. The sources of a
// page share them fairly: a source with many or large skills does not displace others.
type pageLimits struct {
	described, named int           // skills shown in full, and skills shown at least by name
	text             int           // bytes of the providers' texts about the described skills
	documents        int           // bytes of descriptors after which no further one is read
	listing, whole   time.Duration // for reading the indexes, and for the whole page
}

var standardPageLimits = pageLimits{described: 200, named: 2000, text: 2 << 20, documents: 8 << 20, listing: 6 * time.Second, whole: 10 * time.Second}

// descriptorsAtOnce is how many descriptors of a source one page reads at a time.
const descriptorsAtOnce = 4

// Bounds of one text, in characters, and of lists.
const (
	maxShownName   = 200
	maxShownText   = 1000
	maxShownInputs = 100
	maxShownList   = 20
	maxShownLink   = 2000
)

// pageMaker fills a page with the skills that one caller may see.
type pageMaker struct {
	bridge    *translate.Bridge
	limits    pageLimits
	principal string
	page      *Page
	used      int // bytes of texts

	curlOptions         []string // for the A2A endpoint
	agent, agentVersion string   // URL and newest version of the A2A endpoint; empty: there is none
}

// one makes the page of a single skill and returns its HTTP status.
func (m *pageMaker) one(ctx context.Context, name string) int {
	ctx, cancel := context.WithTimeout(ctx, m.limits.whole)
	defer cancel()
	m.page.Skill = plain(name, maxShownName)
	d, failure := m.bridge.Describe(ctx, translate.Call{Caller: run.Caller{Principal: m.principal}, Name: name})
	if failure != nil && (failure.Kind == run.SkillNotFound || failure.Kind == run.InvalidArguments) {
		m.page.Problem = m.reason(failure)
		return http.StatusNotFound
	}
	if failure != nil && failure.Next() == run.NextAuthenticate {
		m.page.Problem = m.reason(failure)
		return http.StatusForbidden
	}
	skill := Skill{Name: m.page.Skill}
	namespace := ""
	if d != nil { // also set if the skill was found but its descriptor can't be read
		namespace = groupOf(d.Name, d.Namespace)
		skill.Name, skill.Namespace = m.text(d.Name, maxShownName), namespace
	}
	if failure == nil {
		skill.CapabilityType, skill.Access = m.text(string(d.Descriptor.CapabilityType), maxShownName), m.text(string(d.Descriptor.Access), maxShownName)
	}
	m.describe(&skill, described{d, failure})
	m.page.Skills = 1
	m.page.Groups = []Group{{Namespace: namespace, Skills: []Skill{skill}, Total: 1}}
	return http.StatusOK
}

// all makes the page of all skills, or of the skills of one namespace, and returns
// its HTTP status.
func (m *pageMaker) all(ctx context.Context, namespace string) int {
	ctx, cancel := context.WithTimeout(ctx, m.limits.whole)
	defer cancel()
	ctx = catalog.ReadIndexesOnce(ctx)
	m.page.Namespace = plain(namespace, maxShownName)
	listing := m.list(ctx, namespace)
	for _, u := range listing.Unavailable {
		m.page.Unavailable = append(m.page.Unavailable, Unavailable{m.text(u.Namespace, maxShownName), m.reason(u.Failure)})
	}
	if len(listing.Skills) == 0 && namespace != "" {
		return m.nothing(listing.Unavailable)
	}
	m.page.Skills = len(listing.Skills)
	portions := m.portions(listing.Skills)
	m.describeAll(portions, m.read(ctx, portions))
	return http.StatusOK
}

// nothing makes the page of a namespace without skills for this caller, and returns
// its HTTP status. A source whose skills are all hidden from the caller has the same
// answer as a namespace that does not exist.
func (m *pageMaker) nothing(unavailable []catalog.Unavailable) int {
	if len(unavailable) == 0 {
		m.page.Problem = "There is no source “" + m.page.Namespace + "” here with skills that you may see."
		return http.StatusNotFound
	}
	for _, u := range unavailable {
		if u.Failure.Next() == run.NextAuthenticate {
			return http.StatusForbidden
		}
	}
	return http.StatusOK
}

// portion is the part of the page about one source.
type portion struct {
	group     *Group
	described []catalog.Entry // the skills to describe, the first of the group
	done      int             // how many of them were described so far
	said      int             // bytes of text in their descriptions
}

// portions makes the groups with the names of the skills, and chooses the skills of
// each group that are to be described.
func (m *pageMaker) portions(entries []catalog.Entry) []portion {
	bySource := map[string][]catalog.Entry{} // in the order of entries, sorted by name
	for _, e := range entries {
		namespace := groupOf(e.Name, e.Namespace)
		bySource[namespace] = append(bySource[namespace], e)
	}
	namespaces := slices.Sorted(maps.Keys(bySource))
	sizes := make([]int, len(namespaces))
	for i, namespace := range namespaces {
		sizes[i] = len(bySource[namespace])
	}
	named := fairShares(m.limits.named, sizes)
	described := fairShares(m.limits.described, named)
	m.page.Groups = make([]Group, len(namespaces))
	portions := make([]portion, len(namespaces))
	for i, namespace := range namespaces {
		all, group := bySource[namespace], &m.page.Groups[i]
		*group = Group{Namespace: namespace, Total: len(all), Hidden: len(all) - named[i], Named: named[i]}
		for _, e := range all[:named[i]] {
			group.Skills = append(group.Skills, Skill{
				Name: plain(e.Name, maxShownName), Namespace: namespace, Version: plain(e.Version, maxShownName), State: stateListed,
				CapabilityType: plain(string(e.CapabilityType), maxShownName), Access: plain(string(e.Access), maxShownName),
			})
		}
		m.page.Hidden += group.Hidden
		portions[i] = portion{group: group, described: all[:described[i]]}
	}
	return portions
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

func (m *pageMaker) list(ctx context.Context, namespace string) translate.Listing {
	ctx, cancel := context.WithTimeout(ctx, m.limits.listing)
	defer cancel()
	return m.bridge.List(ctx, translate.Query{Caller: run.Caller{Principal: m.principal}, Namespace: namespace})
}

// described is the result of reading the descriptor of a skill.
type described struct {
	description *translate.Description
	failure     *run.Failure // nil: the description is complete
}

// read reads the descriptors of the skills that are to be described. It reads those of
// each source separately, so that a slow source does not delay the others. If a
// source's descriptors exceed its share of limits.documents, the rest is not read.
func (m *pageMaker) read(ctx context.Context, portions []portion) map[string]described {
	known := make(map[string]described)
	var (
		mu      sync.Mutex
		sources sync.WaitGroup
	)
	skills := 0
	for i := range portions {
		skills += len(portions[i].described)
	}
	for i := range portions {
		sources.Go(func() {
			var (
				g    errgroup.Group
				left atomic.Int64
			)
			g.SetLimit(descriptorsAtOnce)
			left.Store(int64(m.limits.documents) * int64(len(portions[i].described)) / int64(max(skills, 1)))
			for _, e := range portions[i].described {
				g.Go(func() error {
					if left.Load() < 0 {
						return nil
					}
					description, failure := m.bridge.Describe(ctx, translate.Call{Caller: run.Caller{Principal: m.principal}, Name: e.Name})
					if failure == nil {
						left.Add(-int64(len(description.Document)))
					}
					mu.Lock()
					defer mu.Unlock()
					known[e.Name] = described{description, failure}
					return nil
				})
			}
			_ = g.Wait() // failures are in known
		})
	}
	sources.Wait()
	return known
}

// groupOf returns the namespace under which the page shows a skill: "" for a skill that
// is configured by itself, whose namespace is its own name.
func groupOf(name, namespace string) string {
	if name == namespace {
		return ""
	}
	return namespace
}

// describeAll describes skills until the limit of text is reached. The next skill is
// always of the source with the least text so far, so that a source with long texts
// does not displace others.
func (m *pageMaker) describeAll(portions []portion, known map[string]described) {
	for most := m.used + m.limits.text; m.used < most; {
		var least *portion
		for i := range portions {
			if p := &portions[i]; p.done < len(p.described) && (least == nil || p.said < least.said) {
				least = p
			}
		}
		if least == nil {
			return
		}
		e, skill, before := &least.described[least.done], &least.group.Skills[least.done], m.used
		skill.Description = m.text(e.Description, maxShownText)
		if d, ok := known[e.Name]; ok {
			m.describe(skill, d)
			least.group.Named--
		}
		least.said += m.used - before
		least.done++
	}
}

// describe adds the content of a descriptor, or the reason why it can't be used.
func (m *pageMaker) describe(s *Skill, known described) {
	if failure := known.failure; failure != nil {
		s.State, s.Reason = stateOf(failure), m.reason(failure)
		if s.State == stateFaulty {
			s.Faults = m.faults(failure.Violations)
		}
		return
	}
	s.State = stateAvailable
	if denied := known.description.Denied; denied != nil {
		s.State, s.Reason = stateNeedsCredentials, m.reason(denied)
	}
	v := known.description.Descriptor
	s.Title, s.Version, s.Description = m.text(v.Name, maxShownName), m.text(v.Version, maxShownName), m.text(v.Description, maxShownText)
	shown := v.Inputs[:min(len(v.Inputs), maxShownInputs)]
	s.MoreInputs = len(v.Inputs) - len(shown)
	for i := range shown {
		s.Inputs = append(s.Inputs, m.input(&shown[i]))
	}
	s.OutputType, s.OutputDescription = m.text(v.Output.ContentType, maxShownName), m.text(v.Output.Description, maxShownText)
	s.Auth = m.auth(&v.Auth)
	for _, tag := range v.Tags[:min(len(v.Tags), maxShownList)] {
		s.Tags = append(s.Tags, m.text(tag, maxShownName))
	}
	s.Provider, s.ProviderLink = m.text(v.Provider.Name, maxShownName), link(v.Provider.URL)
	s.Documentation = link(v.DocumentationURL)
	s.A2A = m.agentOf(known.description)
}

func stateOf(f *run.Failure) string {
	switch f.Kind {
	case run.InvalidDocument:
		return stateFaulty
	case run.VersionIncompatible:
		return stateIncompatible
	}
	return stateUnreadable
}

// reason returns the text of a failure.
func (m *pageMaker) reason(f *run.Failure) string {
	if f.Kind == run.DeadlineExceeded { // the page's time limit; the failure's text is about the timeout of calls
		return "It did not answer in time."
	}
	return cmp.Or(m.text(f.Text(), maxShownText), "The bridge failed because of a bug.")
}

// faults returns the errors in an invalid document.
func (m *pageMaker) faults(found []run.Violation) []Fault {
	faults := make([]Fault, min(len(found), maxShownList))
	for i := range faults {
		faults[i] = Fault{m.text(found[i].Path, maxShownText), m.text(found[i].Message, maxShownText)}
	}
	return faults
}

func (m *pageMaker) input(p *document.Parameter) Input {
	in := Input{
		Name: m.text(p.Name, maxShownName), Type: m.text(p.Type, maxShownName), Description: m.text(p.Description, maxShownText),
		Required: p.Required, HasDefault: len(p.Default) > 0, Default: m.text(string(p.Default), maxShownName),
	}
	var schema struct {
		Enum []jsontext.Value `json:"enum"`
	}
	if p.Schema.Kind() == '{' {
		_ = json.Unmarshal(p.Schema, &schema) // if it fails, there are no choices to show
	}
	for _, choice := range schema.Enum[:min(len(schema.Enum), maxShownList)] {
		in.Choices = append(in.Choices, m.text(string(choice), maxShownName))
	}
	if len(schema.Enum) > maxShownList {
		in.Choices = append(in.Choices, "…")
	}
	return in
}

func (m *pageMaker) auth(a *document.Auth) Auth {
	auth := Auth{Type: m.text(string(a.Type), maxShownName), Description: m.text(a.Description, maxShownText)}
	switch {
	case a.Type == document.AuthAPIKey:
		auth.Header = m.text(cmp.Or(a.Header, "X-API-Key"), maxShownName)
	case a.OAuth2 != nil:
		scopes := slices.Sorted(maps.Keys(a.OAuth2.Scopes))
		for _, scope := range scopes[:min(len(scopes), maxShownList)] {
			auth.Scopes = append(auth.Scopes, m.text(scope, maxShownName))
		}
	case a.Custom != nil:
		auth.Instructions = m.text(a.Custom.Instructions, maxShownText)
	}
	return auth
}

// text is like plain, and adds the size of the result to m.used.
func (m *pageMaker) text(s string, limit int) string {
	s = plain(s, limit)
	m.used += len(s)
	return s
}

// plain returns a text as one line with at most limit characters.
func plain(s string, limit int) string { return strings.TrimSpace(safetext.Line(s, limit)) }

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
