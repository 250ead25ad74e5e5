package agentskills

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json" // what installers read the index with
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// bridge lists skills, of which anonymous callers see those that are not hidden.
type bridge struct {
	mu          sync.Mutex
	skills      []catalog.Entry // by tool name
	unavailable []catalog.Unavailable
	wait        chan struct{} // lists wait for it; nil: they do not
	lists       int
	reports     []string
}

func (b *bridge) set(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skills = nil
	for _, name := range names {
		name, hidden := strings.CutPrefix(name, "-")
		name, text, _ := strings.Cut(name, " ")
		b.skills = append(b.skills, catalog.Entry{
			Name: "acme." + name, Tool: "acme_" + name, Namespace: "acme", Hidden: hidden, Descriptor: &document.Descriptor{Name: name, Description: text},
		})
	}
}

func (b *bridge) List(ctx context.Context, q translate.Query) translate.Listing {
	b.mu.Lock()
	wait := b.wait
	b.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lists++
	l := translate.Listing{Unavailable: b.unavailable, FreshUntil: time.Now().Add(time.Hour)}
	if len(b.unavailable) == 0 || b.unavailable[0].Namespace != "acme" {
		l.Read = 1
	}
	for _, e := range b.skills {
		if e.Tool <= q.AfterTool || e.Hidden && q.Principal == "" || q.Namespace != "" && q.Namespace != e.Namespace {
			continue
		}
		if q.Limit > 0 && len(l.Skills) == q.Limit {
			l.NextAfter = l.Skills[q.Limit-1].Tool
			break
		}
		l.Skills = append(l.Skills, e)
	}
	return l
}

func (b *bridge) ToolNames(context.Context) (tools []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.skills {
		tools = append(tools, e.Tool)
	}
	return tools
}

func (b *bridge) ReportRun(_ context.Context, call translate.Call, o translate.Operation, r *run.Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := call.Front + " " + call.Method + " " + string(o)
	if r.Failure != nil {
		text += fmt.Sprint(" ", r.Failure.Kind)
	}
	b.reports = append(b.reports, text)
}

func get(s *Site, path, principal, url string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.Serve(context.Background(), w, httptest.NewRequest(http.MethodGet, wellKnown+path, nil), run.Caller{Principal: principal}, url)
	return w
}

type entry struct{ Name, URL, Digest string }

// index returns the entries of the index for a caller.
func index(t *testing.T, s *Site, principal, url string) []entry {
	t.Helper()
	w := get(s, "index.json", principal, url)
	var read struct{ Skills []entry }
	if err := json.Unmarshal(w.Body.Bytes(), &read); err != nil || w.Code != 200 {
		t.Fatalf("%v, %d %s", err, w.Code, w.Body)
	}
	return read.Skills
}

// check reads the file of an entry, and checks its digest.
func (e *entry) check(t *testing.T, s *Site, principal, url string) {
	t.Helper()
	w := get(s, e.URL, principal, url)
	if sum := sha256.Sum256(w.Body.Bytes()); w.Code != 200 || e.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%+v: %d %.200s", e, w.Code, w.Body)
	}
}

// An installer reads the index, and then the files, while descriptors change: each file has the digest of the index, or there is none.
func TestInstallWhileSkillsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{}
		s := NewSite(b)
		b.set("a first", "b", "c")
		entries := index(t, s, "", endpoint)
		for i := range 8 {
			time.Sleep(time.Minute)
			b.set(fmt.Sprint("a now ", i), "b")
			now := index(t, s, "", endpoint)
			if len(now) != 2 || now[0] == entries[0] || now[1] != entries[1] {
				t.Fatalf("%+v", now)
			}
			now[0].check(t, s, "", endpoint)
			entries[1].check(t, s, "", endpoint)
			if w := get(s, entries[0].URL, "", endpoint); w.Code != 404 {
				t.Errorf("a file that has changed: %d", w.Code)
			}
		}
		if w := get(s, entries[2].URL, "", endpoint); w.Code != 404 {
			t.Errorf("a skill that does not exist any more: %d", w.Code)
		}
		tag := get(s, "index.json", "", endpoint).Header().Get("ETag")
		b.set("a with another text", "b")
		time.Sleep(time.Minute)
		if w := get(s, "index.json", "", endpoint); w.Header().Get("ETag") == tag {
			t.Error("another index has the same entity tag")
		}
		b.set("-a first", "b")
		time.Sleep(recheck)
		if w := get(s, entries[0].URL, "", endpoint); w.Code != 404 {
			t.Errorf("a skill that the caller may not see any more: %d", w.Code)
		}
		entries[0].check(t, s, "ann", endpoint)
		b.set("a last", "b")
		time.Sleep(recheck)
		_ = index(t, s, "", endpoint)
		if len(s.contents) != 2 {
			t.Errorf("%d contents are kept", len(s.contents))
		}
		entries = index(t, s, "", endpoint)
		b.set("A", "b") // another skill, whose file has the same name
		time.Sleep(recheck)
		if w := get(s, entries[0].URL, "", endpoint); w.Code != 404 {
			t.Errorf("a skill whose name another one has: %d", w.Code)
		}
	})
}

