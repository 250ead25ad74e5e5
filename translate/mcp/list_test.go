package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
)

// Section 3: a source whose descriptors can't be read at the moment is named, and the list has what could be read, perhaps nothing.
func TestUnreadableDescriptors(t *testing.T) {
	knowledge := object{"capability_type": "knowledge"}
	for about, refusal := range map[string]http.HandlerFunc{
		"unavailable": providertest.Refused(503, "SERVICE_UNAVAILABLE"), "busy": providertest.Refused(429, "RATE_LIMITED"), "timed out": providertest.Answer(504, ""), "no access": providertest.Refused(403, "PERMISSION_DENIED"), "broken": providertest.Answer(500, object{}),
	} {
		var down *providertest.Provider
		s := newServer(t, func(s *server) {
			down = providertest.Start(t, skill("one", providertest.Merge(knowledge, object{"id": "down/one"})), skill("two", providertest.Merge(knowledge, object{"id": "down/two"})))
			s.source(t, "down", down)
		}, skill("good", knowledge))
		down.On("GET /skills/0.json", refusal)
		down.On("GET /skills/1.json", refusal)
		for method, list := range map[string]string{"tools/list": "tools", "prompts/list": "prompts"} {
			g := s.modern(t, method, object{})
			listed := names(at(g.result(), list).([]any))
			if !slices.Contains(listed, "acme_good") || slices.ContainsFunc(listed, func(name string) bool { return strings.HasPrefix(name, "down") }) ||
				at(g.result(), "_meta", "io.github.skill-bridge/unavailable", 0, "namespace") != "down" || at(g.result(), "ttlMs") != 5000.0 {
				t.Errorf("%s, %s: %s", about, method, g.text)
			}
		}
		none := newServer(t, func(s *server) {
			s.On("GET /skills/0.json", refusal)
		}, skill("one", knowledge))
		for _, method := range []string{"tools/list", "prompts/list"} {
			g := none.modern(t, method, object{})
			listed := names(at(g.result(), strings.TrimSuffix(method, "/list")).([]any))
			if slices.Contains(listed, "acme_one") || at(g.result(), "_meta", "io.github.skill-bridge/unavailable", 0, "namespace") != "acme" {
				t.Errorf("%s, %s: %d %s", about, method, g.status, g.text)
			}
		}
	}
	// One of several: it may be readable in a moment.
	s := newServer(t, func(s *server) { s.On("GET /skills/0.json", providertest.Refused(503, "SERVICE_UNAVAILABLE")) }, skill("busy", nil), skill("good", nil))
	g := s.modern(t, "tools/list", object{})
	if at(g.result(), "_meta", "io.github.skill-bridge/unavailable", 0, "namespace") != "acme" || !slices.Contains(names(at(g.result(), "tools").([]any)), "acme_good") {
		t.Errorf("%s", g.text)
	}
}

// Section 3: the descriptors of one page decide neither about its source nor about the next pages: one publisher of a registry, or the dead hosts
// of an honest provider, whose skills come first, do not take the others from all clients.
func TestPagesOfUnreadableDescriptors(t *testing.T) {
	for about, refusal := range map[string]http.HandlerFunc{
		"unavailable": providertest.Refused(503, "SERVICE_UNAVAILABLE"), "broken": providertest.Answer(500, object{}), "no access": providertest.Refused(403, "PERMISSION_DENIED"),
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		for _, inRegistry := range []bool{false, true} {
			skills := make([]object, 2*mcp.PageSize+3)
			for i := range skills {
				skills[i] = skill(fmt.Sprintf("s-%03d", i), object{"capability_type": "knowledge"})
			}
			s := newServer(t, func(s *server) {
				if inRegistry {
					s.config.Sources[0].Kind = catalog.RegistrySource
				}
			}, skills...)
			s.On("GET /skills", func(w http.ResponseWriter, r *http.Request) {
				r.URL.Path = "/.well-known/skill-sharing"
				s.ServeHTTP(w, r)
			})
			for i := range 2*mcp.PageSize + 1 {
				s.On(fmt.Sprintf("GET /skills/%d.json", i), refusal)
			}
			for method, list := range map[string]string{"tools/list": "tools", "prompts/list": "prompts"} {
				var listed []string
				params := object{}
				for page := 0; ; page++ {
					g := s.modern(t, method, params)
					if g.body["error"] != nil || at(g.result(), "_meta", "io.github.skill-bridge/unavailable", 0, "namespace") != "acme" && page < 2 {
						t.Fatalf("%s, %s, page %d: %.500s", about, method, page, g.text)
					}
					listed = append(listed, names(at(g.result(), list).([]any))...)
					cursor, more := at(g.result(), "nextCursor").(string)
					if !more {
						break
					}
					params = object{"cursor": cursor}
				}
				if listed = slices.DeleteFunc(listed, func(name string) bool { return name == "get_run" }); !slices.Equal(listed, []string{"acme_s-201", "acme_s-202"}) {
					t.Errorf("%s, %s: %q", about, method, listed)
				}
			}
		}
	}
	s := newServer(t, func(s *server) {
		s.On("GET /.well-known/skill-sharing", providertest.Refused(503, "SERVICE_UNAVAILABLE"))
	}, skill("one", nil))
	if g := s.modern(t, "tools/list", object{}); at(g.failure(), "code") != -32603.0 {
		t.Errorf("the only index can't be read: %s", g.text)
	}
}

