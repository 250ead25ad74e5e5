package fronts_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

const skillIndex = "/.well-known/agent-skills/index.json"

// skillEntry is a skill in the index of Agent Skills Discovery.
type skillEntry struct{ Name, Type, Description, URL, Digest string }

func (e *skillEntry) path() string { return "/.well-known/agent-skills/" + e.URL }

// readIndex returns the entries of an index, after it has checked each file.
func readIndex(t *testing.T, c *testbed.Client, base string) []skillEntry {
	t.Helper()
	a := c.Send(http.MethodGet, base+skillIndex, "")
	if a.Err != nil || a.Status != 200 || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v, %d %.500s", a.Err, a.Status, a.Body)
	}
	var index struct {
		Schema string `json:"$schema"`
		Skills []skillEntry
	}
	if err := json.Unmarshal(a.Body, &index); err != nil || index.Schema != "https://schemas.agentskills.io/discovery/0.2.0/schema.json" {
		t.Fatalf("%v: %s", err, a.Body)
	}
	for _, e := range index.Skills {
		file := c.Send(http.MethodGet, base+e.path(), "")
		sum := sha256.Sum256(file.Body)
		if file.Status != 200 || e.Digest != "sha256:"+hex.EncodeToString(sum[:]) || e.Type != "skill-md" ||
			!strings.HasPrefix(file.Header.Get("Content-Type"), "text/markdown") || !strings.HasPrefix(string(file.Body), "---\nname: "+e.Name+"\n") {
			t.Errorf("%+v: %d %.300s", e, file.Status, file.Body)
		}
	}
	return index.Skills
}

// Section 6 of the issue: the index, the files, and the same bytes by read_skill_file, with a curl that works.
func TestAgentSkills(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/other"})
	for _, form := range []struct {
		about    string
		around   func(string) string
		lines    []string
		prefix   string
		endpoint string
	}{
		{"with rpc", alone, []string{"rpc /skills", "a2a", "agent_skills"}, "", "/skills"},
		{"rpc everywhere", alone, []string{"browse", "agent_skills"}, "", "/"},
		{"handle_path", func(bridge string) string { return "handle_path /x/* {\n" + bridge + "\n}" }, []string{"rpc", "agent_skills"}, "/x", "/x/rpc"},
	} {
		t.Run(form.about, func(t *testing.T) {
			c := testbed.StartCaddy(t, inSite(p, form.around, form.lines...))
			origin := base(c)
			entries := readIndex(t, c.Client, origin+form.prefix)
			if len(entries) != 2 || entries[0].Name != "acme-echo" || entries[1].Name != "acme-other" {
				t.Fatalf("%+v", entries)
			}
			file := c.Send(http.MethodGet, origin+form.prefix+entries[0].path(), "")
			command := regexp.MustCompile(`curl -sS '([^']*)' -H 'Content-Type: application/json' -d '([^']*)'`).FindStringSubmatch(string(file.Body))
			if command == nil || command[1] != origin+form.endpoint {
				t.Fatalf("%q in %s", command, file.Body)
			}
			if a := c.Send(http.MethodPost, command[1], command[2]); !strings.Contains(string(a.Body), `"status":"completed"`) {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			var read struct{ Result struct{ Content string } }
			a := c.Send(http.MethodPost, origin+form.endpoint, `{"jsonrpc":"2.0","id":1,"method":"read_skill_file","params":{"name":"acme.echo","path":"SKILL.md"}}`)
			if err := json.Unmarshal(a.Body, &read); err != nil || read.Result.Content != string(file.Body) {
				t.Errorf("%v: read_skill_file returns\n%s\nand the file is\n%s", err, read.Result.Content, file.Body)
			}
		})
	}
}

// The rules of HTTP: methods, conditional requests, ranges of caches, CORS, and what does not exist.
func TestAgentSkillsHTTP(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "agent_skills"))
	e := readIndex(t, c.Client, base(c))[0]
	const newest = "/.well-known/agent-skills/acme-echo/SKILL.md"
	for _, v := range []visit{
		{"HEAD", skillIndex, "", 200, ""},
		{"GET", newest, "", 200, "# "},
		{"HEAD", newest, "", 200, ""},
		{"OPTIONS", skillIndex, "", 204, ""},
		{"POST", skillIndex, "{}", 405, ""},
		{"DELETE", newest, "", 405, ""},
		{"GET", "/.well-known/agent-skills/acme-none/SKILL.md", "", 404, "index"},
		{"GET", "/.well-known/agent-skills/acme-echo/0123456789abcdef/SKILL.md", "", 404, "index"},
		{"GET", "/.well-known/agent-skills/acme-echo/x/SKILL.md", "", 418, "passed"},
		{"GET", "/.well-known/agent-skills/acme-echo", "", 418, "passed"},
		{"GET", "/.well-known/agent-skills/", "", 418, "passed"},
		{"GET", "/.well-known/skills/index.json", "", 418, "passed"},
	} {
		a := v.check(t, c.Client, base(c))
		if a.Status == 405 && a.Header.Get("Allow") != "GET, HEAD, OPTIONS" || a.Status != 418 && a.Status != 405 && a.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%v: %v", v, a.Header)
		}
	}
	for _, path := range []string{skillIndex, newest, e.path()} {
		a := c.Send(http.MethodGet, base(c)+path, "")
		tag := a.Header.Get("Etag")
		if !strings.HasPrefix(a.Header.Get("Cache-Control"), "public, max-age=") || a.Header.Get("Vary") != "Authorization" || !strings.HasPrefix(tag, `"`) {
			t.Errorf("%s: %v", path, a.Header)
		}
		if again := c.With(testbed.Header("If-None-Match", tag)).Send(http.MethodGet, base(c)+path, ""); again.Status != 304 || len(again.Body) > 0 || again.Header.Get("Etag") != tag {
			t.Errorf("%s: %d %v", path, again.Status, again.Header)
		}
	}
	if a := c.Send(http.MethodGet, base(c)+newest, ""); a.Header.Get("Etag") != `"`+strings.TrimPrefix(e.Digest, "sha256:")+`"` {
		t.Errorf("%v, digest %s", a.Header, e.Digest)
	}
}

