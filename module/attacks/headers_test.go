package attacks_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// notForCredentials are names of header fields that mean something else to those
// on the way or at the end (RFC 9110, RFC 9112, RFC 9113, Fetch Standard), and
// texts that are no names.
var notForCredentials = []string{
	"Host", "Content-Length", "Transfer-Encoding", "TE", "Trailer", "Connection", "Keep-Alive", "Proxy-Connection", "Upgrade",
	"HTTP2-Settings", "Expect", "Proxy-Authorization", "Proxy-Authenticate", "Via", "Max-Forwards", "Date",
	"Content-Type", "Content-Encoding", "Content-Language", "Content-Location", "Content-Range", "Accept", "Accept-Encoding",
	"Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Cache-Control", "Pragma",
	"Cookie", "Cookie2", "Set-Cookie", "Origin", "Referer", "User-Agent", "Sec-WebSocket-Key", "Sec-Fetch-Site",
	"Access-Control-Request-Method", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP",
	"X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL", "Traceparent", "Tracestate", "Baggage",
	"host", "hOST", "CONTENT-LENGTH", "transfer-encoding", "cookie", "connection",
	":authority", ":path", ":method", ":scheme", ":status", ":protocol",
	"", " ", " Host", "Host ", "Host:", "X-API-Key ", "\tX-API-Key", "X API Key", "X-API-Key: x\r\nHost", "X-API-Key\r\n", "X-API-Key\n",
	"X-API-Key\r\n\r\nGET /admin HTTP/1.1", "\r", "\n", "\x00", "X-\x00Key", "X-\x7fKey", "X-Kéy", "X-Key\u2028", "Ｘ-Key", "\"X-Key\"", "X-Key;a",
	"X-Key,Host", "(X-Key)", "X/Key", "X@Key", "[X]", "{http.request.host}", strings.Repeat("X", 129), strings.Repeat("X", 10<<10),
}

// S12: a descriptor that wants the key in a header which belongs to framing,
// routing, or anything else but credentials, is invalid: nothing is sent at all.
func TestS12ForbiddenHeaders(t *testing.T) {
	p := inHouse(t)
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "allow_anonymous", provider(p.URL(), "acme", "credentials api_key a-secret-key")))
	for _, name := range notForCredentials {
		p.Publish(hostile.Skill{ID: "acme/x", Auth: hostile.APIKey(name)})
		a := c.Execute("acme.x", nil)
		if a.Outcome() != "VALIDATION_ERROR" || a.Code != -32055 || !strings.Contains(string(a.Data.Details), "/auth/header") {
			t.Errorf("%.100q: %v", name, a)
		}
	}
	if n := p.Count("acme/x", hostile.Invoke); n > 0 {
		t.Errorf("%d invocations", n)
	}
	for _, name := range []string{"X-API-Key", "authorization", "Api_Key", "x-acme.token", "Idempotency-Key", strings.Repeat("X", 128)} {
		p.Publish(hostile.Skill{ID: "acme/x", Auth: hostile.APIKey(name)})
		mustComplete(t, c.Execute("acme.x", nil))
		requests := p.Requests("acme/x", hostile.Invoke)
		if last := requests[len(requests)-1]; last.Header.Get(name) != "a-secret-key" {
			t.Errorf("%s: %v", name, last.Header)
		}
	}
}

// S13: a secret with line breaks or NUL is refused when the configuration loads,
// and the error does not tell it.
func TestS13SecretsWithControlCharacters(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "allow_anonymous", provider(p.URL(), "acme")))
	file := filepath.Join(t.TempDir(), "secret")
	for _, secret := range []string{
		"a-secret\r\nX-Admin: true", "a-secret\nX-Admin: true", "a-secret\rX-Admin: true", "a-secret\x00end", "\x00a-secret", "a-secret\x7fend", "a-\x1b[31msecret",
	} {
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		placeholder := "{file." + file + "}"
		for _, lines := range [][]string{
			{"credentials api_key " + placeholder},
			{"credentials headers {", "X-Token " + placeholder, "}"},
			{"discovery_credentials api_key " + placeholder},
		} {
			err := c.Reload(bridge("allow_networks "+house, "allow_anonymous", provider(p.URL(), "acme", lines...)))
			if err == nil {
				t.Errorf("%q was accepted: %q", secret, lines)
			} else if strings.Contains(err.Error(), "secret\r") || strings.Contains(err.Error(), "X-Admin") || strings.Contains(err.Error(), "end") {
				t.Errorf("the error tells the secret: %v", err)
			}
		}
	}
	mustComplete(t, c.Execute("acme.x", nil))
}

