package agentskills

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// manySkills is how many skills the tests about cost have: taking their digests takes at least as many allocations.
const manySkills = 2000

func manySkillsOf(tb testing.TB) (*bridge, *Site) {
	tb.Helper()
	b := &bridge{}
	names := make([]string, manySkills)
	for i := range names {
		names[i] = fmt.Sprintf("skill-%05d", i)
	}
	b.set(names...)
	s := NewSite(b)
	_ = get(s, "index.json", "", endpoint)
	return b, s
}

// The client of a request chooses its Host: a new one costs no more than what is asked for, and nothing for a client that has gone or has the index.
func TestNewHosts(t *testing.T) {
	_, s := manySkillsOf(t)
	known := get(s, "index.json", "", endpoint)
	gone, leave := context.WithCancel(context.Background())
	leave()
	hosts := 0
	for what, ask := range map[string]func(url string) int{
		"HEAD": func(url string) int {
			w := httptest.NewRecorder()
			s.Serve(context.Background(), w, httptest.NewRequest(http.MethodHead, wellKnown+"index.json", nil), run.Caller{}, url)
			if length := w.Header().Get("Content-Length"); length != strconv.Itoa(known.Body.Len()) || w.Header().Get("ETag") == known.Header().Get("ETag") {
				t.Errorf("%v", w.Header())
			}
			return w.Code
		},
		"a client that has gone": func(url string) int {
			w := httptest.NewRecorder()
			s.Serve(gone, w, httptest.NewRequest(http.MethodGet, wellKnown+"index.json", nil), run.Caller{}, url)
			if w.Body.Len() > 0 {
				t.Errorf("it gets %d bytes", w.Body.Len())
			}
			return w.Code
		},
		"file": func(url string) int { return get(s, "acme-skill-00000/SKILL.md", "", url).Code },
		"version": func(url string) int {
			return get(s, "acme-skill-00000/0123456789abcdef/SKILL.md", "", url).Code - 204
		},
		"has it": func(url string) int {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, wellKnown+"index.json", nil)
			r.Header.Set("If-None-Match", "*")
			s.Serve(context.Background(), w, r, run.Caller{}, url)
			return w.Code - 104
		},
	} {
		if n := testing.AllocsPerRun(40, func() {
			hosts++
			if code := ask(fmt.Sprintf("https://host%d.example/rpc", hosts)); code != 200 {
				t.Errorf("%s: %d", what, code)
			}
		}); n > 300 {
			t.Errorf("%s: %.0f allocations", what, n)
		}
	}
}

// However many hosts and callers ask, an installer gets the files that its index has named.
func TestHostsPushOutNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{}
		s := NewSite(b)
		b.set("a first", "b")
		entries := index(t, s, "", endpoint)
		for i := range 5 {
			time.Sleep(time.Minute)
			b.set(fmt.Sprint("a now ", i), "b", fmt.Sprint("-c", i))
			for host := range 100 {
				url := fmt.Sprintf("https://host%d-%d.example/", i, host)
				for _, e := range index(t, s, "", url)[:1] {
					e.check(t, s, "", url)
				}
				_ = get(s, "index.json", fmt.Sprint("user", i, host), url)
			}
		}
		s.indexes = s.indexes[:0]
		entries[1].check(t, s, "", endpoint) // indexes are not needed for it
		if w := get(s, entries[0].URL, "", endpoint); w.Code != 404 {
			t.Errorf("a file that has changed: %d", w.Code)
		}
	})
}

// A request waits for the index of another host no longer than its client does.
func TestIndexOfAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{}
		b.set("a")
		s := NewSite(b)
		_ = index(t, s, "", endpoint)
		s.making <- struct{}{} // as an index is made for another host
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Serve(ctx, httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, wellKnown+"index.json", nil), run.Caller{}, "https://a.example/")
		}()
		synctest.Wait()
		_ = index(t, s, "", endpoint) // known ones do not wait
		leave()
		<-done
		<-s.making
		_ = index(t, s, "", "https://a.example/")
	})
}

// Spellings of one host are one host.
func TestSpellingsOfHosts(t *testing.T) {
	_, s := manySkillsOf(t)
	for _, same := range [][]string{
		{endpoint, "https://AGENTS.example/rpc", "https://agents.example./rpc", "https://agents.example:443/rpc", "https://Agents.Example.:0443/rpc"},
		{"http://[::1]/rpc", "http://[::1]:80/rpc"},
		{"http://agents.example/rpc", "http://agents.example:80/rpc"},
		{"http://agents.example:443/rpc", "http://AGENTS.example.:443/rpc"},
	} {
		want := get(s, "acme-skill-00001/SKILL.md", "", same[0])
		tag := get(s, "index.json", "", same[0]).Header().Get("ETag")
		if want.Code != 200 || !strings.Contains(want.Body.String(), "'"+same[0]+"'") {
			t.Errorf("%s: %d", same[0], want.Code)
		}
		for _, url := range same[1:] {
			if got := get(s, "acme-skill-00001/SKILL.md", "", url); got.Body.String() != want.Body.String() || get(s, "index.json", "", url).Header().Get("ETag") != tag {
				t.Errorf("%s: %d", url, got.Code)
			}
		}
	}
	if len(s.indexes) != 4 {
		t.Errorf("%d indexes", len(s.indexes))
	}
	for _, url := range []string{"https:///rpc", "https://a:b/rpc", "https://a:70000/rpc", "https://./rpc", "https://a:1:2/rpc", "https://[::1/rpc"} {
		if w := get(s, "index.json", "", url); w.Code != 400 {
			t.Errorf("%s: %d", url, w.Code)
		}
	}
}
