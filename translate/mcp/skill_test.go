package mcp_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
)

// checkSkill checks an entry of skills/list as hosts do: each file has its digest and size, and the front matter is that of SKILL.md. It returns the name.
func (s *server) checkSkill(tb testing.TB, entry any, header ...string) string {
	tb.Helper()
	uri, _ := at(entry, "uri").(string)
	name, _ := at(entry, "frontmatter", "name").(string)
	folder, ok := strings.CutSuffix(uri, "/"+name+"/SKILL.md")
	if !ok || !regexp.MustCompile(`^skill://[A-Za-z0-9._-]+$`).MatchString(folder) || !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(name) || len(name) > 64 {
		tb.Errorf("%v", entry)
	}
	files, _ := at(entry, "resources").([]any)
	if at(files, 0, "uri") != uri {
		tb.Errorf("%v", files)
	}
	for i := range files {
		file, _ := at(files, i, "uri").(string)
		for _, read := range []func(testing.TB, string, object, ...string) *got{s.modern, s.legacy} {
			g := read(tb, "resources/read", object{"uri": file}, header...)
			text, _ := at(g.result(), "contents", 0, "text").(string)
			sum := sha256.Sum256([]byte(text))
			if at(files, i, "digest") != "sha256:"+hex.EncodeToString(sum[:]) || at(files, i, "size") != float64(len(text)) || at(g.result(), "contents", 0, "uri") != file || !strings.HasPrefix(file, folder+"/"+name+"/") {
				tb.Errorf("%v: %.500s", at(files, i), g.text)
			}
			if i == 0 {
				var front map[string]any
				parts := strings.SplitN(text, "---\n", 3)
				if len(parts) != 3 || parts[0] != "" || yaml.Unmarshal([]byte(parts[1]), &front) != nil || !reflect.DeepEqual(any(front), at(entry, "frontmatter")) {
					tb.Errorf("%v is not the front matter of %.500s", at(entry, "frontmatter"), text)
				}
			}
		}
	}
	return name
}

// SEP-2640: skills are folders of files with digests; what skills/list and skills/get say can be read, in both eras.
func TestSkills(t *testing.T) {
	s := newServer(t, nil, skill("tool", object{"description": "It's \"quoted\": \\ and # more\u0000\u202e", "tags": []any{"a", "---"}}), skill("a.b", nil), skill("CamelCase_x", nil), skill("on", nil), skill("123", nil))
	for modern, list := range map[bool]func(testing.TB, string, object, ...string) *got{true: s.modern, false: s.legacy} {
		g := list(t, "skills/list", object{})
		all, _ := g.result()["skills"].([]any)
		if len(all) != 5 || modern != (g.result()["resultType"] == "complete" && g.result()["ttlMs"] != nil && g.result()["cacheScope"] == "public") || modern != (g.result()["ttlMs"] != nil) {
			t.Fatalf("%s", g.text)
		}
		var names []string
		for _, entry := range all {
			names = append(names, s.checkSkill(t, entry))
			one := list(t, "skills/get", object{"uri": at(entry, "uri")})
			if !reflect.DeepEqual(at(one.result(), "skill"), entry) || modern != (one.result()["ttlMs"] != nil) || modern != (one.result()["cacheScope"] == "public") || one.result()["nextCursor"] != nil {
				t.Errorf("%v is not %s", entry, one.text)
			}
		}
		if got := fmt.Sprint(names); !regexp.MustCompile(`^\[123 camelcase-x-[0-9a-f]{6} a-b-[0-9a-f]{6} on tool\]$`).MatchString(got) {
			t.Errorf("%s", got)
		}
		for _, uri := range []string{
			"", "x", "skill://acme/none/SKILL.md", "skill://none/tool/SKILL.md", "skill://acme.tool/SKILL.md", "skill://acme/tool", "skill://acme/tool/", "skill://acme/tool/descriptor.json", "skill://acme/tool/x/SKILL.md",
			"skill://acme/tool%2FSKILL.md", "skill://acme/a.b/SKILL.md", "skill://acme/a-b/SKILL.md", "skill://acme/Tool/SKILL.md", "skill://ACME/tool/SKILL.md", "skill://acme//tool/SKILL.md", "skill:///acme/tool/SKILL.md", "skill://acme/../acme/tool/SKILL.md",
			strings.Repeat("skill://acme/", 10_000),
		} {
			g := list(t, "skills/get", object{"uri": uri})
			if g.status != http.StatusOK || at(g.failure(), "code") != -32602.0 || at(g.failure(), "data", "uri") == nil || len(g.text) > 2000 {
				t.Errorf("%.100q: %d %.500s", uri, g.status, g.text)
			}
		}
		for _, v := range []object{{"method": "skills/get"}, {"method": "skills/get", "uri": 1}, {"method": "skills/list", "cursor": "x"}, {"method": "skills/list", "cursor": 1}} {
			if g := list(t, v["method"].(string), v); at(g.failure(), "code") != -32602.0 {
				t.Errorf("%v: %s", v, g.text)
			}
		}
		for _, uri := range []string{"skill://acme/tool/skill.md", "skill://acme/tool/x", "skill://acme/tool/", "skill://acme/tool", "skill://acme/none/SKILL.md", "skill://acme/tool/../tool/SKILL.md", "skill://acme/tool/..%2Ftool/SKILL.md"} {
			if g := list(t, "resources/read", object{"uri": uri}); at(g.failure(), "code") == nil || at(g.failure(), "data", "uri") != uri {
				t.Errorf("%s: %s", uri, g.text)
			}
		}
		if g := list(t, "resources/read", object{"uri": "skill://acme/tool%2FSKILL.md"}); at(g.result(), "contents", 0, "text") == nil { // as the template makes it
			t.Errorf("%s", g.text)
		}
	}
}

