package skillsharing_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/conformance"
)

// A trial asks about a run when the provider permits it, as the bridge does: else it would find fault with a provider that answers 429 before. A
// Retry-After that breaks the rule is not waited for.
func TestTrialHonoursRetryAfter(t *testing.T) {
	const stamps = `,"skill_id":"acme/forecast","timestamps":{"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}}`
	says := func(status int, body string, header ...string) scriptedAnswer {
		return says(status, `{"execution_id":"exec-1",`+body+stamps, header...)
	}
	for _, c := range []struct {
		name           string
		accepts, polls []string // header fields
		want           []time.Duration
	}{
		{"not asked", nil, nil, []time.Duration{0, 250 * time.Millisecond}},
		{"a short time", []string{"Retry-After", "0"}, []string{"Retry-After", "0"}, []time.Duration{0, 250 * time.Millisecond}},
		{"a long time", []string{"Retry-After", "20"}, []string{"Retry-After", "30"}, []time.Duration{20 * sec, 30 * sec}},
		{"a date", []string{"Date", "Fri, 02 Jan 2026 03:04:05 GMT", "Retry-After", "Fri, 02 Jan 2026 03:04:12 GMT"}, nil, []time.Duration{7 * sec, 250 * time.Millisecond}},
		{"too long", []string{"Retry-After", "86400"}, []string{"Retry-After", "86400"}, []time.Duration{0, 250 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := script(t, says(202, `"status":"accepted"`, c.accepts...), says(200, `"status":"running"`, c.polls...), says(200, `"status":"completed","output":1`))
				trial := conformance.Trial{Client: newClient(t, acme, transport), Skill: skillAt(t, acme), Inputs: jsontext.Value(`{"location":"Tokyo"}`), Timeout: 2 * time.Minute, Limit: "test"}
				trial.Run(t.Context())
				times := transport.times()
				if first, second := times[1]-times[0], times[2]-times[1]; first != c.want[0] || second != c.want[1] {
					t.Errorf("asked after %v and %v, want %v", first, second, c.want)
				}
			})
		})
	}
}