// Section 2: a list is private on all pages if it depends on the principal: a private skill is not listed for anonymous callers.
func TestScopeOfLists(t *testing.T) {
	for about, v := range map[string]struct {
		access string
		change func(*server)
		want   string
	}{
		"public":           {"public", nil, "public"},
		"private":          {"private", nil, "private"},
		"with an alias":    {"private", func(s *server) { s.config.Sources[0].Aliases = []catalog.Alias{{Name: "known", SkillID: "acme/s-149"}} }, "public"},
		"of another alias": {"private", func(s *server) { s.config.Sources[0].Aliases = []catalog.Alias{{Name: "known", SkillID: "acme/s-001"}} }, "private"},
	} {
		skills := make([]object, 150)
		for i := range skills {
			skills[i] = skill(fmt.Sprintf("s-%03d", i), object{"capability_type": "knowledge"})
		}
		skills[149]["access"] = v.access
		s := newServer(t, v.change, skills...)
		for _, method := range []string{"tools/list", "resources/list", "prompts/list", "skills/list"} {
			for _, user := range []string{"", "ada"} {
				for params, page := (object{}), 1; params != nil; page++ {
					r := s.modern(t, method, params, "User", user).result()
					if params = nil; r["nextCursor"] != nil {
						params = object{"cursor": r["nextCursor"]}
					}
					if r["cacheScope"] != v.want {
						t.Errorf("%s: page %d of %s for %q: %v", about, page, method, user, r["cacheScope"])
					}
				}
			}
		}
	}
}

// Section 3: get_run is one of the tools that are sorted by name, 100 a page, wherever its name belongs.
func TestPlaceOfGetRun(t *testing.T) {
	for before := range 4 {
		for after := range 4 {
			if after%3 > 0 && !longtest.Runs(longtest.Long) {
				continue
			}
			before, after := 97*min(before, 1)+before, 97*min(after, 1)+after
			var skills []object
			for i := range before {
				skills = append(skills, skill(fmt.Sprintf("b%03d", i), nil))
			}
			for i := range after {
				skills = append(skills, skill(fmt.Sprintf("z%03d", i), object{"id": fmt.Sprintf("z/z%03d", i)}))
			}
			s := newServer(t, func(s *server) {
				s.config.Sources = nil
				s.source(t, "a", providertest.Start(t, append(skills[:before:before], skill("c", nil))...))
				s.source(t, "z", providertest.Start(t, append(skills[before:], skill("zz", object{"id": "z/zz"}))...))
			})
			tools, pages := s.tools(t, s.modern)
			all := names(tools)
			if n := before + after + 3; len(all) != n || pages != (n+99)/100 || !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != n || !slices.Contains(all, "get_run") {
				t.Errorf("%d before, %d after: %d tools on %d pages", before, after, len(all), pages)
			}
			first := s.modern(t, "tools/list", object{})
			if n := len(at(first.result(), "tools").([]any)); n != min(before+after+3, 100) {
				t.Errorf("%d before, %d after: %d tools on the first page", before, after, n)
			}
		}
	}
}