// A caller sees the skills that lists have for him, and where a principal is needed, the files need one.
func TestAgentSkillsPrincipals(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/secret", Access: "private"})
	t.Run("private skills", func(t *testing.T) {
		c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "agent_skills", "principal {http.request.header.X-User}"))
		ann := c.With(testbed.Header("X-User", "ann"))
		all, few := readIndex(t, ann, base(c)), readIndex(t, c.Client, base(c))
		if len(all) != 2 || len(few) != 1 || few[0] != all[0] {
			t.Fatalf("%+v, %+v", all, few)
		}
		a := ann.Send(http.MethodGet, base(c)+all[1].path(), "")
		if !strings.HasPrefix(a.Header.Get("Cache-Control"), "private") || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%v", a.Header)
		}
		for _, path := range []string{all[1].path(), "/.well-known/agent-skills/" + all[1].Name + "/SKILL.md"} {
			if a := c.Send(http.MethodGet, base(c)+path, ""); a.Status != 404 {
				t.Errorf("%s: %d %.200s", path, a.Status, a.Body)
			}
		}
	})
	t.Run("access", func(t *testing.T) {
		c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "agent_skills", "principal {http.request.header.X-User}", "access {", "allow ann acme.secret", "allow bob *", "}"))
		ann, bob := c.With(testbed.Header("X-User", "ann")), c.With(testbed.Header("X-User", "bob"))
		few, all, none := readIndex(t, ann, base(c)), readIndex(t, bob, base(c)), readIndex(t, c.Client, base(c))
		if len(few) != 1 || len(all) != 2 || len(none) != 0 || few[0] != all[1] {
			t.Fatalf("%+v, %+v, %+v", few, all, none)
		}
		for _, path := range []string{all[0].path(), "/.well-known/agent-skills/" + all[0].Name + "/SKILL.md"} {
			if a := ann.Send(http.MethodGet, base(c)+path, ""); a.Status != 404 {
				t.Errorf("%s: %d %.200s", path, a.Status, a.Body)
			}
		}
	})
	t.Run("require_principal", func(t *testing.T) {
		c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "agent_skills", "require_principal", "principal {http.request.header.X-User}"))
		entries := readIndex(t, c.With(testbed.Header("X-User", "ann")), base(c))
		for _, path := range []string{skillIndex, entries[0].path(), "/.well-known/agent-skills/acme-none/SKILL.md"} {
			if a := c.Send(http.MethodGet, base(c)+path, ""); a.Status != 401 || a.Header.Get("Www-Authenticate") == "" {
				t.Errorf("%s: %d %v", path, a.Status, a.Header)
			}
		}
		if a := c.With(testbed.Header("X-User", "ann")).Send(http.MethodGet, base(c)+entries[0].path(), ""); !strings.Contains(string(a.Body), `-H "Authorization: $SKILL_BRIDGE_AUTHORIZATION"`) {
			t.Errorf("%s", a.Body)
		}
	})
	t.Run("a source that needs one", func(t *testing.T) {
		c := testbed.StartCaddy(t, testbed.Site(alone("skill_bridge {\nallow_http\nallow_networks 127.0.0.0/8\nrpc\nagent_skills\nprovider "+p.URL()+" {\nnamespace acme\nrequire_principal\n}\n}")))
		if a := c.Send(http.MethodGet, base(c)+skillIndex, ""); a.Status != 401 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
}

// The option url, and paths that do not reach the handler.
func TestAgentSkillsURL(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	t.Run("unreachable", func(t *testing.T) {
		c := testbed.StartCaddy(t, inSite(p, func(bridge string) string {
			return strings.Replace(bridge, "skill_bridge {", "skill_bridge /rpc {", 1) + "\nrespond passed 418"
		}, "rpc", "agent_skills"))
		testbed.Eventually(t, 10*time.Second, func() bool { return c.Log.Has(skillIndex) && c.Log.Has("do not reach it") }, "the index is not reached")
	})
	c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "agent_skills {", "url https://agents.example.com/x/rpc", "}"))
	const newest = "/.well-known/agent-skills/acme-echo/SKILL.md"
	if a := c.Send(http.MethodGet, base(c)+newest, ""); !strings.Contains(string(a.Body), "curl -sS 'https://agents.example.com/x/rpc' ") {
		t.Errorf("%s", a.Body)
	}
}
