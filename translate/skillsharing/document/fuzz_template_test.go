package document_test

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// FuzzExpandURL: whatever a descriptor has for a template, and whatever the
// provider calls a run, the id decides nothing but one path segment or query value:
// not the scheme, the host, the user, or how many segments and values there are.
func FuzzExpandURL(f *testing.F) {
	for _, template := range []string{
		"https://api.example/s/{execution_id}", "https://api.example/{execution_id}/s/{execution_id}", "https://api.example/run-{execution_id}.json", "https://api.example/s?id={execution_id}&x=y",
		"https://api.example/{execution_id}?id={execution_id}", "https://api.example/s", "https://api.example", "https://api.example?v=2", "https://api.example/s?", "https://api.example/s#{execution_id}",
		"https://api.example/{EXECUTION_ID}", "http://127.0.0.1:8080/s/{execution_id}", "https://[2001:db8::1]/{execution_id}", "HTTPS://API.example/%2f/{execution_id}/..", "https://{execution_id}/s", "https://user@api.example/{execution_id}",
		"https://api.example:{execution_id}/s", "https://{execution_id}@api.example/s", "{execution_id}://api.example/s", "https:{execution_id}", "/s/{execution_id}", "https://api.example\\{execution_id}",
		"https://api.example/?{execution_id}", "https://api.example/s;v={execution_id}", "https://api.example/a//b/{execution_id}?a=b?c&&d", "https://bücher.example/{execution_id}", "https://api.example/café/{execution_id}", "https://api.example/.{execution_id}", "https://api.example/s?a={execution_id}&{execution_id}=b", "https://api.example/%{execution_id}",
	} {
		for _, id := range []string{"exec-1", "", ".", "..", "../admin", "..\\admin", "x?y=z&a#b", "%2e%2e", "@evil.example/", "//evil.example", "läuft 実行", "a\r\nX-Evil: 1\x00", "\xff", "{execution_id}", "2e", strings.Repeat("x", 512), strings.Repeat("x", 513)} {
			f.Add(template, id)
		}
	}
	f.Fuzz(func(t *testing.T, template, id string) {
		if _, err := document.ExpandURL(template, "{execution_id}"); err != nil || strings.ContainsFunc(template, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return // such a descriptor is refused before there is a run
		}
		u, err := document.ExpandURL(template, id)
		if usable := id != "" && id != "." && id != ".." && len(id) <= 512; usable != (err == nil) {
			t.Fatalf("id %q in %q: %v", id, template, err)
		}
		if err != nil {
			return
		}
		if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Opaque != "" || u.Fragment != "" {
			t.Fatalf("%q with %q leads to %s", template, id, u)
		}
		if target, host := sentTo(t, u); target != u.RequestURI() || !strings.EqualFold(host, u.Host) && nameSyntax.MatchString(strings.ToLower(u.Hostname())) {
			t.Fatalf("%q with %q is sent as %s to %s", template, id, target, host)
		}
		marker := "MARK"
		for strings.Contains(template, marker) {
			marker += "MARK"
		}
		other, err := document.ExpandURL(template, marker)
		if err != nil {
			t.Fatalf("%q: %v", template, err)
		}
		if u.Scheme != other.Scheme || u.Host != other.Host {
			t.Fatalf("%q with %q leads to %s", template, id, u)
		}
		checkPlaces(t, splitPath(u), splitPath(other), marker, id, url.PathUnescape)
		checkPlaces(t, splitQuery(u), splitQuery(other), marker, id, url.QueryUnescape)
		if places := strings.Count(other.RequestURI(), marker); places == 0 {
			t.Errorf("%q has no place for the id", template)
		}
		for i, segment := range splitPath(u) {
			if plain, err := url.PathUnescape(segment); err == nil && (plain == "." || plain == "..") && strings.Contains(splitPath(other)[i], marker) {
				t.Errorf("%q with %q leads to another segment of %s", template, id, u)
			}
		}
	})
}

// sentTo is what a server reads in the first lines of a request.
func sentTo(t *testing.T, u *url.URL) (target, host string) {
	t.Helper()
	var wire bytes.Buffer
	if err := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).Write(&wire); err != nil {
		t.Fatalf("%s: %v", u, err)
	}
	received, err := http.ReadRequest(bufio.NewReader(&wire))
	if err != nil {
		t.Fatalf("%s: %v", u, err)
	}
	return received.RequestURI, received.Host
}

func splitPath(u *url.URL) []string { return strings.Split(u.EscapedPath(), "/") }

func splitQuery(u *url.URL) []string {
	return strings.FieldsFunc(u.RawQuery, func(r rune) bool { return strings.ContainsRune("&;=", r) })
}

// checkPlaces compares the parts of a URL with those where a marker is in the
// place of the id: they differ there only, and there the id is what a server reads.
func checkPlaces(t *testing.T, got, marked []string, marker, id string, unescape func(string) (string, error)) {
	t.Helper()
	if len(got) != len(marked) {
		t.Fatalf("the id %q changes the number of parts: %q, %q", id, got, marked)
	}
	for i := range got {
		if !strings.Contains(marked[i], marker) {
			if got[i] != marked[i] {
				t.Errorf("%q changed to %q", marked[i], got[i])
			}
			continue
		}
		plain, err := unescape(marked[i])
		if err != nil {
			continue // the provider's own text is not what a server can read
		}
		want := strings.ReplaceAll(plain, marker, id)
		if read, err := unescape(got[i]); err != nil || read != want {
			t.Errorf("a server reads %q (%v) in %q, want %q", read, err, got[i], want)
		}
	}
}

// nameSyntax is that of the names of hosts.
var nameSyntax = regexp.MustCompile(`^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$`)
