package attacks_test

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// publishIDs answers for an index with entries of these ids.
func publishIDs(p *hostile.Provider, ids []string) {
	entries := make([]hostile.Object, len(ids))
	for i, id := range ids {
		entries[i] = hostile.Object{
			"id": id, "name": "n", "description": "d", "version": "1.0.0", "capability_type": "api", "access": "public",
			"descriptor_url": p.URL() + "/d",
		}
	}
	index := hostile.Object{"protocol": hostile.Object{"version": "1.0.0"}, "provider": hostile.Object{"name": "Test"}, "skills": entries}
	p.Script("", hostile.Index, func(int) hostile.Action {
		return func(x *hostile.Exchange) { x.JSON(http.StatusOK, index) }
	})
}

// S52: a name that nobody has costs little, however many skills there are, however
// much alike a provider makes their ids, and whatever the agent asks for.
func TestS52MistypedNamesAreCheap(t *testing.T) {
	measures(t)
	const skills, batches = 10_000, 10
	honest, hostileIDs := make([]string, skills), make([]string, skills)
	words := []string{"weather", "invoice", "translate", "summarize", "payment", "calendar", "search", "image", "report", "ticket"}
	for i := range skills {
		honest[i] = fmt.Sprintf("acme/%s-%s/%s-%d", words[i%10], words[i/10%10], words[i/100%10], i/1000)
		// All of them have the same letters, and a long beginning in common.
		hostileIDs[i] = "evil/" + strings.Repeat("ab", 20) + strings.Map(func(r rune) rune { return 'a' + (r-'0')%2 }, fmt.Sprintf("%014b", i))
	}
	a, b := hostile.NewProvider(t), hostile.NewProvider(t)
	publishIDs(a, honest)
	publishIDs(b, hostileIDs)
	lines := []string{provider(a.URL(), "acme"), provider(b.URL(), "evil"), "cache {\n\tttl 1h\n}"}
	few := hostile.NewProvider(t, hostile.Skill{ID: "one"})
	for i := range 10 {
		lines = append(lines, provider(few.URL(), "further"+strconv.Itoa(i)))
	}
	c := testbed.StartCaddy(t, testbed.Bridge(lines...))
	batch := func(name func(i int) string) string {
		calls := make([]hostile.Object, 50)
		for i := range calls {
			calls[i] = hostile.Object{"jsonrpc": "2.0", "id": i, "method": "describe_skill", "params": hostile.Object{"name": name(i)}}
		}
		text, err := json.Marshal(calls)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for about, body := range map[string]string{
		"a typing error":         batch(func(i int) string { return fmt.Sprintf("acme.weather-invoice.tramslate-%d", i) }),
		"no namespace":           batch(func(i int) string { return "wether-" + strconv.Itoa(i) }),
		"nothing like it":        batch(func(i int) string { return "acme." + strings.Repeat("q", i) }),
		"one of thousands alike": batch(func(i int) string { return "evil." + strings.Repeat("ab", 20) + strings.Repeat("b", i%15) }),
		"all dots":               batch(func(int) string { return strings.Repeat(".", 18_000) }),
		"all slashes":            batch(func(int) string { return "acme" + strings.Repeat("/", 18_000) }),
	} {
		const most = 25 * time.Millisecond // 5 ms for the names, and what the rest takes; without bounds, they take more than ten times as much
		room := 8<<20 + 2*uint64(len(body))
		testbed.Eventually(t, time.Minute, func() bool { return strings.Count(string(c.Post(body).Body), "SKILL_NOT_FOUND") == 50 }, "the indexes are read")
		took, allocated := time.Hour, uint64(1<<60) // in the trial that took least, client and log included
		for range 6 {
			var before, after runtime.MemStats
			needed := testbed.Ordinary(t, func() time.Duration { return testbed.CPU(t, os.Getpid()) })
			runtime.ReadMemStats(&before)
			for range batches {
				answer := c.Post(body)
				if n := strings.Count(string(answer.Body), "SKILL_NOT_FOUND"); n != 50 {
					t.Fatalf("%s: %d of 50 were not found: %.300s", about, n, answer.Body)
				}
			}
			took = min(took, needed()/batches)
			runtime.ReadMemStats(&after)
			allocated = min(allocated, (after.TotalAlloc-before.TotalAlloc)/batches)
			if took <= most && allocated <= room {
				break
			}
		}
		t.Logf("%s: %s of the processor, %d KB for a batch of 50", about, took, allocated>>10)
		if took > most {
			t.Errorf("%s: a batch of 50 takes %s of the processor", about, took)
		}
		if allocated > room {
			t.Errorf("%s: a batch of 50 allocates %d bytes", about, allocated)
		}
	}
	if answer := c.Execute("acme.weather-invoice.tramslate-3", nil); !strings.Contains(string(answer.Data.Details), `"acme.weather-invoice.translate-3"`) {
		t.Errorf("what was meant is not named: %v", answer)
	}
}

// S54: a listed name begins with its source's namespace, and shows what it is: ids
// with characters that can't be seen or that turn text around, and those that begin
// with what looks like the namespace of another, are left out, with a warning.
func TestS54NamesShowWhatTheyAre(t *testing.T) {
	evil := hostile.NewProvider(t)
	for _, id := range []string{
		"acme", "ACME/pay", "ACME.pay", "acme-corp/pay", "日本語/天気", "café/menu", "évil/own", "pay", // fine
		"acme/pay\n", "line\u2028break", "\u202eyap.emca", "a\u2067b", "acm\u200be/pay", "acme\u2060/pay", "tag\U000e0041", "a\u00a0b", "filler\u3164", "emoji\ufe0f", "\u0007bell", "soft\u00adhyphen",
		"аcme/pay", "acmе.pay", "асmе/pay", "АСМЕ/pay", "ａｃｍｅ/pay", "𝐚cme/pay", "acme\u2024pay\u0430", "аcme\u2215pay", // Cyrillic, full width, mathematical, other dots and slashes
	} {
		evil.Publish(hostile.Skill{ID: id})
	}
	acme := hostile.NewProvider(t, hostile.Skill{ID: "acme/pay"})
	c := testbed.StartCaddy(t, testbed.Bridge(provider(evil.URL(), "evil"), provider(acme.URL(), "acme")))
	names := c.Names()
	want := []string{
		"acme.pay", "evil.acme", "evil.ACME/pay", "evil.ACME.pay", "evil.acme-corp.pay", "evil.pay",
		"evil.日本語.天気", "evil.café.menu", "evil.évil.own",
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the names are %q, want %q", names, want)
	}
	for _, name := range names {
		mustComplete(t, c.Execute(name, nil))
	}
	for _, name := range []string{"acme.pау", "аcme.pay", "acme.payy", "асmе.pay", "evil.аcme.pay", "pay\n"} {
		a := c.Execute(name, nil)
		var d struct {
			Candidates []string `json:"candidates"`
		}
		if err := json.Unmarshal(a.Data.Details, &d); err != nil && a.Outcome() == "SKILL_NOT_FOUND" {
			t.Errorf("%q: %v", name, a)
		}
		for _, candidate := range d.Candidates {
			if !slices.Contains(want, candidate) {
				t.Errorf("%q: %q is suggested", name, candidate)
			}
		}
	}
	for _, part := range []string{"invisible characters", "looks like the namespace of another source"} {
		lines := c.Log.Lines(part)
		if len(lines) == 0 || len(lines) > 25 {
			t.Errorf("%d warnings: %q", len(lines), part)
		}
		for _, line := range lines {
			if strings.ContainsAny(line, "\u202e\u2067\u200b\u2060\U000e0041\u3164") || strings.Contains(line, "аcme") {
				t.Errorf("the log shows the id as it is: %q", line)
			}
		}
	}
	if text := c.Log.Text(); !strings.Contains(text, `\\u202eyap.emca`) || !strings.Contains(text, `\\u0430cme/pay`) {
		t.Error("the log does not say which ids were left out")
	}

	// However many of them there are, the log stays short.
	many := make([]string, 5000)
	for i := range many {
		many[i] = strconv.Itoa(i) + "\u202e"
	}
	evil = hostile.NewProvider(t)
	publishIDs(evil, many)
	c.Stop()
	c = testbed.StartCaddy(t, testbed.Bridge(provider(evil.URL(), "evil")))
	c.Names()
	if lines := c.Log.Lines("not listed"); len(lines) == 0 || len(lines) > 25 {
		t.Errorf("%d warnings about 5000 ids", len(lines))
	}
}

// S61: a listed name is listed once and calls the skill that it stands for,
// whatever ids and namespaces there are; no provider can take a name from another
// or block it.
func TestS61OneNameOneSkill(t *testing.T) {
	type source struct {
		namespace string
		ids       []string
		lines     []string
	}
	for about, sources := range map[string][]source{
		"a namespace within another": {
			{"acme", []string{"weather/forecast", "weather.forecast", "news"}, nil},
			{"acme.weather", []string{"forecast", "acme.weather/forecast"}, nil},
		},
		"the same two ids": {
			{"a", []string{"x/y.z", "x.y/z"}, nil},
			{"b", []string{"x.y/z", "x/y.z"}, nil},
		},
		"names that look like those of others": {
			{"a", []string{"a.x", "x", "a/a/x", "a.a.x"}, nil},
			{"b", []string{"x", "A.x"}, nil},
		},
		"names that the operator has given away": {
			{"a", []string{"x", "y", "a/z"}, []string{"alias a.x y", "alias b.x a/z"}},
			{"b", []string{"x", "b/x"}, []string{"alias a.z x"}},
		},
		"a single source": {{"a", []string{"x/y", "x.y", "a/x/y", "a.x.y", "a.a.x.y"}, nil}},
	} {
		t.Run(about, func(t *testing.T) {
			var lines []string
			count := 0
			for _, s := range sources {
				p := hostile.NewProvider(t)
				for _, id := range s.ids {
					p.Publish(hostile.Skill{ID: id, Edit: func(d hostile.Object) { d["description"] = s.namespace + " " + id }, EditEntry: func(e hostile.Object) { e["description"] = s.namespace + " " + id }})
				}
				lines = append(lines, provider(p.URL(), s.namespace, s.lines...))
				count += len(s.ids)
			}
			c := testbed.StartCaddy(t, testbed.Bridge(lines...))
			var list struct {
				Skills []struct{ Name, Namespace, Description string }
			}
			if err := json.Unmarshal(c.Call("list_skills", hostile.Object{"detail": "summary"}).Result, &list, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			seen := make(map[string]bool)
			for _, s := range list.Skills {
				if seen[s.Name] {
					t.Errorf("%s is listed twice", s.Name)
				}
				seen[s.Name] = true
				a := c.Call("describe_skill", hostile.Object{"name": s.Name, "detail": "manifest"})
				if !strings.Contains(string(a.Result), strconv.Quote(s.Description)) {
					t.Errorf("%s is listed as %q, but means another: %v", s.Name, s.Description, a)
				}
				mustComplete(t, c.Execute(s.Name, nil))
			}
			if about != "a namespace within another" && len(list.Skills) != count {
				t.Errorf("%d of %d skills are listed: %+v", len(list.Skills), count, list.Skills)
			}
		})
	}
}