// S13: line breaks and NUL in names, ids, trace ids and arguments of an agent
// break nothing out of its place: the provider sees one request for each, as the
// bridge framed it.
func TestS13ControlCharactersOfAgents(t *testing.T) {
	const breakout = "\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: evil.example.com\r\n\r\n"
	get := hostile.Skill{ID: "acme/get", Edit: inEndpoint("method", "GET")}
	strange := hostile.Skill{ID: "acme/y" + breakout + "\x00"}
	p := inHouse(t, hostile.Skill{ID: "acme/x"}, get, strange)
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme", "alias strange \"acme/y\""), "skill direct "+p.URLOf(strange.ID, hostile.Descriptor)))
	for _, name := range []string{"acme.x" + breakout, "acme.x\x00", "\r\nacme.x", "acme.x HTTP/1.1\r\n", "acme" + breakout + ".x", "acme.y" + breakout + "\x00"} {
		if a := c.Execute(name, nil); a.Outcome() != "SKILL_NOT_FOUND" {
			t.Errorf("%q: %v", name, a)
		}
	}
	args := hostile.Object{"text": breakout, "k" + breakout: "v\x00"}
	mustComplete(t, c.Execute("acme.x", args))
	mustComplete(t, c.Execute("acme.get", args))
	mustComplete(t, c.Execute("direct", args)) // which no index lists, so that it may have such an id
	for _, parent := range []string{
		"00-" + strings.Repeat("a", 32) + "-" + strings.Repeat("b", 16) + "-01\x00", "00-x-y-z", strings.Repeat("a", 10<<10), "00-" + strings.Repeat("A", 32) + "-" + strings.Repeat("b", 16) + "-01",
	} {
		a := c.With(testbed.Header("Traceparent", strings.ReplaceAll(parent, "\x00", "%00"))).Execute("acme.x", nil)
		mustComplete(t, a)
		var sent struct {
			Context struct {
				TraceID string `json:"trace_id"`
			} `json:"context"`
		}
		requests := p.Requests("acme/x", hostile.Invoke)
		if err := json.Unmarshal([]byte(requests[len(requests)-1].Body), &sent); err != nil {
			t.Error(err)
		}
		if id := sent.Context.TraceID; len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" || strings.Contains(parent, id) {
			t.Errorf("%.80q became the trace id %q", parent, id)
		}
	}
	onTheWire(t, p, 6+6*3+2) // an index for each name that there is not; else an index, a descriptor and an invocation
}

// ownHeaders are the header fields of the bridge's requests, and there are no others.
var ownHeaders = []string{"Accept", "Accept-Encoding", "Content-Length", "Content-Type", "User-Agent"}

// S16: no header of an agent is forwarded, not even by names that the provider's
// descriptor or the operator use: there is no token passthrough.
func TestS16HeadersOfAgents(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-API-Key")}, hostile.Skill{ID: "acme/get", Edit: inEndpoint("method", "GET")})
	p.On("acme/x", hostile.Invoke, hostile.AcceptForResult(1))
	const key = "9f2c1c52-6a3e-4b7d-8f0a-3d1e5c7b9a0" // and a digit for each skill
	p.MustNotReceive("of-the-agent", "evil.example.com", key)
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "allow_anonymous",
		provider(p.URL(), "acme", "credentials api_key a-secret-key", "discovery_credentials api_key a-discovery-key")))
	agent := c.With(
		testbed.Header("Authorization", "Bearer of-the-agent"), testbed.Header("Proxy-Authorization", "Bearer of-the-agent"),
		testbed.Header("X-API-Key", "of-the-agent"), testbed.Header("X-Api-Token", "of-the-agent"), testbed.Header("Api-Key", "of-the-agent"),
		testbed.Header("Cookie", "session=of-the-agent"), testbed.Header("X-Forwarded-For", "of-the-agent"),
		testbed.Header("X-Forwarded-Host", "evil.example.com"), testbed.Header("X-Forwarded-Proto", "of-the-agent"),
		testbed.Header("Forwarded", "for=of-the-agent;host=evil.example.com"), testbed.Header("X-Real-IP", "of-the-agent"),
		testbed.Header("Via", "of-the-agent"), testbed.Header("Origin", "https://evil.example.com"), testbed.Header("Referer", "https://evil.example.com"),
		testbed.Header("User-Agent", "of-the-agent"), testbed.Header("Accept", "text/of-the-agent"), testbed.Header("Accept-Language", "of-the-agent"),
		testbed.Header("X-Idempotency-Key", "of-the-agent"), testbed.Header("Range", "bytes=of-the-agent"),
		testbed.Header("If-None-Match", `"of-the-agent"`), testbed.Header("Cache-Control", "of-the-agent"), testbed.Header("Connection", "X-API-Key, Content-Length"),
		testbed.Header("TE", "trailers, of-the-agent"), testbed.Header("Keep-Alive", "of-the-agent"), testbed.Header("Upgrade", "of-the-agent"),
		testbed.Header("Host", "evil.example.com"), testbed.Header("X-HTTP-Method-Override", "DELETE"), testbed.Header("X-Original-URL", "/of-the-agent"),
		testbed.Header("Tracestate", "acme=of-the-agent"), testbed.Header("Baggage", "user=of-the-agent"), testbed.Header("X-Request-Id", "of-the-agent"),
		testbed.Header("A2A-Extensions", "of-the-agent"), testbed.Header("MCP-Session-Id", "of-the-agent"),
	)
	for i, name := range []string{"acme.x", "acme.key", "acme.get"} {
		mustComplete(t, agent.With(testbed.Header("Idempotency-Key", `"`+key+strconv.Itoa(i)+`"`)).Execute(name, nil))
	}
	if a := agent.Call("list_skills", hostile.Object{}); a.Result == nil {
		t.Errorf("%v", a)
	}
	for _, r := range p.All() {
		header := maps.Clone(r.Header)
		for _, own := range ownHeaders {
			delete(header, own)
		}
		key := header.Get("X-API-Key")
		delete(header, http.CanonicalHeaderKey("X-API-Key"))
		discovery := r.Part == hostile.Index || r.Part == hostile.Descriptor
		if len(header) > 0 || r.Skill == "acme/key" && !discovery && key != "a-secret-key" || discovery && key != "a-discovery-key" {
			t.Errorf("%s %s: %v", r.Method, r.Target, r.Header)
		}
	}
}

