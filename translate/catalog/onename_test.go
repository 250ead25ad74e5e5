package catalog

import (
	"context"
	"encoding/json" // tests make documents of maps
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/faults"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// indexProvider is a provider that publishes only an index.
type indexProvider struct {
	namespace   string
	ids         []string
	private     map[string]bool
	aliases     []Alias
	credentials bool // for reading the index
}

func (s *indexProvider) RoundTrip(r *http.Request) (*http.Response, error) {
	skills := []map[string]any{}
	for _, id := range s.ids {
		access := document.Public
		if s.private[id] {
			access = document.Private
		}
		skills = append(skills, map[string]any{
			"id": id, "name": "n", "capability_type": "api", "description": s.namespace + " " + id, "access": access, "version": "1.0.0",
			"descriptor_url": "https://" + r.URL.Host + "/d",
		})
	}
	body, err := json.Marshal(map[string]any{"protocol": map[string]any{"version": "1.0.0"}, "provider": map[string]any{"name": "p"}, "skills": skills})
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(string(body))),
	}, err
}

// anyKey is a credential for reading an index.
type anyKey struct{}

func (anyKey) Supports(*document.Auth) bool                                   { return true }
func (anyKey) Authenticate(context.Context, *credential.Authentication) error { return nil }
func (anyKey) Secrets() []string                                              { return nil }

