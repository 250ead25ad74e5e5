package attacks_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// accepting accepts an invocation under any id.
func accepting(id string) hostile.Action {
	return func(x *hostile.Exchange) {
		x.JSON(http.StatusAccepted, x.Body("accepted", hostile.Object{"execution_id": id}))
	}
}

// ending completes a run of any id.
func ending(id string) hostile.Action {
	return func(x *hostile.Exchange) {
		x.JSON(http.StatusOK, x.Body("completed", hostile.Object{"execution_id": id, "output": "done"}))
	}
}

// ids are execution ids that would lead elsewhere if they were put into a URL, or
// into a request, as they are.
var ids = []string{
	"../admin", "../../admin", "..%2fadmin", "/admin", "//evil.example.com/", "a/b", "a/../b", "./a", `..\admin`, `\\evil\share`,
	"x?y=", "x?admin=true", "x&admin=true", "x#fragment", "x;jsessionid=1", "x=y", "%2e%2e", "%2e%2e%2fadmin", "%252e", "%", "%zz", "%00",
	"@evil.example.com/", "x@evil.example.com", ":80", "http://evil.example.com/", "file:///etc/passwd", "{execution_id}", "{skill_id}", "{env.PATH}", "${PATH}",
	" ", "a b", "\t", "a\r\nX-Admin: true", "a HTTP/1.1\r\nHost: evil.example.com\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "\x00", "a\x00b", "\x7f", "\x1b[31m",
	"ünïcödé", "日本", "\u202egnp", "\u2028", "\ufeff", "😀", "．．／admin", "a‥b", "...", ".a", "~", "-", "*", "'\"<script>", strings.Repeat("x", 512),
}

// S14: an execution id is one path segment or query value whatever it contains:
// nothing but unreserved characters and escapes (RFC 3986, section 2.3) is written
// in its place, each request goes to the provider itself, and there are two of them. (Each id in
// one of the forms, and in all of them if long tests are asked for.)
func TestS14ExecutionIDs(t *testing.T) {
	for nth, form := range []struct{ name, template, before, after string }{
		{"segment", "/status/x/{execution_id}", "/status/x/", ""},
		{"in the middle", "/status/x/{execution_id}/state", "/status/x/", "/state"},
		{"query", "/status/x/q?id={execution_id}&x=1", "/status/x/q?id=", "&x=1"},
		{"appended", "/status/x", "/status/x/", ""},
		{"beside a letter that is not ASCII", "/status/x/ä/{execution_id}", "/status/x/%C3%A4/", ""},
		{"beside another placeholder", "/status/x/{tenant}/{execution_id}", "/status/x/%7Btenant%7D/", ""},
		{"appended before a query", "/status/x?x=1", "/status/x/", "?x=1"},
	} {
		t.Run(form.name, func(t *testing.T) {
			p := inHouse(t)
			p.Publish(hostile.Skill{ID: "x", StatusURL: p.URL() + form.template})
			c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
			tried := 0
			for i, id := range ids {
				if i%7 != nth && !longtest.Runs(longtest.Long) {
					continue
				}
				tried++
				p.On("x", hostile.Invoke, accepting(id))
				p.On("x", hostile.Status, ending(id))
				before := len(p.All())
				a := c.Execute("acme.x", nil)
				if a.Outcome() != "completed" || a.Run().RunID != id {
					t.Errorf("%q: %v", id, a)
				}
				requests := p.All()[before:]
				last := requests[len(requests)-1]
				written, found := strings.CutPrefix(last.Target, form.before)
				written, ended := strings.CutSuffix(written, form.after)
				plain, err := url.PathUnescape(written)
				if !found || !ended || err != nil || plain != id || strings.Trim(written, unreservedAndEscapes) != "" || last.Host != authority(p.URL()) || last.Method != http.MethodGet {
					t.Errorf("%q: %s %s at %s", id, last.Method, last.Target, last.Host)
				}
				if n := p.Posts(a.Call); n != 1 || len(requests) != 4 { // the index, the descriptor, the invocation, the poll
					t.Errorf("%q: %d invocations, %d requests", id, n, len(requests))
				}
			}
			onTheWire(t, p, 4*tried)
			c.Stop()
		})
	}
}

const unreservedAndEscapes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%"

// S14: ids that no URL can hold are not followed, and are cut where they are told.
func TestS14UnusableExecutionIDs(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "x"})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
	for _, id := range []string{".", "..", strings.Repeat("x", 513), strings.Repeat("ü", 300), strings.Repeat("/", 1<<20), strings.Repeat("\x00", 1<<20)} {
		p.On("x", hostile.Invoke, accepting(id))
		a := c.Execute("acme.x", nil)
		if a.Outcome() != "INVALID_PROVIDER_RESPONSE" || a.Data.Executed != "yes" || len(a.Body) > 16<<10 {
			t.Errorf("%.20q: %d bytes, %.2000v", id, len(a.Body), a)
		}
	}
	for _, text := range []string{`"\ud800"`, `"a` + "\xff" + `b"`, `1`, `null`, `{}`, `["a"]`, `""`, `"a","execution_id":"b"`} {
		p.On("x", hostile.Invoke, hostile.Respond(http.StatusAccepted, `{"status":"accepted","skill_id":"x","execution_id":`+text+`}`))
		if a := c.Execute("acme.x", nil); a.Outcome() != "INVALID_PROVIDER_RESPONSE" {
			t.Errorf("%s: %v", text, a)
		}
	}
	if n := p.Count("x", hostile.Status); n > 0 {
		t.Errorf("%d polls", n)
	}
}

