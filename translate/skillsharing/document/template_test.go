package document_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func TestExpandURL(t *testing.T) {
	for _, c := range []struct{ template, id, want string }{
		// Templates.
		{"https://api.example/status/{execution_id}", "exec-1", "https://api.example/status/exec-1"},
		{"https://api.example/{execution_id}/status/{execution_id}", "exec-1", "https://api.example/exec-1/status/exec-1"},
		{"https://api.example/run-{execution_id}.json", "exec-1", "https://api.example/run-exec-1.json"},
		{"https://api.example/status?id={execution_id}&x=y", "exec-1", "https://api.example/status?id=exec-1&x=y"},
		{"https://api.example/{execution_id}?id={execution_id}", "a b", "https://api.example/a%20b?id=a%20b"},
		{"https://api.example/status", "exec-1", "https://api.example/status/exec-1"},
		{"https://api.example/status/", "exec-1", "https://api.example/status/exec-1"},
		{"https://api.example", "exec-1", "https://api.example/exec-1"},
		{"https://api.example/", "exec-1", "https://api.example/exec-1"},
		{"https://api.example/status?version=2", "exec-1", "https://api.example/status/exec-1?version=2"},
		{"https://api.example?version=2", "exec-1", "https://api.example/exec-1?version=2"},
		{"https://api.example/status?", "exec-1", "https://api.example/status/exec-1?"},
		{"https://api.example/status#section", "exec-1", "https://api.example/status/exec-1"},
		{"https://api.example/status#{execution_id}", "exec-1", "https://api.example/status/exec-1"},
		{"https://api.example/status/{execution_id}#{execution_id}", "exec-1", "https://api.example/status/exec-1"},
		{"https://api.example/status/{EXECUTION_ID}", "exec-1", "https://api.example/status/%7BEXECUTION_ID%7D/exec-1"},
		{"https://api.example:8443/caf%C3%A9/{execution_id}", "exec-1", "https://api.example:8443/caf%C3%A9/exec-1"},
		{"http://127.0.0.1:8080/status/{execution_id}", "exec-1", "http://127.0.0.1:8080/status/exec-1"},
		{"HTTPS://API.Example:443/S/{execution_id}", "exec-1", "https://api.example/S/exec-1"},
		{"http://API.example:80", "exec-1", "http://api.example/exec-1"},
		{"https://api.example:80/{execution_id}", "exec-1", "https://api.example:80/exec-1"},
		{"https://api.example:4430/{execution_id}", "exec-1", "https://api.example:4430/exec-1"},
		{"https://api.example:/{execution_id}", "exec-1", "https://api.example/exec-1"},
		{"https://[2001:DB8::443]/{execution_id}", "exec-1", "https://[2001:db8::443]/exec-1"},
		{"https://[2001:DB8::1]:443/{execution_id}", "exec-1", "https://[2001:db8::1]/exec-1"},
		{"https://\u212aelvin.example/{execution_id}", "exec-1", "https://%E2%84%AAelvin.example/exec-1"}, // U+212A is no k

		// Execution ids.
		{"https://api.example/s/{execution_id}", "AZaz09-._~", "https://api.example/s/AZaz09-._~"},
		{"https://api.example/s/{execution_id}", "../admin", "https://api.example/s/..%2Fadmin"},
		{"https://api.example/s/{execution_id}", "..\\admin", "https://api.example/s/..%5Cadmin"},
		{"https://api.example/s/{execution_id}", "x?y=z&a#b", "https://api.example/s/x%3Fy%3Dz%26a%23b"},
		{"https://api.example/s/{execution_id}", "%2e%2e", "https://api.example/s/%252e%252e"},
		{"https://api.example/s/{execution_id}", "%2F", "https://api.example/s/%252F"},
		{"https://api.example/s/{execution_id}", "@evil.example/", "https://api.example/s/%40evil.example%2F"},
		{"https://api.example/{execution_id}", "/evil.example/", "https://api.example/%2Fevil.example%2F"},
		{"https://api.example", "@evil.example", "https://api.example/%40evil.example"},
		{"https://api.example", ".evil.example", "https://api.example/.evil.example"},
		{"https://api.example", ":8080", "https://api.example/%3A8080"},
		{"https://api.example/s/{execution_id}", "https://evil.example/", "https://api.example/s/https%3A%2F%2Fevil.example%2F"},
		{"https://api.example/s?id={execution_id}", "1&admin=true", "https://api.example/s?id=1%26admin%3Dtrue"},
		{"https://api.example/s?id={execution_id}", "a+b;c", "https://api.example/s?id=a%2Bb%3Bc"},
		{"https://api.example/s/{execution_id}", "läuft 実行", "https://api.example/s/l%C3%A4uft%20%E5%AE%9F%E8%A1%8C"},
		{"https://api.example/s/{execution_id}", "a\r\nX-Evil: 1\x00", "https://api.example/s/a%0D%0AX-Evil%3A%201%00"},
		{"https://api.example/s/{execution_id}", "\xff", "https://api.example/s/%FF"},
		{"https://api.example/s/{execution_id}", "{execution_id}", "https://api.example/s/%7Bexecution_id%7D"},
		{"https://api.example/s/{execution_id}", "...", "https://api.example/s/..."},
		{"https://api.example/s/{execution_id}", strings.Repeat("x", 512), "https://api.example/s/" + strings.Repeat("x", 512)},
		{"https://api.example/s/{execution_id}", strings.Repeat("é", 256), "https://api.example/s/" + strings.Repeat("%C3%A9", 256)},
	} {
		u, err := document.ExpandURL(c.template, c.id)
		if err != nil {
			t.Errorf("%s with %.40q: %v", c.template, c.id, err)
			continue
		}
		if got := u.String(); got != c.want {
			t.Errorf("%s with %.40q:\n got %s\nwant %s", c.template, c.id, got, c.want)
		}
		if base, err := url.Parse(c.template); err != nil || !strings.EqualFold(u.Hostname(), base.Hostname()) || u.Scheme != base.Scheme || u.User != nil {
			t.Errorf("%s with %.40q leads to %s", c.template, c.id, u)
		}
	}
}

func TestExpandURLRefuses(t *testing.T) {
	for _, c := range []struct{ template, id string }{
		{"https://api.example/s/{execution_id}", ""},
		{"https://api.example/s/{execution_id}", "."},
		{"https://api.example/s/{execution_id}", ".."},
		{"https://api.example/s", ".."},
		{"https://api.example/s/{execution_id}", strings.Repeat("x", 513)},
		{"https://api.example/s/{execution_id}", strings.Repeat("é", 257)},
		{"https://{execution_id}.example/s", "evil"},
		{"https://{execution_id}/s", "evil.example"},
		{"https://api.example:{execution_id}/s", "8080"},
		{"https://{execution_id}@api.example/s", "evil"},
		{"{execution_id}://api.example/s", "http"},
		{"{execution_id}", "https"},
		{"/status/{execution_id}", "exec-1"},
		{"ftp://api.example/{execution_id}", "exec-1"},
		{"https://user:pass@api.example/{execution_id}", "exec-1"},
		{"https:///{execution_id}", "exec-1"},
		{"https:{execution_id}", "exec-1"},
		{"", "exec-1"},
	} {
		if u, err := document.ExpandURL(c.template, c.id); err == nil {
			t.Errorf("%q with %.40q leads to %s", c.template, c.id, u)
		}
	}
}
