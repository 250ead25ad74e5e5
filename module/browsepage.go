package skillbridge

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/idna"
	"golang.org/x/sync/errgroup"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// BrowsePage is what the template of `browse` is executed with. All texts of
// providers in it are bounded and have neither control characters nor those that
// change the direction of text; a template must go on to treat them as text.
type BrowsePage struct {
	// Problem says in words why nothing is shown; empty: there is none.
	Problem string
	// Groups are the skills that are shown, by the sources they are from.
	Groups []BrowseGroup
	// Unavailable are the sources that could not be read.
	Unavailable []BrowseUnavailable
	// Skills is how many skills there are, also if not all are shown.
	Skills int
	// Hidden is how many of them are not shown, not even by their names.
	Hidden int
	// Skill is the one that the query ?skill= asks for, and Namespace that of ?namespace=; empty: all are shown.
	Skill, Namespace string
	// Principal is who is asking; empty: nobody has said.
	Principal string
	// Nonce is what a style or script of the page has to carry to have an effect.
	Nonce string
	// Style and Script are those of the embedded template.
	Style  template.CSS
	Script template.JS
}

// BrowseGroup is the skills of one source.
type BrowseGroup struct {
	// Namespace is empty for the skills that were configured one by one.
	Namespace string
	Skills    []BrowseSkill
}

// BrowseUnavailable is a source that could not be read.
type BrowseUnavailable struct {
	Namespace, Reason string
}

// The values of [BrowseSkill.State].
const (
	StateAvailable    = "available"    // it can be called
	StateFaulty       = "faulty"       // its descriptor is invalid
	StateIncompatible = "incompatible" // it needs a newer version of the protocol
	StateUnreadable   = "unreadable"   // its descriptor can't be read at the moment
	StateListed       = "listed"       // its descriptor was not looked at
)

// BrowseSkill is one skill.
type BrowseSkill struct {
	// Name is what a call has to say; Title is how the provider calls the skill, if that is known.
	Name, Title, Namespace, Version, Description string
	// CapabilityType and Access are the protocol's words.
	CapabilityType, Access string
	// State is one of available, faulty, incompatible, unreadable and listed.
	State string
	// Reason says why a skill is not available, and Faults what is wrong with its descriptor.
	Reason string
	Faults []BrowseFault

	// All that follows is set for skills that are available.

	Inputs     []BrowseInput
	MoreInputs int // that are not among Inputs
	// OutputType is a media type.
	OutputType, OutputDescription string
	Auth                          BrowseAuth
	Tags                          []string
	Provider                      string
	ProviderLink, Documentation   BrowseLink
}

// BrowseFault is what is wrong at one place of a descriptor.
type BrowseFault struct {
	Path, Message string // Path is a JSON Pointer
}

// BrowseInput is one input of a skill.
type BrowseInput struct {
	Name, Type, Description string
	Required                bool
	HasDefault              bool
	Default                 string   // JSON
	Choices                 []string // JSON; the values that are allowed, if they are listed
}

// BrowseAuth is how the bridge has to authenticate to the provider.
type BrowseAuth struct {
	Type string // none, api_key, oauth2 or custom
	// Header is that of an API key, Scopes are those of OAuth 2.0.
	Header string
	Scopes []string
	// Description and Instructions are the provider's words.
	Description, Instructions string
}

// BrowseLink is a link that a provider has given: https or http, and nothing else.
type BrowseLink struct {
	URL  string // empty: there is none
	Host string // where it leads to, in ASCII
}

// pageLimits bound what one page costs, here and at the providers.
type pageLimits struct {
	described, named int           // skills with all that is known, and by name
	text             int           // bytes of all texts of providers
	listing, whole   time.Duration // for reading indexes, and descriptors too
}

var standardPageLimits = pageLimits{described: 200, named: 2000, text: 2 << 20, listing: 6 * time.Second, whole: 10 * time.Second}

// descriptorsAtOnce is how many descriptors one page reads at a time.
const descriptorsAtOnce = 8

// Bounds of one text, in characters, and of lists.
const (
	maxShownName   = 200
	maxShownText   = 1000
	maxShownInputs = 100
	maxShownList   = 20
	maxShownLink   = 2000
)

// pageMaker fills a page with what one caller may see.
type pageMaker struct {
	bridge    *translate.Bridge
	limits    pageLimits
	principal string
	page      *BrowsePage
	used      int // bytes of texts
}

