package browse

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/net/html"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// TestBrowseIsInNaturalOrder: people find skill-2 before skill-10, on all pages of a source together.
func TestBrowseIsInNaturalOrder(t *testing.T) {
	var skills []hostile.Skill
	for i := range 25 {
		skills = append(skills, hostile.Skill{ID: fmt.Sprintf("skill-%d", i)})
	}
	limits := standardPageLimits
	limits.rows = 10
	at := served(t, limits, "", hostile.NewProvider(t, skills...))
	var names []string
	for _, from := range []string{"0", "10", "20"} {
		names = append(names, look(t, at+"?namespace=acme&from="+from).shown(t)...)
	}
	for i, name := range names {
		if name != fmt.Sprintf("acme.skill-%d", i) {
			t.Fatalf("shown are %v", names)
		}
	}
	if len(names) != len(skills) {
		t.Errorf("%d skills are shown", len(names))
	}
}

// TestBrowseFilters: a filter selects by what is known, and reads nothing.
func TestBrowseFilters(t *testing.T) {
	tagged := func(tags ...string) func(hostile.Object) {
		return func(d hostile.Object) { d["tags"] = tags }
	}
	task := func(o hostile.Object) { o["capability_type"] = "task" }
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/a", Edit: tagged("red", "blue")},
		hostile.Skill{ID: "acme/b", Edit: func(d hostile.Object) { tagged("blue")(d); task(d) }, EditEntry: task},
		hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-Key")},
		hostile.Skill{ID: "acme/broken", Edit: func(d hostile.Object) { delete(d, "endpoint") }},
		hostile.Skill{ID: "acme/hidden", Access: "private", Edit: tagged("blue", "secret")},
	)
	c := testbed.StartCaddy(t, testbed.Bridge("browse", "allow_anonymous", "principal {http.request.header.X-User}",
		"provider "+p.URL()+" {", "namespace acme", "alias forecast acme/b", "discovery_credentials api_key discovery-key", "}"))
	if page := look(t, c.URL+"?state=invalid"); len(page.shown(t)) != 0 || !strings.Contains(page.visible(t), "0 of 4 skills · Show all · 4 not read yet") {
		t.Errorf("before anything is read: %v %s", page.shown(t), page.visible(t))
	}
	if n := p.Count("acme/a", hostile.Descriptor); n != 0 {
		t.Error("a filter reads descriptors")
	}
	all := look(t, c.URL) // reads them
	for query, want := range map[string][]string{
		"state=available":                      {"acme.a", "forecast"},
		"state=needs_credentials":              {"acme.key"},
		"state=invalid":                        {"acme.broken"},
		"state=unknown":                        nil,
		"state=nonsense":                       nil,
		"type=task":                            {"forecast"},
		"type=api":                             {"acme.a", "acme.broken", "acme.key"},
		"tag=blue":                             {"acme.a", "forecast"},
		"tag=red":                              {"acme.a"},
		"tag=secret":                           nil,
		"tag=blue&type=task":                   {"forecast"},
		"tag=red&namespace=acme":               {"acme.a"},
		"q=broken":                             {"acme.broken"},
		"q=acme&state=needs_credentials":       {"acme.key"},
		"q=forecast":                           {"forecast"},
		"q=" + url.QueryEscape("<img> \u202e"): nil,
		"tag=" + url.QueryEscape(`"><img>`):    nil,
	} {
		page := look(t, c.URL+"?"+query)
		if names := page.shown(t); !slices.Equal(names, want) || page.status != http.StatusOK {
			t.Errorf("%s: %d, shown are %v, want %v", query, page.status, names, want)
		}
		if strings.Contains(page.body, "<img") || len(want) == 0 && !strings.Contains(page.visible(t), "No skill matches.") {
			t.Errorf("%s: %s", query, page.visible(t))
		}
	}
	for _, want := range []string{`<option value="needs_credentials">needs credentials</option>`, `<option value="blue">blue</option><option value="red">red</option>`} {
		if !strings.Contains(all.body, want) {
			t.Errorf("%s is not in %s", want, all.body)
		}
	}
	if strings.Contains(all.body, "secret") {
		t.Error("a tag of a private skill is shown")
	}
	look(t, c.URL, "X-User", "ada") // reads what only she may see
	if !strings.Contains(look(t, c.URL+"?tag=secret", "X-User", "ada").visible(t), "acme.hidden") {
		t.Error("ada does not find her skill")
	}
}

// TestBrowseParts: what the page's script asks for has no style and no script.
func TestBrowseParts(t *testing.T) {
	c := browsing(t, hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}))
	for _, query := range []string{"?part=1", "?q=echo&part=1", "?skill=acme.echo&part=1"} {
		page := look(t, c.URL+query)
		if names := page.shown(t); !slices.Equal(names, []string{"acme.echo"}) || strings.Contains(page.body, "<style") || strings.Contains(page.body, "<script") {
			t.Errorf("%s: %v %s", query, names, page.body)
		}
	}
}

