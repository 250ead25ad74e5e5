package document_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func TestForbiddenHeader(t *testing.T) {
	for _, name := range []string{
		"Authorization", "authorization", "X-API-Key", "x-api-key", "X-Auth-Token", "Api-Key", "X-Signature", "Ocp-Apim-Subscription-Key",
		"!#$%&'*+-.^_`|~09azAZ", strings.Repeat("x", 128),
	} {
		if document.ForbiddenHeader(name) {
			t.Errorf("%q is forbidden", name)
		}
	}
	for _, name := range []string{
		"", "X Key", "X:Key", "X-Key\r\nEvil: 1", "X-Key\x00", "Schlüssel", "X(Key)", strings.Repeat("x", 129),
		"Host", "host", "HOST", "Content-Length", "content-type", "Content-Encoding", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade",
		"Expect", "Proxy-Authorization", "Proxy-Authenticate", "Proxy-Connection", "Accept", "Accept-Encoding", "User-Agent", "Cookie", "Set-Cookie",
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via", "Range", "If-Match", "If-None-Match", "If-Modified-Since",
		"If-Unmodified-Since", "If-Range", "Date", "Origin", "Referer", "Traceparent", "X-HTTP-Method-Override", "Sec-WebSocket-Key", "HTTP2-Settings",
	} {
		if !document.ForbiddenHeader(name) {
			t.Errorf("%q is not forbidden", name)
		}
	}
}