// one makes the page of a single skill and returns its HTTP status.
func (m *pageMaker) one(ctx context.Context, name string) int {
	ctx, cancel := context.WithTimeout(ctx, m.limits.whole)
	defer cancel()
	m.page.Skill = plain(name, maxShownName)
	d, failure := m.bridge.Describe(ctx, translate.Call{Name: name, Principal: m.principal})
	if failure != nil && (failure.Kind == translate.SkillNotFound || failure.Kind == translate.InvalidArguments) {
		m.page.Problem = m.reason(failure)
		return http.StatusNotFound
	}
	if failure != nil && failure.Next == translate.NextAuthenticate {
		m.page.Problem = m.reason(failure)
		return http.StatusForbidden
	}
	skill := BrowseSkill{Name: m.page.Skill}
	namespace := ""
	if d != nil {
		namespace = groupOf(d.Name, d.Namespace)
		skill = BrowseSkill{
			Name: m.text(d.Name, maxShownName), Namespace: namespace,
			CapabilityType: m.text(string(d.Descriptor.CapabilityType), maxShownName), Access: m.text(string(d.Descriptor.Access), maxShownName),
		}
	}
	m.describe(&skill, d, failure)
	m.page.Skills = 1
	m.page.Groups = []BrowseGroup{{Namespace: namespace, Skills: []BrowseSkill{skill}}}
	return http.StatusOK
}

// all makes the page of all skills, or of those of one namespace.
func (m *pageMaker) all(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, m.limits.whole)
	defer cancel()
	m.page.Namespace = plain(namespace, maxShownName)
	listing := m.list(ctx, namespace)
	for _, u := range listing.Unavailable {
		m.page.Unavailable = append(m.page.Unavailable, BrowseUnavailable{m.text(u.Namespace, maxShownName), m.reason(u.Failure)})
	}
	entries := listing.Skills
	slices.SortStableFunc(entries, func(a, b translate.Entry) int { // stable: they are in the order of their names
		return strings.Compare(groupOf(a.Name, a.Namespace), groupOf(b.Name, b.Namespace))
	})
	m.page.Skills = len(entries)
	if len(entries) > m.limits.named {
		m.page.Hidden = len(entries) - m.limits.named
		entries = entries[:m.limits.named]
	}
	known := m.read(ctx, entries[:min(len(entries), m.limits.described)])
	for i := range entries {
		m.add(&entries[i], known[entries[i].Name])
	}
}

func (m *pageMaker) list(ctx context.Context, namespace string) translate.Listing {
	ctx, cancel := context.WithTimeout(ctx, m.limits.listing)
	defer cancel()
	return m.bridge.List(ctx, translate.Query{Namespace: namespace, Principal: m.principal})
}

// described is the answer to the wish to know all about a skill: one of the two.
type described struct {
	description *translate.Description
	failure     *translate.Failure
}

// read reads the descriptors of the entries.
func (m *pageMaker) read(ctx context.Context, entries []translate.Entry) map[string]described {
	answers := make([]described, len(entries))
	var g errgroup.Group
	g.SetLimit(descriptorsAtOnce)
	for i, e := range entries {
		g.Go(func() error {
			answers[i].description, answers[i].failure = m.bridge.Describe(ctx, translate.Call{Name: e.Name, Principal: m.principal})
			return nil
		})
	}
	_ = g.Wait() // failures are in answers
	known := make(map[string]described, len(entries))
	for i, e := range entries {
		known[e.Name] = answers[i]
	}
	return known
}

// groupOf is the namespace under which a skill is shown. Those that are configured
// one by one have their own names for namespaces.
func groupOf(name, namespace string) string {
	if name == namespace {
		return ""
	}
	return namespace
}

// add adds a listed skill to its group, which is the last one or a new one.
func (m *pageMaker) add(e *translate.Entry, known described) {
	namespace := groupOf(e.Name, e.Namespace)
	skill := BrowseSkill{
		Name: m.text(e.Name, maxShownName), Namespace: namespace, Version: m.text(e.Version, maxShownName), State: StateListed,
		CapabilityType: m.text(string(e.CapabilityType), maxShownName), Access: m.text(string(e.Access), maxShownName),
	}
	if (known.description != nil || known.failure != nil) && m.used < m.limits.text {
		skill.Description = m.text(e.Description, maxShownText)
		m.describe(&skill, known.description, known.failure)
	}
	if n := len(m.page.Groups); n == 0 || m.page.Groups[n-1].Namespace != namespace {
		m.page.Groups = append(m.page.Groups, BrowseGroup{Namespace: namespace})
	}
	group := &m.page.Groups[len(m.page.Groups)-1]
	group.Skills = append(group.Skills, skill)
}