// S17: who calls, for how long, and under which trace is the bridge's to say. An
// agent's words for it in params are ignored; in args they stay arguments.
func TestS17ParamsOfAgents(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/get", Edit: inEndpoint("method", "GET")},
		hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-API-Key")})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "allow_anonymous", "caller the-bridge service",
		provider(p.URL(), "acme", "credentials api_key a-secret-key")))
	claim := hostile.Object{"id": "of-the-agent", "type": "admin", "credentials": hostile.Object{"api_key": "of-the-agent"}}
	agent := c.With(
		testbed.Param("caller", claim), testbed.Param("credentials", claim), testbed.Param("auth", claim), testbed.Param("headers", claim),
		testbed.Param("context", hostile.Object{"priority": "high", "trace_id": "of-the-agent", "timeout_ms": 1}), testbed.Param("skill_id", "of-the-agent"),
		testbed.Param("inputs", claim), testbed.Param("endpoint", claim), testbed.Param("principal", "of-the-agent"), testbed.Param("execution_id", "of-the-agent"),
		testbed.Param("url", "http://of-the-agent/"), testbed.Param("method", "DELETE"), testbed.Param("__proto__", claim),
	)
	for _, name := range []string{"acme.x", "acme.key"} {
		p.MustNotReceive("of-the-agent", "admin")
		a := agent.Execute(name, nil)
		mustComplete(t, a)
		var sent struct {
			Caller  map[string]any `json:"caller"`
			SkillID string         `json:"skill_id"`
			Inputs  map[string]any `json:"inputs"`
			Context struct {
				Priority string  `json:"priority"`
				TraceID  string  `json:"trace_id"`
				Timeout  float64 `json:"timeout_ms"`
			} `json:"context"`
		}
		skill := strings.Replace(name, ".", "/", 1)
		r := p.Requests(skill, hostile.Invoke)[0]
		if err := json.Unmarshal([]byte(r.Body), &sent, json.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%s: %v", r.Body, err)
		}
		if !maps.Equal(sent.Caller, map[string]any{"id": "the-bridge", "type": "service"}) || sent.SkillID != skill || len(sent.Inputs) != 1 ||
			sent.Context.Priority != "normal" || sent.Context.Timeout < 1000 {
			t.Errorf("%s", r.Body)
		}
	}
	// As arguments, they are sent as what they are, and choose nothing.
	q := inHouse(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/get", Edit: inEndpoint("method", "GET")})
	c.Stop()
	c = testbed.StartCaddy(t, bridge("allow_networks "+house, "caller the-bridge service", provider(q.URL(), "acme")))
	args := hostile.Object{"caller": claim, "skill_id": "b/pay", "a&admin=true": "x&call=other#", "X-API-Key": "k", "/../": "?"}
	mustComplete(t, c.Execute("acme.x", args))
	mustComplete(t, c.Execute("acme.get", args))
	got := q.Requests("acme/get", hostile.Invoke)[0]
	path, query, _ := strings.Cut(got.Target, "?")
	if path != "/run/acme%2Fget" || strings.Count(query, "&") != len(args) || strings.Contains(query, "admin=true") || strings.ContainsAny(query, "# /") || got.Header.Get("X-API-Key") != "" {
		t.Errorf("%s: %v", got.Target, got.Header)
	}
	if body := q.Requests("acme/x", hostile.Invoke)[0].Body; !strings.HasPrefix(body, `{"caller":{"id":"the-bridge","type":"service"},"skill_id":"acme/x",`) {
		t.Errorf("%s", body)
	}
}
