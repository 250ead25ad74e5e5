package provider

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// runID invokes a skill and returns the id of the run.
func runID(t *testing.T, p *Provider, skill string) string {
	t.Helper()
	status, body := p.answer(nil, "/run/"+skill)
	rest, ok := strings.CutPrefix(string(body), `{"execution_id":"`)
	id, state, _ := strings.Cut(rest, `"`)
	if status != http.StatusAccepted || !ok || state != `,"status":"accepted"}` {
		t.Fatalf("%s: HTTP %d %s", skill, status, body)
	}
	return id
}

func state(t *testing.T, p *Provider, id string) string {
	t.Helper()
	status, body := p.answer(nil, "/status/"+id)
	if status != http.StatusOK || !strings.HasPrefix(string(body), `{"execution_id":"`+id+`","status":"`) {
		t.Fatalf("%s: HTTP %d %s", id, status, body)
	}
	return string(body)
}

// A run completes with the number of polls in the name of its skill.
func TestCountedRuns(t *testing.T) {
	t.Parallel()
	p := New("http://example.com", 0)
	for _, n := range PollCounts {
		id, other := runID(t, p, Poll+strconv.Itoa(n)), runID(t, p, Poll+"8")
		for range n - 1 {
			if got := state(t, p, id); !strings.HasSuffix(got, `"status":"running"}`) {
				t.Errorf("%d polls: %s", n, got)
			}
		}
		if got := state(t, p, id); !strings.HasSuffix(got, `"status":"completed","output":`+Output+"}") {
			t.Errorf("%d polls: %s", n, got)
		}
		if got := state(t, p, other); !strings.HasSuffix(got, `"status":"running"}`) {
			t.Errorf("another run: %s", got)
		}
	}
}

// A timed run completes after its execution time, and its timestamps say so.
func TestTimedRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, same := New("http://example.com", 0), New("http://example.com", 0)
		start := time.Now()
		takes := same.executionTime(Timed, HTTPLaws[0])
		id := runID(t, p, Timed+strconv.Itoa(HTTPLaws[0]))
		time.Sleep(takes - time.Nanosecond)
		if got := state(t, p, id); !strings.HasSuffix(got, `"status":"running"}`) {
			t.Error(got)
		}
		time.Sleep(time.Nanosecond)
		end := start.Add(takes)
		want := `"status":"completed","timestamps":{"created_at":"` + start.UTC().Format(time.RFC3339Nano) + `","completed_at":"` + end.UTC().Format(time.RFC3339Nano) +
			`"},"output":{"ended":` + strconv.FormatInt(end.UnixNano(), 10) + `,"polls":2}}`
		if got := state(t, p, id); !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A held run continues until it is released.
func TestHeldRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New("http://example.com", 0)
		id := runID(t, p, Hold)
		answered := make(chan string, 1)
		go func() {
			_, body := p.answer(nil, "/hold")
			answered <- string(body)
		}()
		synctest.Wait()
		if got := state(t, p, id); !strings.HasSuffix(got, `"status":"running"}`) || len(answered) > 0 {
			t.Errorf("before the release: %s, %d requests were answered", got, len(answered))
		}
		if _, body := p.answer(nil, "/counts"); string(body) != `{"descriptors":0,"runs":1,"held":1}` {
			t.Errorf("counts: %s", body)
		}
		for range 2 {
			p.answer(nil, "/release")
		}
		if got := <-answered; got != NowAnswer {
			t.Error(got)
		}
		if got := state(t, p, id); !strings.HasSuffix(got, `"status":"completed","output":`+Output+"}") {
			t.Error(got)
		}
	})
}

// Unknown runs are not found.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	p := New("http://example.com", 0)
	for _, path := range []string{"/", "/run/law0", "/status/x", "/status/law-1-x-y"} {
		if status, _ := p.answer(nil, path); status != http.StatusNotFound {
			t.Errorf("%s: HTTP %d", path, status)
		}
	}
}

// A run of Wait completes after the time in its name.
func TestWaitingRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New("http://example.com", 0)
		id := runID(t, p, Wait+"3000")
		time.Sleep(3*time.Second - time.Nanosecond)
		if got := state(t, p, id); !strings.HasSuffix(got, `"status":"running"}`) {
			t.Error(got)
		}
		time.Sleep(time.Nanosecond)
		if got := state(t, p, id); !strings.HasSuffix(got, `,"polls":2}}`) {
			t.Error(got)
		}
	})
}

// The index has the skills that the flag says, and each has a descriptor.
func TestPublishedSkills(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]int{0: 5 + 1 + 2*len(PollCounts) + len(HTTPLaws) + len(Waits), 1: 1, 3: 3} {
		p := New("http://example.com", count)
		var index struct {
			Skills []struct {
				URL string `json:"descriptor_url"`
			} `json:"skills"`
		}
		if err := json.Unmarshal(p.index, &index); err != nil || len(index.Skills) != want {
			t.Fatalf("%d skills, %v; want %d", len(index.Skills), err, want)
		}
		for _, s := range index.Skills {
			status, text := p.answer(nil, strings.TrimPrefix(s.URL, "http://example.com"))
			if keyed := strings.Contains(s.URL, Keyed) || strings.HasSuffix(s.URL, Typical); status != http.StatusOK || !jsontext.Value(text).IsValid() || strings.Contains(string(text), "api_key") != keyed {
				t.Errorf("%s: HTTP %d %s", s.URL, status, text)
			}
		}
	}
}