// Section 2: what is left of the index's freshness, and 5 seconds while a source can't be read, also if its stale list is used. Then it is
// named like one without a list.
func TestFreshnessOfStaleLists(t *testing.T) {
	single := providertest.Start(t, skill("single", object{"capability_type": "knowledge"}))
	descriptor := single.Descriptor(skill("single", object{"capability_type": "knowledge"}))
	single.On("GET /skills/0.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0")
		descriptor(w, r)
	})
	s := newServer(t, func(s *server) {
		direct := s.source(t, "only", single)
		direct.Kind = catalog.SkillSource
		direct.URL = direct.URL.JoinPath("skills/0.json")
	}, skill("one", object{"capability_type": "knowledge"}))
	s.On("GET /.well-known/skill-sharing", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0")
		providertest.Answer(http.StatusOK, object{
			"protocol": object{"version": "1.0.0"}, "provider": object{"name": "Test"},
			"skills": []object{{"id": "acme/one", "name": "one", "capability_type": "knowledge", "description": "d", "descriptor_url": s.URL + "/skills/0.json", "access": "public", "version": "1.0.0"}},
		})(w, r)
	})
	read := func(about string, ttl float64, unavailable ...any) {
		t.Helper()
		for method, list := range map[string]string{"tools/list": "tools", "resources/list": "resources", "prompts/list": "prompts"} {
			g := s.modern(t, method, object{})
			if all, _ := at(g.result(), list).([]any); at(g.result(), "ttlMs") != ttl || len(all) < 2 {
				t.Errorf("%s, %s: %s", about, method, g.text)
			}
			var named []any
			list, _ := at(g.result(), "_meta", "io.github.skill-bridge/unavailable").([]any)
			for _, u := range list {
				if named = append(named, at(u, "namespace")); at(u, "code") != "ENDPOINT_UNREACHABLE" || !strings.Contains(at(u, "message").(string), "HTTP 503") {
					t.Errorf("%s, %s: %v", about, method, u)
				}
			}
			if !slices.Equal(named, unavailable) {
				t.Errorf("%s, %s: %v", about, method, named)
			}
		}
	}
	read("lists that are never fresh", 0)
	fresh := single.Descriptor(skill("single", object{"capability_type": "knowledge"}))
	single.On("GET /skills/0.json", providertest.Refused(503, "SERVICE_UNAVAILABLE"))
	for range 5 { // also when the circuit breaker is open
		read("a stale descriptor", 5000, "only")
	}
	s.On("GET /.well-known/skill-sharing", providertest.Refused(503, "SERVICE_UNAVAILABLE"))
	for range 5 {
		read("a stale index, too", 5000, "acme", "only")
	}
	single.On("GET /skills/0.json", fresh)
	read("the descriptor can be read again", 5000, "acme")
}

// allocations returns how many pieces of memory are allocated while a request is answered, after one that reads the descriptors.
func (s *server) allocations(t *testing.T, body string, header ...string) (mallocs uint64, size int) {
	t.Helper()
	ask := func() {
		r := s.open(t, t.Context(), body, header...)
		defer r.Body.Close()
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%v %d", err, r.StatusCode)
		}
		size = int(n)
	}
	ask()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ask()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, size
}

// Schemas and texts of descriptors are made once, not for each list or description: a short request would cost seconds.
func TestListsAreMadeOnce(t *testing.T) {
	properties := object{}
	for i := range 200 {
		properties[fmt.Sprintf("p%03d", i)] = object{"description": "größer", "items": object{"$ref": "#"}}
	}
	var skills []object
	for i := range 20 {
		inputs := []object{providertest.Input("x", "object", object{"schema": object{"properties": properties}})}
		for j := range 100 {
			inputs = append(inputs, providertest.Input(fmt.Sprint("y", j), "string", object{"description": strings.Repeat("größer ", 50)}))
		}
		changes := output("application/json", object{"type": "array", "items": object{"properties": properties}})
		changes["capability_type"] = "knowledge"
		skills = append(skills, skill(fmt.Sprint("s", i), changes, inputs...))
	}
	s := newServer(t, nil, skills...)
	search := newServer(t, func(s *server) { s.front.Options.Search = true }, skills...)
	modern := func(method string, params object) (string, []string) { return modernRequest(t, method, params) }
	for what, ask := range map[string]func() (uint64, int){
		"tools": func() (uint64, int) {
			body, header := modern("tools/list", object{})
			return s.allocations(t, body, header...)
		},
		"legacy": func() (uint64, int) { return s.allocations(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`) },
		"prompts": func() (uint64, int) {
			body, header := modern("prompts/list", object{})
			return s.allocations(t, body, header...)
		},
		"describe_skill": func() (uint64, int) {
			body, header := modern("tools/call", object{"name": "describe_skill", "arguments": object{"name": "acme.s1"}})
			return search.allocations(t, body, header...)
		},
	} {
		if n, size := ask(); n > 2000 || size < 10_000 {
			t.Errorf("%s: %d allocations for %d bytes", what, n, size)
		}
	}
}
