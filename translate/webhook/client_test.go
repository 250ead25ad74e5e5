package webhook_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

func TestCheck(t *testing.T) {
	w := &webhook.Client{Judge: func(context.Context, *url.URL) error { return nil }}
	for text, ok := range map[string]bool{
		"https://example.com/hook?x=%0d%0a": true,
		"https://example.com":               true,
		"https://example.com:8443/":         true,
		"https://example.com:08443/":        false,
		"https://example.com:019510/":       false,
		"https://example.com:0/":            false,
		"https://example.com:65536/":        false,
		"http://example.com/":               false,
		"HTTPS://EXAMPLE.com/":              true,
		"https:///path":                     false,
		"https://:443/":                     false,
		"https:example.com":                 false,
		"//example.com/":                    false,
		"/hook":                             false,
		"":                                  false,
		"ftp://example.com/":                false,
		"file:///etc/passwd":                false,
		"https://user@example.com/":         false,
		"https://user:pw@example.com/":      false,
		"https://example.com/#x":            false,
		"https://example.com/\r\nX: y":      false,
		"https://exa mple.com/":             false,
		"https://example.com/" + strings.Repeat("x", 2048-20): true,
		"https://example.com/" + strings.Repeat("x", 2048-19): false,
	} {
		if problem := w.Check(t.Context(), text); (problem == "") != ok {
			t.Errorf("%.60q: %q", text, problem)
		}
	}
}

// FuzzCheck checks that a request to a URL that was accepted goes to the URL's host, and that its header can be written.
func FuzzCheck(f *testing.F) {
	w := &webhook.Client{AllowHTTP: true, Judge: func(context.Context, *url.URL) error { return nil }}
	for _, text := range []string{"https://example.com/hook", "http://[::1]:80/?x=%00", "https://a@b/", "https://x/\r\nHost: y", "https://e%78ample.com/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if w.Check(t.Context(), text) != "" {
			return
		}
		r, err := http.NewRequest(http.MethodPost, text, nil)
		if err != nil || r.URL.User != nil || r.URL.Host == "" || r.URL.Scheme != "https" && r.URL.Scheme != "http" {
			t.Fatalf("%q: %v", text, err)
		}
		var written strings.Builder
		if err := r.Write(&written); err == nil && strings.Count(written.String(), "\r\n") != 5 {
			t.Errorf("%q is sent as %q", text, written.String())
		}
	})
}

// The bound for a host holds for all spellings of it.
func TestHostOf(t *testing.T) {
	for text, want := range map[string]string{
		"https://hooks.example/a": "hooks.example", "https://HOOKS.Example.:443/b?c": "hooks.example", "https://hooks.example:8443/": "hooks.example:8443",
		"http://hooks.example:80/": "hooks.example", "http://hooks.example:443/": "hooks.example:443", "https://[2001:DB8::1]/": "2001:db8::1", "https://[2001:DB8::1]:99/": "[2001:db8::1]:99", "https://%zz/": "",
	} {
		if got := webhook.HostOf(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