// TestBrowseNamesTheBridge: the page has the name of the bridge, else its host, and the URL that agents use.
func TestBrowseNamesTheBridge(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := browsing(t, p, "name our-agents")
	if text := look(t, c.URL).visible(t); !strings.HasPrefix(text, "our-agents Skip to the skills our-agents Skills Protocol "+c.URL+" ") {
		t.Error(text)
	}
	c.Stop()
	c = browsing(t, p)
	if text := look(t, c.URL).visible(t); !strings.HasPrefix(text, strings.TrimSuffix(strings.TrimPrefix(c.URL, "http://"), "/rpc")+" ") {
		t.Error(text)
	}
}

// TestBrowseShowsCode: what is to be copied runs as it stands, and has the skill's output, also with inputs that mean something to shells and
// programming languages.
func TestBrowseShowsCode(t *testing.T) {
	odd := hostile.Object{"type": "object", "const": hostile.Object{"it's": "o'clock $HOME `id` ${1} \"\\\n\t\u00e9", "on": true, "off": false, "none": nil, "n": 1.5e3, "__proto__": hostile.Object{"a": 1}, "list": []any{1, []any{}, hostile.Object{}}}}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/it's ${id}", Edit: func(d hostile.Object) {
		d["inputs"] = []hostile.Object{{"name": "thing", "type": "object", "description": "Anything.", "required": true, "schema": odd}}
	}})
	var wanted map[string]any
	if text, err := json.Marshal(odd["const"]); err != nil || json.Unmarshal(text, &wanted) != nil {
		t.Fatal(err)
	}
	c := browsing(t, p)
	page := look(t, c.URL+"?skill="+url.QueryEscape("acme.it's ${id}"))
	texts := page.code(t)
	if len(texts) < 6 {
		t.Fatalf("%q", texts)
	}
	ran := 0
	for _, text := range texts {
		var words []string
		switch {
		case strings.HasPrefix(text, "curl "):
			words = []string{"sh", "-c", strings.Replace(text, "curl ", "curl -sS ", 1)}
		case strings.HasPrefix(text, "import json"):
			words = []string{"python3", "-c", text}
		case strings.HasPrefix(text, "const response"):
			file := filepath.Join(t.TempDir(), "call.mjs")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			words = []string{"node", file}
		default:
			continue
		}
		if _, err := exec.LookPath(words[0]); err != nil {
			t.Log(err)
			continue
		}
		before := len(p.Requests("acme/it's ${id}", hostile.Invoke))
		answer, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
		invoked := p.Requests("acme/it's ${id}", hostile.Invoke)
		if err != nil || !strings.Contains(string(answer), "completed") || len(invoked) != before+1 {
			t.Errorf("%s: %v\n%s", text, err, answer)
			continue
		}
		var sent struct {
			Inputs struct {
				Thing map[string]any `json:"thing"`
			} `json:"inputs"`
		}
		if err := json.Unmarshal([]byte(invoked[before].Body), &sent); err != nil || !reflect.DeepEqual(sent.Inputs.Thing, wanted) {
			t.Errorf("%s sends %s: %v", text, invoked[before].Body, err)
		}
		ran++
	}
	t.Logf("%d of 3 programs were run", ran)
	c.Stop()
	c = browsing(t, p, "require_principal")
	page = look(t, c.URL+"?skill="+url.QueryEscape("acme.it's ${id}"), "X-User", "ada")
	if n := strings.Count(page.visible(t), "<credentials>"); n != 3 {
		t.Errorf("%d programs have a place for credentials", n)
	}
}

