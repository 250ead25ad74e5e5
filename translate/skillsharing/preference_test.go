package skillsharing_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// patient is a provider whose run ends at some time, and that can wait for it (RFC 7240, section 4.3).
type patient struct {
	ends    time.Time
	applied string // what it says about it; empty: nothing, and it does not wait
	lies    bool   // it says so, and answers at once
	always  string // Retry-After
	wishes  []string
}

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	wish := r.Header.Get("Prefer")
	p.wishes = append(p.wishes, wish)
	if p.applied != "" && !p.lies && wish != "" {
		var seconds int
		if _, err := fmt.Sscanf(wish, "wait=%d", &seconds); err != nil {
			return nil, err
		}
		time.Sleep(min(time.Until(p.ends), time.Duration(seconds)*sec))
	}
	header := []string{}
	if p.applied != "" && wish != "" {
		header = append(header, "Preference-Applied", p.applied)
	}
	if p.always != "" {
		header = append(header, "Retry-After", p.always)
	}
	if time.Now().Before(p.ends) {
		return says(200, runs, header...)(r)
	}
	return says(200, completes, header...)(r)
}

func TestPreferWait(t *testing.T) {
	for _, c := range []struct {
		name    string
		takes   time.Duration // the run
		timeout time.Duration // the call
		p       patient
		wishes  []string // the first ones
		polls   int      // at most
		late    time.Duration
	}{
		{"it waits", 40 * sec, time.Minute, patient{applied: "wait=20"}, []string{"wait=20", "wait=20"}, 2, 0},
		{"it says so in other words", 40 * sec, time.Minute, patient{applied: "respond-async, WAIT"}, []string{"wait=20", "wait=20"}, 2, 0},
		{"the time is nearly up", 28 * sec, 30 * sec, patient{applied: "wait"}, []string{"wait=20", "wait=9"}, 2, 0},
		{"it asks to come later", 3 * sec, time.Minute, patient{applied: "wait", always: "30"}, []string{"wait=20"}, 1, 0},
		{"it does not know that", 40 * sec, time.Minute, patient{}, []string{"wait=20", "wait=20", "wait=20", "", ""}, 20, 6 * sec},
		{"it lies", 40 * sec, time.Minute, patient{applied: "wait", lies: true}, []string{"wait=20", "wait=20", "wait=20"}, 20, 6 * sec},
		{"it does something else", 40 * sec, time.Minute, patient{applied: "respond-async", lies: true}, []string{"wait=20", "wait=20", "wait=20", "", ""}, 20, 6 * sec},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &c.p
				p.ends = time.Now().Add(c.takes)
				client := newClient(t, acme, p)
				client.PreferWait = 20 * sec
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				r, e := client.Follow(ctx, skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
				if e != nil || r.State != run.Completed {
					t.Fatalf("%+v, %v", r, e)
				}
				if late := time.Since(p.ends); late > c.late+100*time.Millisecond || len(p.wishes) > c.polls {
					t.Errorf("%v late with %d polls", late, len(p.wishes))
				}
				if n := min(len(c.wishes), len(p.wishes)); !slices.Equal(p.wishes[:n], c.wishes[:n]) || len(p.wishes) < len(c.wishes) {
					t.Errorf("wishes %q, want %q", p.wishes, c.wishes)
				}
			})
		})
	}
}

// Who wants to hear of the run before does not have to wait for the provider.
func TestPreferWaitUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{ends: time.Now().Add(time.Minute), applied: "wait"}
		client := newClient(t, acme, p)
		client.PreferWait = 20 * sec
		start := time.Now()
		r, e := client.Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID, Until: start.Add(5 * sec)}, new(skillsharing.Stats))
		if e != nil || r.State != run.Working || time.Since(start) != 5*sec || p.wishes[0] != "wait=4" {
			t.Errorf("%+v, %v after %v, %q", r, e, time.Since(start), p.wishes)
		}
	})
}

// The wish is part of the invocation, too, and nothing of it stays in the header that all requests share.
func TestPreferWaitOfInvocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{ends: time.Now().Add(3 * sec), applied: "wait"}
		client := newClient(t, acme, p)
		s := skillAt(t, acme)
		client.PreferWait = 20 * sec
		if r, e, _ := submit(t.Context(), client, s); e != nil || r.State != run.Completed || p.wishes[0] != "wait=20" {
			t.Errorf("%+v, %v, %q", r, e, p.wishes)
		}
		client.PreferWait = 0
		if _, e, _ := submit(t.Context(), client, s); e != nil || p.wishes[1] != "" {
			t.Errorf("%v, %q", e, p.wishes)
		}
	})
}

// Only answers in a row that say nothing of the wish end it, whatever run they are about,
// and an error is about something else.
func TestIgnoredWishesAreCounted(t *testing.T) {
	ignored, applied, failed := says(200, runs, "Retry-After", "1"), says(200, runs, "Retry-After", "1", "Preference-Applied", "wait"), says(503, "", "Retry-After", "1")
	for _, c := range []struct {
		name    string
		answers []scriptedAnswer
		wishes  string // of the requests, one letter each; the last ones are about another run
	}{
		{"three", then(times(3, ignored), ignored, says(200, completes)), "www--|-"},
		{"two, and it applies", then(times(2, ignored), applied, times(2, ignored), applied, says(200, completes)), "wwwwwww|w"},
		{"two, errors, and one", then(times(2, ignored), times(4, failed), ignored, says(200, completes)), "wwwwwww-|-"},
		{"the last of a run counts", then(times(2, ignored), says(200, completes)), "www|-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := script(t, c.answers...)
				client := newClient(t, acme, transport)
				client.PreferWait = 20 * sec
				wishes := ""
				for i := range 2 {
					before := len(transport.asked)
					if _, e := client.Follow(t.Context(), skillAt(t, acme), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats)); e != nil {
						t.Fatal(e)
					}
					if i > 0 {
						wishes += "|"
					}
					for _, a := range transport.asked[before:] {
						if a.header.Get("Prefer") == "" {
							wishes += "-"
						} else {
							wishes += "w"
						}
					}
				}
				if wishes != c.wishes {
					t.Errorf("wishes %s, want %s", wishes, c.wishes)
				}
			})
		})
	}
}
