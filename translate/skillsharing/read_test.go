package skillsharing_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

func TestRead(t *testing.T) {
	const key = "an-api-key-of-some-length"
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
		code   run.Kind // empty: it is read
	}{
		{"any text", answers(200, "no JSON", "Content-Type", "text/plain"), "no JSON", 0},
		{"redirect", answers(302, "", "Location", "/elsewhere"), "elsewhere", 0},
		{"not there", answers(404, "none"), "HTTP 404", run.SkillNotFound},
		{"empty", answers(204, ""), "HTTP 204", run.ProviderFault},
		{"in trouble", answers(503, ""), "HTTP 503", run.Unreachable},
		{"too large", answers(200, strings.Repeat("x", 1001)), "1000 bytes", run.ProviderFault},
		{"largest", answers(200, strings.Repeat("x", 1000)), "xxx", 0},
		{"a secret", answers(200, "your key is "+key), "contains a credential", run.InvalidDocument},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newProvider(t)
			p.on("GET /document", tc.answer)
			p.on("GET /elsewhere", answers(200, "elsewhere"))
			c := newReader(t, p)
			c.DiscoveryCredentials = &keyed{key: key}
			c.Limits.DocumentSize = 1000
			r, e := c.Read(t.Context(), parseURL(t, p.URL+"/document"))
			if tc.code != 0 {
				wantError(t, e, tc.code, run.ExecutedNo)
				if !strings.Contains(e.Message, tc.want) || strings.Contains(e.Message, key) {
					t.Errorf("message %q, want %q", e.Message, tc.want)
				}
				return
			}
			if e != nil || !strings.Contains(string(r.Body), tc.want) {
				t.Errorf("%v, %v, want %q", r, e, tc.want)
			}
		})
	}
}

// TestReadScrubsTheHeader: what is wrong with a document's media type is shown.
func TestReadScrubsTheHeader(t *testing.T) {
	const key = "an-api-key-of-some-length"
	p := newProvider(t)
	p.on("GET /document", answers(200, "{}", "Content-Type", "text/"+key))
	c := newReader(t, p)
	c.DiscoveryCredentials = &keyed{key: key}
	r, e := c.Read(t.Context(), parseURL(t, p.URL+"/document"))
	if e != nil {
		t.Fatal(e)
	}
	fault := discovery.CheckMediaType(run.PhaseDescriptor, r.Header)
	if text := fault.Message + string(front.Details(fault)); strings.Contains(text, key) || !strings.Contains(text, "text/[redacted]") {
		t.Errorf("got %s", text)
	}
}

func TestReadWithoutTLS(t *testing.T) {
	p := newProvider(t)
	c := newReader(t, p)
	c.AllowHTTP = false
	_, e := c.Read(t.Context(), parseURL(t, p.URL+"/document"))
	wantError(t, e, run.Unreachable, run.ExecutedNo)
	if n := len(p.requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}
