package discovery_test

import (
	stdjson "encoding/json" // a second opinion on what a document says
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/sample"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// FuzzURLsOfDescriptor: a descriptor that can be used names only absolute http(s)
// URLs, and a header that may carry a credential.
func FuzzURLsOfDescriptor(f *testing.F) {
	for _, u := range []string{
		"https://api.acme.example/run", "http://10.0.0.1:22/", "https://user@acme.example/", "file:///etc/passwd", "gopher://x/", "//acme.example/", "https:///", "https://acme.example:99999/", "https://[::1%25eth0]/", "https://acme.example/\r\nX: y", "javascript:alert(1)",
		"https://acme.example/{execution_id}", "https://{execution_id}/", "https://acme.example/%{execution_id}", "{execution_id}", "HTTPS://ACME.EXAMPLE/#f", "https://acme.example\\@evil.example/",
	} {
		f.Add(u, u, u, "X-API-Key")
		f.Add("https://api.acme.example/run", u, "", "Host")
		f.Add(u, "", u, "X-Key\r\nEvil: 1")
	}
	source := &url.URL{Scheme: "https", Host: "acme.example", Path: "/forecast.json"}
	f.Fuzz(func(t *testing.T, endpoint, status, result, header string) {
		doc := sample.Edited(t, sample.Descriptor, "/endpoint/url="+quoteText(endpoint), "/endpoint/status_url="+quoteText(status), "/endpoint/result_url="+quoteText(result), `/auth={"type":"api_key","header":`+quoteText(header)+`}`)
		s, err := discovery.NewSkill(doc, source)
		if err != nil {
			e, ok := errors.AsType[*run.Failure](err)
			if !ok || e.Kind != run.InvalidDocument || !front.Details(e).IsValid() || len(front.Details(e)) > 1<<20 {
				t.Errorf("error %+v", e)
			}
			return
		}
		if document.ForbiddenHeader(s.Auth.Header) {
			t.Errorf("header %q", s.Auth.Header)
		}
		for _, template := range []string{s.Endpoint.URL, s.Endpoint.StatusURL, s.Endpoint.ResultURL} {
			if template == "" {
				continue
			}
			if _, err := document.ExpandURL(template, "exec-1"); err != nil && template != s.Endpoint.URL {
				t.Errorf("template %q: %v", template, err)
			}
			if lower := strings.ToLower(template); !strings.HasPrefix(lower, "https://") && !strings.HasPrefix(lower, "http://") || hasUserInfo(template) {
				t.Errorf("URL %q", template)
			}
		}
	})
}

func quoteText(s string) string {
	text, err := stdjson.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// hasUserInfo looks at the text of a URL as RFC 3986, section 3.2, divides it.
func hasUserInfo(text string) bool {
	_, rest, _ := strings.Cut(text, "//")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.Contains(rest, "@")
}
