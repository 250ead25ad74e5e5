package faults_test

import (
	"encoding/json" // what clients read lists with
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// lists is a Caddyfile of a bridge with all kinds of lists, and further lines.
func lists(lines ...string) string {
	return testbed.Site(append(append([]string{"skill_bridge {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tallow_anonymous", "\t" + polling, "\tname tools", "\trpc", "\tmcp", "\ta2a", "\tagent_skills"}, lines...), "}")...)
}

// deadLinks returns skills of a publisher whose descriptors are at a host that refuses connections, and the line that allows its port.
func deadLinks(t *testing.T, publisher string, n int) (skills []hostile.Skill, allow string) {
	t.Helper()
	port := testbed.FreePort(t)
	for i := range n {
		skills = append(skills, hostile.Skill{ID: fmt.Sprintf("%s/s%04d", publisher, i), DescriptorURL: fmt.Sprintf("http://127.0.0.1:%s/%d.json", port, i)})
	}
	return skills, "\tallow_ports " + port + " "
}

// toolPage is a page of tools/list, or the error instead of it.
type toolPage struct {
	Result struct {
		Tools      []struct{ Name string } `json:"tools"`
		NextCursor string                  `json:"nextCursor"`
		Meta       struct {
			Unavailable []struct{ Namespace, Code string } `json:"io.github.skill-bridge/unavailable"`
		} `json:"_meta"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

// names returns the names of the tools of the page, but for get_run.
func (p *toolPage) names() (names []string) {
	for _, tool := range p.Result.Tools {
		if tool.Name != "get_run" {
			names = append(names, tool.Name)
		}
	}
	return names
}

// toolPages reads all pages of tools/list.
func toolPages(t *testing.T, c *testbed.Client) (pages []toolPage) {
	t.Helper()
	more := hostile.Object{}
	for {
		var page toolPage
		text := askTools(t, c, "", "tools/list", "", more)
		if err := json.Unmarshal([]byte(text), &page); err != nil || page.Error != nil {
			t.Fatalf("page %d: %v %.500s", len(pages), err, text)
		}
		pages = append(pages, page)
		if page.Result.NextCursor == "" {
			return pages
		}
		more = hostile.Object{"cursor": page.Result.NextCursor}
	}
}

// R100: the skills that come first in a registry, or in the index of a provider, have descriptors at a dead host: the first pages of tools/list
// have no tool of it, and the next ones those of the others.
func TestR100PagesOfDeadLinks(t *testing.T) {
	dead, allow := deadLinks(t, "acme/a", 150)
	p := hostile.NewProvider(t, append(dead, hostile.Skill{ID: "acme/z"})...)
	c := testbed.StartCaddy(t, lists(allow, "\tprovider "+p.URL()+" {\n\tnamespace acme\n}"))
	pages := toolPages(t, c.Client)
	if len(pages) != 2 || len(pages[0].names()) > 0 || !slices.Equal(pages[1].names(), []string{"acme_z"}) {
		t.Errorf("%+v", pages)
	}
	for _, page := range pages {
		if u := page.Result.Meta.Unavailable; len(u) != 1 || u[0].Namespace != "acme" {
			t.Errorf("unavailable: %+v", u)
		}
	}
}

// R101: a publisher has so many dead links that the limit for failing requests to one host is reached: the Agent Skills index, the agent card and
// the tools have the skills of the others, of the same registry, too.
func TestR101LimitOfOneHost(t *testing.T) {
	dead, allow := deadLinks(t, "acme", 60)
	elsewhere := hostile.NewProvider(t) // it has no such documents
	for i := range dead {
		dead[i].DescriptorURL = elsewhere.URLOf(dead[i].ID, hostile.Descriptor)
	}
	allow += strings.TrimPrefix(elsewhere.URL(), "http://127.0.0.1:")
	registry := hostile.NewProvider(t, append(dead, hostile.Skill{ID: "zeta/good"})...)
	other := hostile.NewProvider(t, hostile.Skill{ID: "other/fine"})
	testbed.Guard(t, func(g *guards.Guards) { g.Reading.Reads, g.Reading.FailedReads = 4, 1 })
	c := testbed.StartCaddy(t, lists(allow,
		"\tprovider "+registry.URL()+" {\n\tnamespace all\n}", "\tprovider "+other.URL()+" {\n\tnamespace other\n}"))
	base := strings.TrimSuffix(c.URL, "/rpc")
	for path, wanted := range map[string][]string{
		"/.well-known/agent-skills/index.json": {`"name":"all-zeta-good"`, `"name":"other-fine"`},
		"/.well-known/agent-card.json":         {"all.zeta.good", "other.fine"},
	} {
		a := c.With(testbed.Fresh()).Send(http.MethodGet, base+path, "")
		for _, text := range wanted {
			if a.Status != http.StatusOK || !strings.Contains(string(a.Body), text) {
				t.Errorf("%s has no %s: %.300v", path, text, a)
			}
		}
	}
	pages := toolPages(t, c.Client)
	if names := pages[0].names(); len(pages) != 1 || !slices.Equal(names, []string{"all_zeta_good", "other_fine"}) {
		t.Errorf("%q", names)
	}
	if u := pages[0].Result.Meta.Unavailable; len(u) != 1 || u[0].Namespace != "all" {
		t.Errorf("unavailable: %+v", u)
	}
	var list struct {
		Tools       []json.RawMessage
		Unavailable []struct{ Namespace, Code string }
	}
	if err := json.Unmarshal(c.Call("list_skills", hostile.Object{"detail": "tools"}).Result, &list); err != nil || len(list.Tools) != 3 || // with get_run
		len(list.Unavailable) != 1 {
		t.Errorf("list_skills: %v, %+v", err, list)
	}
}

// R102: the descriptors of one publisher stall: the tools of the other publishers of the registry, and of other sources, are listed, and the host
// that stalls gets few requests at a time.
func TestR102StallingPublisher(t *testing.T) {
	longtest.Need(t, longtest.Long)
	elsewhere := hostile.NewProvider(t)
	var skills []hostile.Skill
	for i := range 40 {
		id := fmt.Sprintf("acme/s%04d", i)
		elsewhere.Publish(hostile.Skill{ID: id})
		elsewhere.On(id, hostile.Descriptor, hostile.Hang())
		skills = append(skills, hostile.Skill{ID: id, DescriptorURL: elsewhere.URLOf(id, hostile.Descriptor)})
	}
	all := hostile.NewProvider(t, append(skills, hostile.Skill{ID: "zeta/good"})...)
	other := hostile.NewProvider(t, hostile.Skill{ID: "other/fine"})
	c := testbed.StartCaddy(t, lists("\tallow_ports "+strings.TrimPrefix(elsewhere.URL(), "http://127.0.0.1:"),
		"\tprovider "+all.URL()+" {\n\tnamespace all\n}", "\tprovider "+other.URL()+" {\n\tnamespace other\n}"))
	for range 2 {
		pages := toolPages(t, c.Client)
		if names := pages[0].names(); len(pages) != 1 || !slices.Equal(names, []string{"all_zeta_good", "other_fine"}) {
			t.Errorf("%q", names)
		}
		if u := pages[0].Result.Meta.Unavailable; len(u) != 1 || u[0].Namespace != "all" {
			t.Errorf("unavailable: %+v", u)
		}
	}
	if n := elsewhere.Hanging(); n > 16 {
		t.Errorf("%d requests hang", n)
	}
}
