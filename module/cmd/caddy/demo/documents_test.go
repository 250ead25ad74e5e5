package demo_test

import (
	"net/http"
	"strings"
	"testing"
)

type index struct {
	Protocol map[string]string `json:"protocol"`
	Provider map[string]string `json:"provider"`
	Skills   []struct {
		ID             string `json:"id"`
		Name           string `json:"name"`
		CapabilityType string `json:"capability_type"`
		Description    string `json:"description"`
		DescriptorURL  string `json:"descriptor_url"`
		Access         string `json:"access"`
		Version        string `json:"version"`
	} `json:"skills"`
}

func (i index) ids() string {
	ids := make([]string, len(i.Skills))
	for n, s := range i.Skills {
		ids[n] = s.ID
	}
	return strings.Join(ids, " ")
}

const (
	indexPath = "/.well-known/skill-sharing"
	publicIDs = "demo/summarize demo/markdown demo/qr-code demo/csv-to-json demo/telepathy"
)

func TestIndex(t *testing.T) {
	s := start(t, runTime)
	answer := s.do(http.MethodGet, indexPath, "")
	if got := decode[index](t, answer); got.ids() != publicIDs || got.Protocol["version"] != "1.0.0" || got.Provider["url"] != s.origin {
		t.Errorf("index = %s", answer.body)
	}
}

func TestDocumentsCanBeCached(t *testing.T) {
	s := start(t, runTime)
	for _, path := range []string{indexPath, "/skills/summarize.json"} {
		first := s.do(http.MethodGet, path, "")
		etag := first.header.Get("ETag")
		if first.status != http.StatusOK || first.header.Get("Cache-Control") != "max-age=60" || !strings.HasPrefix(etag, `"`) {
			t.Errorf("GET %s: %d %v", path, first.status, first.header)
		}
		if again := s.do(http.MethodGet, path, "", "If-None-Match", etag); again.status != http.StatusNotModified || len(again.body) > 0 {
			t.Errorf("GET %s with its ETag: %d %q", path, again.status, again.body)
		}
		if other := s.do(http.MethodGet, path, "", "If-None-Match", `"other"`); other.status != http.StatusOK {
			t.Errorf("GET %s with another ETag: %d", path, other.status)
		}
		if head := s.do(http.MethodHead, path, ""); head.status != http.StatusOK || head.header.Get("ETag") != etag || len(head.body) > 0 {
			t.Errorf("HEAD %s: %d %v", path, head.status, head.header)
		}
	}
}

// descriptor has all members of section 3.5, so that strict decoding finds other members.
type descriptor struct {
	Protocol       map[string]string `json:"protocol"`
	ID             string            `json:"id"`
	Name           string            `json:"name"`
	Version        string            `json:"version"`
	CapabilityType string            `json:"capability_type"`
	Description    string            `json:"description"`
	Provider       map[string]string `json:"provider"`
	Endpoint       struct {
		URL         string         `json:"url"`
		Method      string         `json:"method"`
		ContentType string         `json:"content_type"`
		StatusURL   string         `json:"status_url"`
		ResultURL   string         `json:"result_url"`
		TimeoutMS   int            `json:"timeout_ms"`
		Retry       map[string]int `json:"retry"`
	} `json:"endpoint"`
	Inputs []struct {
		Name        string         `json:"name"`
		Type        string         `json:"type"`
		Description string         `json:"description"`
		Required    bool           `json:"required"`
		Default     any            `json:"default"`
		Schema      map[string]any `json:"schema"`
	} `json:"inputs"`
	Output map[string]any `json:"output"`
	Auth   struct {
		Type        string `json:"type"`
		Description string `json:"description"`
		Header      string `json:"header"`
		OAuth2      *struct {
			AuthorizationURL string            `json:"authorization_url"`
			TokenURL         string            `json:"token_url"`
			Scopes           map[string]string `json:"scopes"`
		} `json:"oauth2"`
	} `json:"auth"`
	Access string   `json:"access"`
	Tags   []string `json:"tags"`
}

func TestDescriptorsAgreeWithTheIndex(t *testing.T) {
	s := start(t, runTime)
	want := map[string]struct{ protocol, access, auth string }{
		"demo/summarize":   {"1.0.0", "public", "none"},
		"demo/markdown":    {"1.0.0", "public", "none"},
		"demo/qr-code":     {"1.0.0", "public", "api_key"},
		"demo/csv-to-json": {"1.0.0", "public", "none"},
		"demo/telepathy":   {"2.0.0", "public", "none"},
	}
	for _, entry := range decode[index](t, s.do(http.MethodGet, indexPath, "")).Skills {
		path, ok := strings.CutPrefix(entry.DescriptorURL, s.origin)
		if !ok {
			t.Fatalf("%s: descriptor_url %s is not at %s", entry.ID, entry.DescriptorURL, s.origin)
		}
		d := decode[descriptor](t, s.do(http.MethodGet, path, ""))
		if d.ID != entry.ID || d.Name != entry.Name || d.Version != entry.Version || d.Access != entry.Access ||
			d.CapabilityType != entry.CapabilityType || d.Description != entry.Description {
			t.Errorf("%s: descriptor and index differ: %+v", entry.ID, d)
		}
		if w := want[entry.ID]; d.Protocol["version"] != w.protocol || d.Access != w.access || d.Auth.Type != w.auth {
			t.Errorf("%s: protocol %s, access %s, auth %s", entry.ID, d.Protocol["version"], d.Access, d.Auth.Type)
		}
		if d.Inputs == nil || d.Output["content_type"] != "application/json" || d.Provider["name"] == "" {
			t.Errorf("%s: a required member is missing", entry.ID)
		}
		for _, in := range d.Inputs {
			if in.Required == (in.Default != nil) {
				t.Errorf("%s: input %s is required %t with default %v", entry.ID, in.Name, in.Required, in.Default)
			}
		}
		delete(want, entry.ID)
	}
	if len(want) > 0 {
		t.Errorf("not in the index: %v", want)
	}
}

// TestUnlistedSkill: the index does not have the skill, but its descriptor can be read by URL.
func TestUnlistedSkill(t *testing.T) {
	s := start(t, runTime)
	if ids := decode[index](t, s.do(http.MethodGet, indexPath, "")).ids(); strings.Contains(ids, "demo/diff") {
		t.Errorf("it is in the index: %s", ids)
	}
	d := decode[descriptor](t, s.do(http.MethodGet, "/skills/diff.json", ""))
	if d.ID != "demo/diff" || d.Protocol["version"] != "1.0.0" || d.Access != "restricted" || d.Auth.Type != "oauth2" {
		t.Errorf("%+v", d)
	}
	if d.Auth.OAuth2 == nil || d.Auth.OAuth2.TokenURL != s.origin+"/token" || len(d.Auth.OAuth2.Scopes) == 0 {
		t.Errorf("oauth2 = %+v", d.Auth.OAuth2)
	}
}