// Requests that follow one another, or that come at the same time, cost one reading; equal indexes are made once.
func TestCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{wait: make(chan struct{})}
		s := NewSite(b)
		b.set("a", "b")
		var done sync.WaitGroup
		for range 50 {
			done.Go(func() { _ = index(t, s, "", endpoint) })
		}
		synctest.Wait()
		close(b.wait)
		done.Wait()
		for range 50 {
			for _, e := range index(t, s, "", endpoint) {
				e.check(t, s, "", endpoint)
			}
		}
		if b.lists != 1 || len(s.indexes) != 1 {
			t.Errorf("%d lists, %d indexes", b.lists, len(s.indexes))
		}
		for i := range 2 * maxViews {
			_ = index(t, s, fmt.Sprint("user", i), endpoint)
		}
		if len(s.indexes) != 1 || len(s.views) != maxViews {
			t.Errorf("%d indexes, %d views", len(s.indexes), len(s.views))
		}
		for i := range 3 * maxIndexes {
			_ = index(t, s, "", fmt.Sprintf("https://host%d.example/", i))
		}
		if len(s.indexes) != maxIndexes {
			t.Errorf("%d indexes", len(s.indexes))
		}
	})
}

// Callers that come at the same time each get their own list.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{wait: make(chan struct{})}
		b.set("a", "-b")
		s := NewSite(b)
		got := map[string]chan []entry{"": make(chan []entry, 1), "ann": make(chan []entry, 1)}
		for _, principal := range []string{"ann", ""} {
			go func() { got[principal] <- index(t, s, principal, endpoint) }()
			synctest.Wait()
		}
		close(b.wait)
		if all, public := <-got["ann"], <-got[""]; len(all) != 2 || len(public) != 1 || public[0].Name != "acme-a" {
			t.Errorf("ann sees %+v, others see %+v", all, public)
		}
	})
}

// A source of which the index can be read, but no skill, is an answer: an index that is empty, and not fresh.
func TestOnlyDeadLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSite(deadLinks{&bridge{}})
		w := get(s, "index.json", "", endpoint)
		if entries := index(t, s, "", endpoint); len(entries) != 0 || w.Header().Get("Cache-Control") != "public, max-age=0" {
			t.Errorf("%+v, %v", entries, w.Header())
		}
	})
}

// deadLinks is a bridge whose only source lists skills that can't be read.
type deadLinks struct{ *bridge }

func (deadLinks) List(context.Context, translate.Query) translate.Listing {
	return translate.Listing{Read: 1, Unavailable: []catalog.Unavailable{{Namespace: "acme", Failure: &run.Failure{Kind: run.ProviderFault}}}}
}