// TestCodeOfHostileInputs: programs have no character that is not seen, and are programs, whatever a provider writes into names and defaults.
func TestCodeOfHostileInputs(t *testing.T) {
	var skills []hostile.Skill
	for i, value := range []any{
		"\u202e\u2066\u200b\u200d\u2028\u2029\u0085\u009b\u007f\ufeff\u00ad\U000e0041 \x1b[2J\x00", "\"\"\"\"; import os #", `\`, `'\'; id; '`, "`${id}` $(id) !id", "</script><!--", "x\" & calc & \"",
		hostile.Object{"__proto__": nil, "it's\u202e\\\"": true, "": []any{false, nil, hostile.Object{}}},
		-1.5, 1e300,
	} {
		skills = append(skills, hostile.Skill{ID: fmt.Sprintf("acme/it's \"%d\" \\u0022!", i), Edit: func(d hostile.Object) {
			d["inputs"] = []hostile.Object{{"name": "a\u202e'\"\\!\u200d", "type": "object", "description": "Anything.", "required": true, "schema": hostile.Object{"const": value}}}
		}})
	}
	c := testbed.StartCaddy(t, testbed.Site("skill_bridge {\nrpc /rpc\na2a\nbrowse\nallow_http\nallow_networks 127.0.0.0/8\nprovider "+hostile.NewProvider(t, skills...).URL()+" {\nnamespace acme\n}\n}"))
	programs := map[string][]string{ // by the command that parses those that follow it
		"sh":      {"sh", "-c", `for text; do sh -n -c "$text" || exit; done`, "sh"},
		"python3": {"python3", "-c", "import ast, sys; [ast.parse(text) for text in sys.argv[1:]]"},
		"node":    {"node", "--experimental-vm-modules", "-e", "for (const text of process.argv.slice(1)) new (require('vm').SourceTextModule)(text)", "--"},
	}
	for i := range skills {
		texts := look(t, c.URL+"?skill="+url.QueryEscape(strings.Replace(skills[i].ID, "/", ".", 1))).code(t)
		seen := 0
		for _, text := range texts {
			var parser string
			switch {
			case strings.HasPrefix(text, "curl "):
				if data := strings.SplitN(text, " -d ", 2)[1]; strings.Count(data, "'") != 2 || strings.ContainsAny(data, `!`) || strings.Contains(data, `\"`) || strings.Contains(data, `\\`) {
					t.Errorf("to some shell, this is not one word: %s", data)
				}
				parser = "sh"
			case strings.HasPrefix(text, "import json"):
				parser = "python3"
			case strings.HasPrefix(text, "const response"):
				parser = "node"
			default:
				continue
			}
			programs[parser] = append(programs[parser], text)
			seen++
			if !safetext.Printable(strings.ReplaceAll(text, "\n", "")) {
				t.Errorf("has a hidden character: %+q", text)
			}
		}
		if seen != 4 { // two with curl, of which one is for A2A
			t.Errorf("%s: %q", skills[i].ID, texts)
		}
	}
	for parser, words := range programs {
		if _, err := exec.LookPath(parser); err != nil {
			t.Log(err)
		} else if said, err := exec.CommandContext(t.Context(), parser, words[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v\n%s", words, err, said)
		}
	}
}

func TestRules(t *testing.T) {
	for schema, want := range map[string]string{
		`{"maxLength":20,"minLength":1}`:               `[] [{minLength 1} {maxLength 20}]`,
		`{"minimum":-1.50,"maximum":1e400}`:            `[] [{minimum -1.50} {maximum 1e400}]`,
		`{"const":[1,2],"type":"array","pattern":"^"}`: `[] [{const [1,2]} {pattern "^"}]`,
		`{"enum":["a",1]}`:                             `["a" 1] []`,
		`{"minLength":1,"maxLength":`:                  `[] [{minLength 1}]`,
		`true`:                                         `[] []`, ``: `[] []`,
	} {
		choices, rules := rulesOf([]byte(schema))
		if got := fmt.Sprint(choices, rules); got != want {
			t.Errorf("%s: %q, want %q", schema, got, want)
		}
	}
}

// BenchmarkPage makes pages of 10,000 skills.
func BenchmarkPage(b *testing.B) {
	skills := make([]hostile.Skill, 10_000)
	for i := range skills {
		skills[i].ID, skills[i].Auth = fmt.Sprintf("skill-%d", i), hostile.APIKey("X-API-Key")
	}
	p := hostile.NewProvider(b, skills...)
	c := testbed.StartCaddy(b, testbed.Bridge("browse", "provider "+p.URL()+" {", "namespace acme", "credentials api_key key-0123456789abcdef", "}", "allow_anonymous"))
	for name, query := range map[string]string{"all": "", "last": "?namespace=acme&from=9800", "search": "?q=skill+77", "type": "?type=task", "state": "?state=available"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, c.URL+query, nil)
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("Accept", "text/html")
				w, err := http.DefaultClient.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				body := httptest.NewRecorder()
				if _, err := body.Body.ReadFrom(w.Body); err != nil || body.Body.Len() < 1000 {
					b.Fatal(err)
				}
				_ = w.Body.Close()
			}
		})
	}
}