// The pages of skills/list are those of tools/list, and hide what the caller may not see; what is hidden is like what does not exist.
func TestSkillsOfOthers(t *testing.T) {
	skills := []object{skill("secret", object{"access": "private"}), skill("broken", object{"endpoint": object{"url": "ftp://x", "method": "POST"}})}
	for i := range 120 {
		skills = append(skills, skill(fmt.Sprintf("s-%03d", i), nil))
	}
	s := newServer(t, func(s *server) {
		s.source(t, "closed", providertest.Start(t, providertest.Skill("closed/tool", nil))).RequirePrincipal = true
	}, skills...)
	for principal, want := range map[string]int{"": 120, "ada": 122} {
		seen, pages := map[string]bool{}, 0
		for cursor := any(nil); ; pages++ {
			params := object{}
			if cursor != nil {
				params["cursor"] = cursor
			}
			g := s.modern(t, "skills/list", params, "User", principal)
			list, _ := g.result()["skills"].([]any)
			for _, entry := range list {
				seen[at(entry, "uri").(string)] = true
			}
			if len(list) > 100 || g.result()["cacheScope"] != "private" {
				t.Fatalf("%.1000s", g.text)
			}
			if cursor = g.result()["nextCursor"]; cursor == nil {
				break
			}
			if g := s.modern(t, "tools/list", object{"cursor": cursor}, "User", principal); at(g.failure(), "code") != -32602.0 {
				t.Errorf("%.300s", g.text)
			}
		}
		named := principal != ""
		if len(seen) != want || pages != 1 || seen["skill://acme/secret/SKILL.md"] != named || seen["skill://closed/tool/SKILL.md"] != named {
			t.Errorf("%q: %d skills, %d pages", principal, len(seen), pages)
		}
		for _, method := range []string{"skills/get", "resources/read"} {
			hidden := s.modern(t, method, object{"uri": "skill://acme/secret/SKILL.md"}, "User", principal)
			none := s.modern(t, method, object{"uri": "skill://acme/absent/SKILL.md"}, "User", principal)
			if named != (hidden.result() != nil) || !named && strings.ReplaceAll(none.text, "absent", "secret") != hidden.text {
				t.Errorf("%q, %s: %s", principal, method, hidden.text)
			}
			if g := s.modern(t, method, object{"uri": "skill://closed/tool/SKILL.md"}, "User", principal); named != (g.result() != nil) {
				t.Errorf("%q, %s: %s", principal, method, g.text)
			}
		}
	}
}

// A source that can't be read is no reason to say that a skill does not exist.
func TestUnreadableSkills(t *testing.T) {
	s := newServer(t, func(s *server) {
		s.On("GET /.well-known/skill-sharing", providertest.Refused(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE"))
	}, skill("tool", nil))
	for method, params := range map[string]object{"skills/list": {}, "skills/get": {"uri": "skill://acme/tool/SKILL.md"}, "resources/read": {"uri": "skill://acme/tool/SKILL.md"}} {
		if g := s.modern(t, method, params); at(g.failure(), "code") != -32603.0 {
			t.Errorf("%s: %s", method, g.text)
		}
	}
}
