package skillsharing_test

import (
	stdjson "encoding/json" // a second opinion on what a document says
	"reflect"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// FuzzIndex: an index or a registry's answer is refused as a whole or read in full,
// and the same list means the same in each of the forms in which it may come.
func FuzzIndex(f *testing.F) {
	for _, c := range indexCases() {
		f.Add(edited(f, acmeIndex, c.edits...))
	}
	for _, doc := range []string{
		``, `null`, `[]`, `{}`, `{"skills":[]}`, `{"skills":null}`, `{"skills":[{}]}`, `{"skills":{"a":1}}`, "\ufeff" + acmeIndex, acmeIndex + "x", strings.Repeat("[", 200),
		string(edited(f, acmeIndex, `/skills/1/id="acme/forecast"`)), string(edited(f, acmeIndex, `/skills/0/descriptor_url="file:///etc/passwd"`)), string(edited(f, acmeIndex, `/x={"y":[1]}`, `/skills/0/x=null`)), strings.Replace(acmeIndex, `"protocol"`, `"x":1e400,"protocol"`, 1),
		string(edited(f, acmeIndex, `/skills/0/id="acme/\u0000"`)), strings.Replace(acmeIndex, `"skills"`, `"skills":[],"skills"`, 1),
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		index, err := document.ParseIndex(doc)
		checkIndex(t, index, err)
		listed, err2 := document.Standard.ParseRegistry(doc)
		checkIndex(t, listed, err2)
		if err == nil && (err2 != nil || !reflect.DeepEqual(listed.Skills, index.Skills)) {
			t.Errorf("the index is read as %+v, and as a registry's answer as %+v: %v", index, listed, err2)
		}
		if err2 != nil {
			return
		}
		var said struct{ Skills stdjson.RawMessage }
		if stdjson.Unmarshal([]byte(strings.TrimPrefix(string(doc), "\ufeff")), &said) != nil {
			return // it is the list itself
		}
		alone, err := document.Standard.ParseRegistry(said.Skills)
		if err != nil || !reflect.DeepEqual(alone.Skills, listed.Skills) {
			t.Errorf("the list is read as %+v, and alone as %+v: %v", listed, alone, err)
		}
	})
}

func checkIndex(t *testing.T, index *document.Index, err error) {
	t.Helper()
	if (index == nil) == (err == nil) {
		t.Fatalf("index %+v and error %v", index, err)
	}
	if err != nil {
		if e := problem(t, err); e.Kind != run.InvalidDocument || !front.Details(e).IsValid() || e.Message == "" || len(front.Details(e)) > 1<<20 || e.Executed != run.ExecutedNo {
			t.Errorf("error %+v", e)
		}
		return
	}
	seen := map[string]bool{}
	for i, entry := range index.Skills {
		if entry.ID == "" || entry.DescriptorURL == "" || seen[entry.ID] {
			t.Errorf("entry %d: %+v", i, entry)
		}
		seen[entry.ID] = true
	}
}

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
	source := parseURL(f, "https://acme.example/forecast.json")
	f.Fuzz(func(t *testing.T, endpoint, status, result, header string) {
		doc := edited(t, forecast, "/endpoint/url="+quoteText(endpoint), "/endpoint/status_url="+quoteText(status), "/endpoint/result_url="+quoteText(result), `/auth={"type":"api_key","header":`+quoteText(header)+`}`)
		s, err := discovery.NewSkill(doc, source)
		if err != nil {
			if e := problem(t, err); e.Kind != run.InvalidDocument || !front.Details(e).IsValid() || len(front.Details(e)) > 1<<20 {
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
			if _, err := skillsharing.ExpandURL(template, "exec-1"); err != nil && template != s.Endpoint.URL {
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