// TestR146BrowseReadsPublishersApart: a publisher of a registry that does not answer leaves time for the skills of others, and a publisher's skills that
// come first are not read before those of others.
func TestR146BrowseReadsPublishersApart(t *testing.T) {
	skills := []hostile.Skill{{ID: "zoo/quick"}}
	for i := range 40 {
		skills = append(skills, hostile.Skill{ID: fmt.Sprintf("acme/s%d", i)})
	}
	p := hostile.NewProvider(t, skills...)
	for _, s := range skills[1:] {
		p.On(s.ID, hostile.Descriptor, hostile.Hang())
	}
	limits := standardPageLimits
	limits.whole = time.Second
	rows := look(t, served(t, limits, `,"registries":[{"url":"`+p.URLOf("", hostile.Registry)+`","namespace":"all"}]`)).rows(t)
	if row := rows["all.zoo.quick"]; !strings.Contains(row, "Does something.") || strings.Contains(row, "unreachable") || len(rows) != len(skills) {
		t.Errorf("%d rows; %s", len(rows), row)
	}
	if row := rows["all.acme.s0"]; !strings.Contains(row, "It did not answer in time. unreachable") {
		t.Errorf("%s", row)
	}
}

// link returns the target of a link of a page; empty: there is none.
func (f fetched) link(t *testing.T, text string) string {
	t.Helper()
	for n := range parse(t, f.body).Descendants() {
		if n.Type == html.TextNode && n.Data == text {
			return attributeOf(n.Parent, "href")
		}
	}
	return ""
}

// TestR147BrowseReadsWhatAFilterNeeds: the page offers to read the descriptors that a filter needs, as many as a list has, and only those that the caller
// may see.
func TestR147BrowseReadsWhatAFilterNeeds(t *testing.T) {
	var skills []hostile.Skill
	for i := range 20 {
		skills = append(skills, hostile.Skill{ID: fmt.Sprintf("s%d", i), Edit: func(d hostile.Object) { d["tags"] = []string{"red"} }})
	}
	skills = append(skills, hostile.Skill{ID: "hidden", Access: "private", Edit: func(d hostile.Object) { d["tags"] = []string{"red"} }})
	big, small := hostile.NewProvider(t, skills...), hostile.NewProvider(t, hostile.Skill{ID: "s0"}, hostile.Skill{ID: "broken", Edit: func(d hostile.Object) { delete(d, "endpoint") }})
	read := func() (n int) {
		for _, s := range skills {
			n += big.Count(s.ID, hostile.Descriptor)
		}
		return n + small.Count("s0", hostile.Descriptor) + small.Count("broken", hostile.Descriptor)
	}
	limits := standardPageLimits
	limits.rows = 8
	url := served(t, limits, "", big, small)
	page, found := look(t, url+"/?tag=red"), 0
	for visit := 0; ; visit++ {
		unread := 22 - read()
		text, link := page.visible(t), page.link(t, "read them")
		if n, want := read(), min(8*visit, 22); n != want {
			t.Fatalf("after %d visits, %d descriptors were read, want %d", visit, n, want)
		}
		if none := strings.Contains(text, "No skill that was read matches."); none != (found == 0) {
			t.Errorf("after %d visits: %s", visit, text)
		}
		if visit > 0 && small.Count("broken", hostile.Descriptor) == 0 {
			t.Fatal("the source with few skills has no share")
		}
		if unread == 0 {
			if !strings.Contains(text, "20 of 22 skills") || strings.Contains(text, "not read yet:") || link != "" {
				t.Errorf("all are read: %q %s", link, text)
			}
			break
		}
		if !strings.Contains(text, fmt.Sprintf("%d of 22 skills · Show all · %d not read yet: read them", found, unread)) || link != "?read=1&tag=red" {
			t.Fatalf("%q is the link of %s", link, text)
		}
		page = look(t, url+"/"+link)
		found = read() - 2
	}
	if n := big.Count("hidden", hostile.Descriptor); n != 0 {
		t.Error("the descriptor of a skill is read that the caller may not see")
	}
	if more := look(t, url+"/"+"?read=1&tag=red").link(t, "All 20 of "); more != "?namespace=acme&tag=red" {
		t.Errorf("a link to more is %q", more)
	}
	if names := look(t, url+"/?state=invalid&read=1").shown(t); !slices.Equal(names, []string{"other.broken"}) {
		t.Errorf("invalid are %v", names)
	}

	// Only what a search finds is read for it, and nothing without a filter that needs it.
	big, small = hostile.NewProvider(t, skills...), hostile.NewProvider(t, hostile.Skill{ID: "s0"}, hostile.Skill{ID: "broken"})
	limits.rows = 200
	url = served(t, limits, "", big, small)
	look(t, url+"/?q=broken&read=1")
	if n := read(); n != 0 {
		t.Errorf("a search without a filter reads %d descriptors", n)
	}
	if names := look(t, url+"/?q=broken&state=available&read=1").shown(t); !slices.Equal(names, []string{"other.broken"}) || read() != 1 {
		t.Errorf("shown are %v after %d were read", names, read())
	}
}