// S15: a template that lets the execution id choose the host makes the descriptor
// invalid. In the rest of the URL it may stand as often as it likes, and nothing
// else is a placeholder: no text of a provider is ever run through Caddy's replacer.
func TestS15Templates(t *testing.T) {
	p := inHouse(t)
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
	host := authority(p.URL())
	for _, template := range []string{
		"http://{execution_id}/", "http://{execution_id}.example.com/x", "http://" + host + "{execution_id}/x", "http://{execution_id}@" + host + "/x",
		"http://x:{execution_id}@" + host + "/", "http://" + house + ":{execution_id}/", "{execution_id}://" + host + "/", "{execution_id}", "//{execution_id}/",
		"{execution_id}/x", "http:{execution_id}", "http://[{execution_id}]/", "http://" + host + "{execution_id}", "http://{execution_id}?x", "http://{execution_id}#x",
		`http://{execution_id}\@` + host + "/",
	} {
		for _, member := range []string{"url", "status_url", "result_url"} {
			p.Publish(hostile.Skill{ID: "x", Edit: inEndpoint(member, template)})
			if a := c.Execute("acme.x", nil); a.Outcome() != "VALIDATION_ERROR" || a.Code != -32055 || !strings.Contains(string(a.Data.Details), "must not choose the host") {
				t.Errorf("%s %s: %v", member, template, a)
			}
		}
	}
	if n := p.Count("x", hostile.Invoke); n > 0 {
		t.Errorf("%d invocations", n)
	}
	for template, target := range map[string]string{
		"/status/x/{execution_id}/{execution_id}":                 "/status/x/%7Bexecution_id%7D/%7Bexecution_id%7D",
		"/status/x/{execution_id}?x={execution_id}":               "/status/x/%7Bexecution_id%7D?x=%7Bexecution_id%7D",
		"/status/x#{execution_id}":                                "/status/x/%7Bexecution_id%7D",
		"/status/x/{execution_id}#{execution_id}":                 "/status/x/%7Bexecution_id%7D",
		"/status/x/{env.PATH}/{execution_id}":                     "/status/x/%7Benv.PATH%7D/%7Bexecution_id%7D",
		"/status/x/{file./etc/hostname}/{execution_id}":           "/status/x/%7Bfile./etc/hostname%7D/%7Bexecution_id%7D",
		"/status/x/{http.request.header.Cookie}?{http.vars.root}": "/status/x/%7Bhttp.request.header.Cookie%7D/%7Bexecution_id%7D?%7Bhttp.vars.root%7D",
		"/status/x/{EXECUTION_ID}":                                "/status/x/%7BEXECUTION_ID%7D/%7Bexecution_id%7D",
		"/status/x/%7Bexecution_id%7D":                            "/status/x/%7Bexecution_id%7D/%7Bexecution_id%7D",
	} {
		p.Publish(hostile.Skill{ID: "x", StatusURL: p.URL() + template, Endpoint: p.URL() + "/run/x?{env.PATH}={execution_id}"})
		p.On("x", hostile.Invoke, accepting("{execution_id}")) // replaced once, not again
		p.On("x", hostile.Status, ending("{execution_id}"))
		mustComplete(t, c.Execute("acme.x", nil))
		polls, posts := p.Requests("x", hostile.Status), p.Requests("x", hostile.Invoke)
		if got := polls[len(polls)-1].Target; got != target {
			t.Errorf("%s became %s", template, got)
		}
		if got := posts[len(posts)-1].Target; got != "/run/x?%7Benv.PATH%7D=%7Bexecution_id%7D" {
			t.Errorf("the endpoint became %s", got)
		}
	}
}