// describe adds what a descriptor says, or why it says nothing.
func (m *pageMaker) describe(s *BrowseSkill, d *translate.Description, failure *translate.Failure) {
	if failure != nil {
		s.State, s.Reason = stateOf(failure), m.reason(failure)
		if s.State == StateFaulty {
			s.Faults = m.faults(failure.Err.Details)
		}
		return
	}
	v := d.Descriptor
	s.State = StateAvailable
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
}

func stateOf(f *translate.Failure) string {
	switch f.Kind {
	case translate.InvalidDocument:
		return StateFaulty
	case translate.VersionIncompatible:
		return StateIncompatible
	}
	return StateUnreadable
}

// reason is a failure in words.
func (m *pageMaker) reason(f *translate.Failure) string {
	if f.Kind == translate.TimedOut { // the page's own bound, of which a failure of a call does not know
		return "It did not answer in time."
	}
	return cmp.Or(m.text(f.Err.Message, maxShownText), "The bridge has failed; this is a bug of the bridge.")
}

// faults reads the details of an invalid document (Skill Sharing Protocol, section
// 8.3.1).
func (m *pageMaker) faults(details jsontext.Value) []BrowseFault {
	var found []struct {
		Path    string `json:"path"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(details, &found) // what can't be read is not shown
	faults := make([]BrowseFault, min(len(found), maxShownList))
	for i := range faults {
		faults[i] = BrowseFault{m.text(found[i].Path, maxShownText), m.text(found[i].Message, maxShownText)}
	}
	return faults
}

func (m *pageMaker) input(p *skillsharing.Parameter) BrowseInput {
	in := BrowseInput{
		Name: m.text(p.Name, maxShownName), Type: m.text(p.Type, maxShownName), Description: m.text(p.Description, maxShownText),
		Required: p.Required, HasDefault: len(p.Default) > 0, Default: m.text(string(p.Default), maxShownName),
	}
	var schema struct {
		Enum []jsontext.Value `json:"enum"`
	}
	if p.Schema.Kind() == '{' {
		_ = json.Unmarshal(p.Schema, &schema) // without a list there are no choices to show
	}
	for _, choice := range schema.Enum[:min(len(schema.Enum), maxShownList)] {
		in.Choices = append(in.Choices, m.text(string(choice), maxShownName))
	}
	if len(schema.Enum) > maxShownList {
		in.Choices = append(in.Choices, "…")
	}
	return in
}

func (m *pageMaker) auth(a *skillsharing.Auth) BrowseAuth {
	auth := BrowseAuth{Type: m.text(string(a.Type), maxShownName), Description: m.text(a.Description, maxShownText)}
	switch {
	case a.Type == skillsharing.AuthAPIKey:
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

// text is plain, and counts.
func (m *pageMaker) text(s string, limit int) string {
	s = plain(s, limit)
	m.used += len(s)
	return s
}

// plain makes one bounded line of a text: control characters and line breaks
// become spaces, and what can't be seen but changes how a text looks, such as its
// direction, is left out. Joiners stay: scripts and emoji need them.
func plain(s string, limit int) string {
	var b strings.Builder
	count := 0
	for _, r := range s {
		if unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d' {
			continue
		}
		if count == limit {
			b.WriteRune('…')
			break
		}
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			r = ' '
		}
		b.WriteRune(r)
		count++
	}
	return strings.TrimSpace(b.String())
}

// link checks a link that a provider has given.
func link(text string) BrowseLink {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxShownLink || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || plain(text, len(text)) != text {
		return BrowseLink{}
	}
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil || host == "" {
		return BrowseLink{}
	}
	return BrowseLink{u.String(), host}
}

// examplePage has something of everything that a template may ask for.
func examplePage() *BrowsePage {
	at := BrowseLink{"https://example.com/", "example.com"}
	return &BrowsePage{
		Problem: "example", Skills: 2, Hidden: 1, Skill: "example", Namespace: "example", Principal: "example", Nonce: "example",
		Unavailable: []BrowseUnavailable{{"example", "example"}},
		Groups: []BrowseGroup{{Namespace: "example", Skills: []BrowseSkill{
			{
				Name: "example", State: StateAvailable, MoreInputs: 1, Tags: []string{"example"}, ProviderLink: at, Documentation: at,
				Inputs: []BrowseInput{{Name: "example", Required: true, HasDefault: true, Default: "1", Choices: []string{"1"}}},
				Auth:   BrowseAuth{Type: "oauth2", Scopes: []string{"example"}},
			},
			{Name: "other", State: StateFaulty, Reason: "example", Faults: []BrowseFault{{"/example", "example"}}},
		}}},
	}
}