func catalogOf(tb testing.TB, shelves ...*indexProvider) *Catalog {
	tb.Helper()
	documents, err := cache.New(cache.Config{MaxSize: 64 << 20, TTL: time.Hour, MaxTTL: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(documents.Close)
	var sections []*Section
	for i, s := range shelves {
		u := &url.URL{Scheme: "https", Host: strings.ToLower(s.namespace) + ".example"}
		source := Source{Namespace: s.namespace, URL: u, Faults: new(faults.Faults), Aliases: s.aliases}
		if s.credentials {
			source.DiscoveryCredentials = anyKey{}
		}
		hosts, err := credential.NewAllowedHosts(u, nil)
		if err != nil {
			tb.Fatal(err)
		}
		sections = append(sections, &Section{Source: source, Index: i, Client: &skillsharing.Client{Reader: discovery.Reader{Cache: documents, Sender: exchange.Sender{
			Source: s.namespace, Origin: u, AllowedHosts: hosts, Partition: s.namespace, DiscoveryCredentials: source.DiscoveryCredentials, Transport: s,
			MaxResponseSize: 8 << 20, Observer: noObserver{},
		}}}})
	}
	c, err := New(sections, noObserver{}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// noObserver is an observer that ignores all reports.
type noObserver struct{}

func (noObserver) Exchange(context.Context, *exchange.Exchange) {}
func (noObserver) Notice(context.Context, *exchange.Notice)     {}

// TestOneNameOneSkill: for random namespaces, ids and aliases, and for all callers, each name
// is listed once, begins with the namespace of its source unless it is an alias, and
// resolves to the skill that it is listed for. Skills that one source adds change neither
// the names of another nor what they resolve to.
func TestOneNameOneSkill(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	word := func() string {
		var b strings.Builder
		for i := range 1 + r.IntN(4) {
			if i > 0 {
				b.WriteByte("./"[r.IntN(2)])
			}
			b.WriteString([]string{"a", "b", "c", "A", "x"}[r.IntN(5)])
		}
		return b.String()
	}
	words := func(n int) []string {
		var list []string
		for range n {
			if w := word(); !slices.Contains(list, w) {
				list = append(list, w)
			}
		}
		return list
	}
	// listed returns the entries that a caller sees, by name.
	listed := func(c *Catalog, principal string) map[string]Entry {
		names := map[string]Entry{}
		for _, s := range c.Sections() {
			entries, failure := c.List(t.Context(), s, principal)
			if failure != nil {
				t.Fatalf("%+v", failure)
			}
			for _, e := range entries {
				if other, twice := names[e.Name]; twice {
					t.Errorf("%s is listed for %s and for %s", e.Name, other.Description, e.Description)
				}
				e.listed = nil // it differs between catalogs
				names[e.Name] = e
			}
		}
		return names
	}
	check := func(c *Catalog, principal, name string, want Entry) {
		t.Helper()
		l, failure := c.Resolve(t.Context(), name, principal)
		if failure != nil {
			t.Errorf("%q, %s: %v", principal, name, failure)
		} else if got := l.Section.Namespace + " " + l.ID; got != want.Description || l.Name != name {
			t.Errorf("%q, %s is listed for %s, but leads to %s as %s", principal, name, want.Description, got, l.Name)
		}
	}
	rounds := 100
	if longtest.Runs(longtest.Long) {
		rounds = 300
	}
	for round := range rounds {
		var shelves []*indexProvider
		taken := map[string]bool{}
		for _, namespace := range []string{"a", "b", "a.b", "a.b.c", "A", "x.a"} {
			if r.IntN(2) == 0 {
				continue
			}
			s := &indexProvider{namespace: namespace, ids: words(12), private: map[string]bool{}, credentials: r.IntN(2) == 0}
			for _, id := range s.ids {
				s.private[id] = r.IntN(4) == 0
			}
			for _, name := range words(r.IntN(3)) {
				if !taken[name] {
					taken[name] = true
					s.aliases = append(s.aliases, Alias{Name: name, SkillID: s.ids[r.IntN(len(s.ids))]})
				}
			}
			shelves = append(shelves, s)
		}
		r.Shuffle(len(shelves), func(i, j int) { shelves[i], shelves[j] = shelves[j], shelves[i] })
		c := catalogOf(t, shelves...)
		before := map[string]map[string]Entry{}
		for _, principal := range []string{"", "alice"} {
			names := listed(c, principal)
			before[principal] = names
			for name, e := range names {
				check(c, principal, name, e)
				if rest, ok := strings.CutPrefix(name, e.Namespace); !taken[name] && (!ok || rest[0] != '.' && rest[0] != '/') {
					t.Errorf("%s does not begin with its namespace %s", name, e.Namespace)
				}
			}
		}
		// An id that does not claim the namespace of another source is listed, unless all its names are aliases.
		for _, s := range shelves {
			for _, id := range s.ids {
				owner := c.namespaceOf(dot(id))
				isListed := false
				for _, e := range before["alice"] {
					isListed = isListed || e.Description == s.namespace+" "+id
				}
				if want := owner == nil || owner.Namespace == s.namespace; isListed != want && (!want || !taken[s.namespace+"/"+id]) {
					t.Errorf("%s of %s: listed %v", id, s.namespace, isListed)
				}
			}
		}
		if len(shelves) > 1 {
			grown := *shelves[0]
			for _, id := range words(12) {
				if !slices.Contains(grown.ids, id) {
					grown.ids = append(slices.Clone(grown.ids), id)
				}
			}
			after := catalogOf(t, append([]*indexProvider{&grown}, shelves[1:]...)...)
			for principal, names := range before {
				now := listed(after, principal)
				for name, e := range names {
					if e.Namespace == grown.namespace {
						continue
					}
					check(after, principal, name, e)
					if now[name] != e {
						t.Errorf("%s was listed for %s, and is now for %s", name, e.Description, now[name].Description)
					}
				}
			}
		}
		if t.Failed() {
			for _, s := range shelves {
				t.Logf("round %d: %+v", round, *s)
			}
			t.FailNow()
		}
	}
}

// TestLongestNamespace: if a name begins with several namespaces, the longest one decides,
// regardless of the order of the configuration.
func TestLongestNamespace(t *testing.T) {
	outer := &indexProvider{namespace: "acme", ids: []string{"weather/forecast", "news", "acme/weather/stolen"}}
	inner := &indexProvider{namespace: "acme.weather", ids: []string{"forecast", "acme/weather/radar", "acme/news"}}
	for _, shelves := range [][]*indexProvider{{outer, inner}, {inner, outer}} {
		c := catalogOf(t, shelves...)
		for name, want := range map[string]string{
			"acme.weather.forecast": "acme.weather forecast", // and not that of acme
			"acme.weather/forecast": "acme.weather forecast",
			"acme.weather.radar":    "acme.weather acme/weather/radar",
			"acme/weather/forecast": "acme weather/forecast", // no namespace has a slash
			"acme.news":             "acme news",
			"acme.weather.news":     "",
			"acme.weather.stolen":   "",
			"acme.weather":          "",
		} {
			got := ""
			if l, failure := c.Resolve(t.Context(), name, ""); failure == nil {
				got = l.Section.Namespace + " " + l.ID
			}
			if got != want {
				t.Errorf("%s leads to %q, want %q", name, got, want)
			}
		}
	}
}

// TestLongNamesAreCheap: the time to find the namespace of a name does not grow with the
// length of the name.
func TestLongNamesAreCheap(t *testing.T) {
	var shelves []*indexProvider
	for i := range 20 {
		shelves = append(shelves, &indexProvider{namespace: string(rune('a'+i)) + ".x", ids: []string{"skill"}})
	}
	c := catalogOf(t, shelves...)
	name := strings.Repeat(".", 1<<20)
	start := time.Now()
	for range 100 {
		if c.namespaceOf(name) != nil || c.Owner(name, "") != nil {
			t.Fatal("found")
		}
	}
	if d := time.Since(start); d > time.Second { // with a look-up for each dot it is minutes
		t.Errorf("%s", d)
	}
}
