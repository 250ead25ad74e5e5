package document_test

import (
	"bufio"
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const fuzzedKey = "k-12345"

// FuzzForbiddenHeader: a field that a document may name reaches a server as one
// further field, and as nothing else: the rest of the request is read as it would
// be without.
func FuzzForbiddenHeader(f *testing.F) {
	for _, name := range []string{
		"Authorization", "X-API-Key", "x-signature", "!#$%&'*+-.^_`|~09azAZ", strings.Repeat("x", 128), strings.Repeat("x", 129), "", " ", "X Key", "X:Key", "X-Key\r\nEvil: 1", "X-Key\x00", "Schlüssel", ":authority",
		"Host", "content-length", "Content_Length", "Transfer-Encoding", "CONNECTION", "Keep-Alive", "TE", "Trailer", "Upgrade", "Expect", "Proxy-Authorization", "Cookie", "X-Forwarded-For", "Priority", "Link", "HTTP2-Settings",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		forbidden := document.ForbiddenHeader(name)
		if strings.ToLower(name) != name && isASCII(name) && document.ForbiddenHeader(strings.ToLower(name)) != forbidden {
			t.Fatalf("case matters to %q", name)
		}
		if forbidden {
			return
		}
		if slices.ContainsFunc(hopByHop, func(field string) bool { return strings.EqualFold(field, name) }) {
			t.Fatalf("%q is for one connection only", name)
		}
		if !httpguts.ValidHeaderFieldName(name) || len(name) > 128 {
			t.Fatalf("%q is no field name", name)
		}
		without, with := received(t, ""), received(t, name)
		got := with.Header.Values(name)
		if !slices.Equal(got, []string{fuzzedKey}) {
			t.Fatalf("%q arrives as %q", name, got)
		}
		with.Header.Del(name)
		if !maps.EqualFunc(with.Header, without.Header, slices.Equal) || with.Host != without.Host || with.ContentLength != without.ContentLength || with.Close != without.Close ||
			len(with.TransferEncoding) != 0 || len(with.Trailer) != 0 || with.Method != without.Method || with.RequestURI != without.RequestURI {
			t.Fatalf("%q changes the request to %+v", name, with)
		}
	})
}

// hopByHop are the fields that proxies read and drop (RFC 9110, section 7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "TE", "Transfer-Encoding", "Upgrade"}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0 }

// received is an invocation with one more field, as a server reads it.
func received(t *testing.T, name string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/run", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}, "User-Agent": {"x"}}
	if name != "" {
		req.Header.Set(name, fuzzedKey)
	}
	var wire bytes.Buffer
	if err := req.Write(&wire); err != nil {
		t.Fatalf("%q: %v", name, err)
	}
	server, err := http.ReadRequest(bufio.NewReader(&wire))
	if err != nil {
		t.Fatalf("%q: %v", name, err)
	}
	return server
}