// While a list can't be read, callers get the earlier one; without an earlier one, they are to come back.
func TestUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{unavailable: []catalog.Unavailable{{Namespace: "acme", Failure: &run.Failure{Kind: run.Unreachable}}}}
		s := NewSite(b)
		if w := get(s, "index.json", "", endpoint); w.Code != 503 || w.Header().Get("Retry-After") == "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		b.unavailable[0].Failure = &run.Failure{Kind: run.AuthRequired, By: run.Bridge, Demand: run.NoPrincipal()}
		if w := get(s, "index.json", "", endpoint); w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		b.unavailable = nil
		b.set("a")
		time.Sleep(recheck)
		first := index(t, s, "", endpoint)
		b.wait = make(chan struct{})
		b.set("b")
		time.Sleep(recheck)
		if again := index(t, s, "", endpoint); !slices.Equal(first, again) {
			t.Errorf("%+v, then %+v", first, again)
		}
		began := time.Now()
		if w := get(s, "index.json", "ann", endpoint); w.Code != 200 || time.Since(began) != reading {
			t.Errorf("%d after %s", w.Code, time.Since(began))
		}
		close(b.wait)
		synctest.Wait()
		if now := index(t, s, "", endpoint); now[0].Name != "acme-b" {
			t.Errorf("%+v", now)
		}
		b.unavailable = []catalog.Unavailable{{Namespace: "acme", Failure: &run.Failure{Kind: run.RateLimited, By: run.Bridge, Limit: &run.Limit{Name: "runs", OfBridge: true}}}}
		time.Sleep(longestRecheck)
		if now := index(t, s, "", endpoint); now[0].Name != "acme-b" {
			t.Errorf("%+v", now)
		}
		b.unavailable = []catalog.Unavailable{{Namespace: "other", Failure: &run.Failure{Kind: run.RateLimited, By: run.Bridge, Limit: &run.Limit{Name: "failed_reads"}}}}
		b.set("c")
		time.Sleep(longestRecheck)
		if now := index(t, s, "", endpoint); now[0].Name != "acme-c" {
			t.Errorf("a limit of one source decides about all: %+v", now)
		}
	})
}

// A site has at most 10,000 skills, of at most 32 MiB.
func TestBounds(t *testing.T) {
	b := &bridge{}
	s := NewSite(b)
	names := make([]string, maxSkills+10)
	for i := range names {
		names[i] = fmt.Sprintf("skill-%05d", i)
	}
	b.set(names...)
	var left []string
	s.LeftOut = func(_ context.Context, source string, n int) { left = append(left, fmt.Sprint(source, " ", n)) }
	entries := index(t, s, "", endpoint)
	_ = index(t, s, "ann", endpoint)
	if len(entries) != maxSkills || !slices.Equal(left, []string{"acme 10"}) {
		t.Errorf("%d skills, left out: %q", len(entries), left)
	}
	entries[maxSkills-1].check(t, s, "", endpoint)
	for path, want := range map[string]string{"index.json": "public, max-age=300", entries[0].Name + "/SKILL.md": "public, max-age=300", entries[0].URL: "public, max-age=3600"} {
		if got := get(s, path, "", endpoint).Header().Get("Cache-Control"); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, path := range []string{"index.json", entries[0].Name + "/SKILL.md", entries[0].URL} { // the next caller may be another
		header := get(s, path, "ann", endpoint).Header()
		if header.Get("Cache-Control") != "private, no-cache" || header.Get("ETag") == "" || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, header)
		}
	}
	if !longtest.Runs(longtest.Long) {
		return
	}
	b.skills = b.skills[:2500]
	for i := range b.skills {
		d := &document.Descriptor{Name: "x", Description: strings.Repeat("y", 2000)}
		for range 50 {
			d.Inputs = append(d.Inputs, document.Parameter{Name: "x", Type: "string", Description: strings.Repeat("z", 500)})
		}
		b.skills[i].Descriptor = d
	}
	s = NewSite(b)
	size := 0
	v, err := s.viewOf(t.Context(), run.Caller{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.contents {
		size += c.size()
	}
	if size > maxSize || size < maxSize-maxPage {
		t.Errorf("%d skills, %d bytes", len(v.contents), size)
	}
}

// newly lists skills with descriptors that nothing else holds.
type newly struct {
	bridge

	made []weak.Pointer[document.Descriptor]
	most int // descriptors in memory at the beginning of a list
}

// live returns how many descriptors are in memory.
func (b *newly) live() (n int) {
	runtime.GC()
	for _, p := range b.made {
		if p.Value() != nil {
			n++
		}
	}
	return n
}

func (b *newly) List(ctx context.Context, q translate.Query) translate.Listing {
	b.most = max(b.most, b.live())
	l := b.bridge.List(ctx, q)
	for i := range l.Skills {
		if l.Skills[i].Descriptor = nil; q.Descriptors > 0 {
			l.Skills[i].Descriptor = &document.Descriptor{Name: "x", Description: l.Skills[i].Name}
			b.made = append(b.made, weak.Make(l.Skills[i].Descriptor))
		}
	}
	return l
}

// Descriptors, and with them the files of a site's skills, stay in memory no longer than until their page is read: they are larger than
// the texts that are made of them, and there may be 10,000.
func TestDescriptorsAreNotHeld(t *testing.T) {
	b := new(newly)
	names := make([]string, 5*pageSize)
	for i := range names {
		names[i] = fmt.Sprintf("skill-%05d", i)
	}
	b.set(names...)
	s := NewSite(b)
	if entries := index(t, s, "", endpoint); len(entries) != len(names) {
		t.Errorf("%d skills", len(entries))
	}
	if b.most > pageSize {
		t.Errorf("%d descriptors were in memory", b.most)
	}
	if n := b.live(); n > 0 {
		t.Errorf("%d descriptors are in memory", n)
	}
	runtime.KeepAlive(s)
}

// A source with more skills, or longer ones, than a site can have leaves the others their share.
func TestShares(t *testing.T) {
	inputs := make([]document.Parameter, 50)
	for i := range inputs {
		inputs[i] = document.Parameter{Name: "x", Type: "string", Description: strings.Repeat("z", 500)}
	}
	for about, many := range map[string]struct {
		count      int
		descriptor *document.Descriptor
	}{
		"many skills": {maxSkills + 2000, &document.Descriptor{Name: "x"}},
		"long skills": {2500, &document.Descriptor{Name: "x", Inputs: inputs}},
	} {
		if about == "long skills" && !longtest.Runs(longtest.Long) {
			continue
		}
		b := new(bridge)
		for _, of := range []struct {
			source     string
			count      int
			descriptor *document.Descriptor
		}{{"a", many.count, many.descriptor}, {"b", 700, &document.Descriptor{Name: "x"}}, {"c", 3, many.descriptor}} {
			for i := range of.count {
				name := fmt.Sprintf("s%05d", i)
				b.skills = append(b.skills, catalog.Entry{Name: of.source + "." + name, Tool: of.source + "_" + name, Namespace: of.source, Descriptor: of.descriptor})
			}
		}
		s := NewSite(b)
		var left []string
		s.LeftOut = func(_ context.Context, source string, n int) { left = append(left, fmt.Sprint(source, " ", n)) }
		v, err := s.viewOf(t.Context(), run.Caller{})
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for _, c := range v.contents {
			counts[c.source]++
		}
		if counts["b"] != 700 || counts["c"] != 3 || counts["a"] == 0 || !slices.Equal(left, []string{fmt.Sprint("a ", many.count-counts["a"])}) {
			t.Errorf("%s: %v, left out: %q", about, counts, left)
		}
		if about == "many skills" && len(v.contents) != maxSkills {
			t.Errorf("%d skills", len(v.contents))
		}
	}
}

// Each request is reported, and a refused one with its reason.
func TestReports(t *testing.T) {
	b := &bridge{}
	s := NewSite(b)
	b.set("a")
	var refused []string
	s.RequirePrincipal, s.Refused = true, func(_ context.Context, method, reason string) { refused = append(refused, method+" "+reason) }
	_ = index(t, s, "ann", endpoint)
	_ = get(s, "acme-a/SKILL.md", "ann", endpoint)
	_ = get(s, "acme-b/SKILL.md", "ann", endpoint)
	_ = get(s, "index.json", "", endpoint)
	if w := get(s, "index.json", "ann", "http://a'b/"); w.Code != 400 {
		t.Errorf("%d", w.Code)
	}
	want := []string{
		"agent_skills index list", "agent_skills file describe", fmt.Sprint("agent_skills file describe ", run.SkillNotFound),
		fmt.Sprint("agent_skills index list ", run.AuthRequired), fmt.Sprint("agent_skills index list ", run.InvalidArguments),
	}
	if !slices.Equal(b.reports, want) || !slices.Equal(refused, []string{"agent_skills " + run.PrincipalRequired}) {
		t.Errorf("%q, %q", b.reports, refused)
	}
}
