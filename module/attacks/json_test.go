package attacks_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// call is an execute_skill with these params, as it is written.
func call(params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":` + params + `}`
}

// S18: what another parser would read differently, or what could leave its place
// in the request to the provider, is rejected before anything is sent. (One byte
// order mark before the text is no fault, by RFC 8259, section 8.1, and escapes in
// strings are none either: the text that was checked is the one that is sent. The
// contract has arguments sent as they were written, also where a name stands there
// twice: then each value is checked, and one that a schema describes must not have
// a name twice within.)
func TestS18SplicedRequests(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x", Edit: func(d hostile.Object) {
		mode := hostile.Object{"type": "string", "enum": []string{"safe"}}
		d["inputs"] = []hostile.Object{
			{"name": "mode", "type": "string", "description": "How.", "required": false, "schema": mode},
			{"name": "options", "type": "object", "description": "How.", "required": false, "schema": hostile.Object{"properties": hostile.Object{"mode": mode}}},
		}
	}})
	c := testbed.StartCaddy(t, strings.Replace(bridge("allow_networks "+house, provider(p.URL(), "acme")), "ttl 0s\n", "ttl 1h\n", 1))
	mustComplete(t, c.Execute("acme.x", nil)) // its documents are known from now on
	before := len(p.All())
	for _, test := range []struct{ body, outcome string }{
		{call(`{"name":"acme.x","args":{}},"skill_id":"x"}`), "-32700"},
		{call(`{"name":"acme.x","args":{}}},"caller":{"id":"x"}`), "-32700"},
		{call(`{"name":"acme.x","args":{"a":{}}},"skill_id":"x"}}`), "-32700"},
		{call(`{"name":"acme.x","args":{}}`) + `{}`, "-32700"},
		{call(`{"name":"acme.x","args":{}}`) + "\x00", "-32700"},
		{call(`{"name":"acme.x","args":{}}`) + call(`{"name":"acme.x"}`), "-32700"},
		{call(`{"name":"acme.x","args":{"a":NaN}}`), "-32700"},
		{call(`{"name":"acme.x","args":{"a":Infinity}}`), "-32700"},
		{call(`{"name":"acme.x","args":{"a":01}}`), "-32700"},
		{call(`{"name":"acme.x","args":{"a":1,}}`), "-32700"},
		{call(`{"name":"acme.x","args":{a:1}}`), "-32700"},
		{call(`{"name":"acme.x","args":{'a':1}}`), "-32700"},
		{call(`{"name":"acme.x",/**/"args":{}}`), "-32700"},
		{call("{\"name\":\"acme.x\",\"args\":{\"a\":\"\x00\"}}"), "-32700"},
		{call("{\"name\":\"acme.x\",\"args\":{\"a\":\"\n\"}}"), "-32700"},
		{call("{\"name\":\"acme.x\",\"args\":{\"a\":\"\xff\"}}"), "-32700"},
		{call("{\"name\":\"acme.x\",\"args\":{\"a\":\"\xc0\xaf\"}}"), "-32700"},
		{call("{\"name\":\"acme.x\",\"args\":{\"a\":\"\xed\xa0\x80\"}}"), "-32700"},
		{call("{\"name\":\"acme.x\",\"args\":{\"\xff\":1}}"), "-32700"},
		{call(`{"name":"acme.x","args":{"a":"\ud800"}}`), "-32700"},
		{call(`{"name":"acme.x","args":{"a":"\udc00\ud800"}}`), "-32700"},
		{call(`{"name":"acme.x","args":{"\ud800":1}}`), "-32700"},
		{call("\ufeff{\"name\":\"acme.x\"}"), "-32700"},
		{"\ufeff\ufeff" + call(`{"name":"acme.x"}`), "-32700"},
		{"\xff\xfe" + call(`{"name":"acme.x"}`), "-32700"},
		{utf16(call(`{"name":"acme.x"}`)), "-32700"},
		{"", "-32700"},
		{`"execute_skill"`, "-32600"},
		{`{"jsonrpc":"2.0","id":1,"method":"list_skills","method":"execute_skill","params":{"name":"acme.x"}}`, "-32600"},
		{`{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.x"},"params":{"name":"other"}}`, "-32600"},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"execute_skill","params":{"name":"acme.x"}}`, "-32600"},
		{`{"jsonrpc":"2.0","jsonrpc":"1.0","id":1,"method":"execute_skill","params":{"name":"acme.x"}}`, "-32600"},
		{`{"jsonrpc":"2.0","id":1,"method":"list_skills","m\u0065thod":"execute_skill","params":{"name":"acme.x"}}`, "-32600"},
		{`{"jsonrpc":"2.0","id":{"a":1},"method":"execute_skill","params":{"name":"acme.x"}}`, "-32600"},
		{call(`{"name":"acme.x","name":"other","args":{}}`), "-32602"},
		{call(`{"name":"other","n\u0061me":"acme.x","args":{}}`), "-32602"},
		{call(`{"name":"acme.x","args":{},"args":{"a":1}}`), "-32602"},
		{call(`{"name":"acme.x","args":{},"timeout_ms":1,"timeout_ms":2}`), "-32602"},
		{call(`{"name":"acme.x","args":{"mode":"safe","mode":"unsafe"}}`), "-32602"},
		{call(`{"name":"acme.x","args":{"mode":"unsafe","mode":"safe"}}`), "-32602"},
		{call(`{"name":"acme.x","args":{"mode":"safe","m\u006fde":"unsafe"}}`), "-32602"},
		{call(`{"name":"acme.x","args":{"options":{"mode":"safe","mode":"safe"}}}`), "-32602"},
		{call(`{"name":["acme.x"],"args":{}}`), "-32602"},
		{call(`{"name":"acme.x","args":[]}`), "-32602"},
		{call(`{"name":"acme.x","args":"{}"}`), "-32602"},
		{call(`["acme.x",{}]`), "-32602"},
		{call(`{"Name":"acme.x","ARGS":{}}`), "-32602"},
		{`[` + call(`{"name":"acme.x","args":{}}`) + `,]`, "-32700"},
		{`[]`, "-32600"},
	} {
		if a := c.Post(test.body); a.Outcome() != test.outcome {
			t.Errorf("%.200q: %v, want %s", test.body, a, test.outcome)
		}
	}
	if all := p.All(); len(all) != before {
		t.Errorf("%d requests were sent, the first of which is %s", len(all)-before, all[before].Body)
	}
	// What is not rejected arrives as it was written.
	for _, args := range []string{
		`{"a":"\u0000"}`, `{"a":1,"a":2}`, `{"mode":"safe","mode":"safe"}`, `{"a":"\ud83d\ude00","b":"\\u0022}},\"skill_id\":\"x\""}`, `{"a":"}},\"skill_id\":\"x\""}`, `{"skill_id":"x","caller":{"id":"x"}}`,
		`{"a":1.000000000000000000000000000000001}`, `{"a":100000000000000000000000001}`, `{"a":-0}`, `{ "a" : [ 1 , 2 ] }`, "{\"a\":\"\u2028\ufeff\"}", `{"":{"":""}}`,
	} {
		mustComplete(t, c.Post(call(`{"name":"acme.x","args":`+args+`}`)))
		requests := p.Requests("acme/x", hostile.Invoke)
		if body := requests[len(requests)-1].Body; !strings.Contains(body, `,"skill_id":"acme/x","inputs":`+args+`,"context":{`) {
			t.Errorf("%s became %s", args, body)
		}
	}
	mustComplete(t, c.Post("\ufeff"+call(`{"name":"acme.x"}`)))
}

func utf16(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteByte(0)
		b.WriteByte(text[i])
	}
	return b.String()
}

// S18, from a provider: an answer that two parsers would read differently, or
// that is more or less than one JSON text, is no answer.
func TestS18SplicedAnswers(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
	for _, body := range []string{
		`{"execution_id":"r","status":"failed","status":"completed","output":1}`,
		`{"execution_id":"r","execution_id":"s","status":"completed","output":1}`,
		`{"execution_id":"r","status":"failed","st\u0061tus":"completed","output":1}`,
		`{"execution_id":"r","status":"completed","output":1},"id":2}`,
		`{"execution_id":"r","status":"completed","output":1}}`,
		`{"execution_id":"r","status":"completed","output":1}{}`,
		`{"execution_id":"r","status":"completed","output":1} x`,
		`{"execution_id":"r","status":"completed","output":1`,
		`{"execution_id":"r","status":"completed","output":"`,
		`{"execution_id":"r","status":"completed","output":}`,
		`{"execution_id":"r","status":"completed","output":NaN}`,
		"{\"execution_id\":\"r\",\"status\":\"completed\xff\",\"output\":1}",
		"{\"execution_id\":\"r\",\"status\":\"completed\",\"output\":\"\x00\"}",
		"{\"execution_id\":\"r\",\"status\":\"completed\",\"output\":\"\n\"}",
		`[{"execution_id":"r","status":"completed","output":1}]`,
		`{"Execution_ID":"r","STATUS":"completed","output":1}`,
		utf16(`{"execution_id":"r","status":"completed","output":1}`),
		`)]}',` + "\n" + `{"execution_id":"r","status":"completed","output":1}`,
		`callback({"execution_id":"r","status":"completed","output":1})`,
	} {
		p.On("acme/x", hostile.Invoke, hostile.Respond(http.StatusOK, body))
		if a := c.Execute("acme.x", nil); a.Outcome() != "INVALID_PROVIDER_RESPONSE" || a.Code != -32056 {
			t.Errorf("%q: %v", body, a)
		}
	}
	// An output stays where it belongs.
	for _, text := range []string{`"}},\"id\":7"`, `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}`, `"\u0000"`} {
		p.On("acme/x", hostile.Invoke, hostile.RawOutput(text))
		if a := c.Execute("acme.x", nil); a.Outcome() != "completed" || string(a.Run().Output) != text {
			t.Errorf("%s: %v", text, a)
		}
	}
	// A document with the same member twice is invalid, too.
	for _, d := range documents {
		p.On("acme/x", hostile.Invoke)
		p.On(d.skill, d.part, hostile.Respond(http.StatusOK, `{"protocol":{"version":"1.0.0"},"protocol":{"version":"1.0.0"}}`))
		if a := c.Execute("acme.x", nil); a.Outcome() != "VALIDATION_ERROR" {
			t.Errorf("%s: %v", d.part, a)
		}
		p.On(d.skill, d.part)
	}
}

// spent runs a call and returns how much memory was allocated meanwhile, by all
// parts of the test together.
func spent(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// The most that a bomb may cost, in a test that makes the bomb as well: the
// criterion is 50 ms of one processor and twice the limit, but this is measured
// with the client and the provider, on a machine that has other work.
const (
	mostTime   = 5 * time.Second
	mostMemory = 64 << 20
)

// S19: a request that is all depth, members, digits, text or elements is answered
// with an error, soon, and without much memory: what is larger than the limit is
// not even read.
func TestS19BombsOfAgents(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
	const mega = 1 << 20
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%x":1,`, i)
		}
		return b.String() + `"z":1`
	}
	for _, test := range []struct {
		name, body string
		outcomes   []string
	}{
		{"deep arrays", call(`{"name":"acme.x","args":{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`), []string{"-32700"}},
		{"deep objects", call(`{"name":"acme.x","args":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + `}`), []string{"-32700"}},
		{"open arrays", strings.Repeat("[", mega-1), []string{"-32700"}},
		{"open arrays after text", `{"jsonrpc":"2.0","a":` + strings.Repeat("[", mega-100), []string{"-32700"}},
		{"deep, in an id", `{"jsonrpc":"2.0","method":"list_skills","id":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, []string{"-32700"}},
		{"one member too many levels", call(`{"name":"acme.x","args":` + strings.Repeat(`{"a":`, 512) + "1" + strings.Repeat("}", 512) + `}`), []string{"-32700"}},
		{"members within the limit", call(`{"name":"acme.x","args":{` + members(100_000) + `}}`), []string{"completed", "-32602"}},
		{"number within the limit", call(`{"name":"acme.x","args":{"call":` + strings.Repeat("9", mega-200) + `}}`), []string{"-32602"}},
		{"exponent", call(`{"name":"acme.x","args":{"call":1e999999999}}`), []string{"-32602"}},
		{"id of digits", `{"jsonrpc":"2.0","method":"list_skills","id":` + strings.Repeat("9", mega-200) + `}`, []string{"result", "-32600"}},
		{"batch of 100,000", "[" + strings.Repeat("1,", 100_000) + "1]", []string{"-32600"}},
		{"batch of 100,000 empty ones", "[" + strings.Repeat("{},", 100_000) + "{}]", []string{"-32600"}},
		{"batch of batches", "[" + strings.Repeat("[],", 49) + "[]]", []string{"http 200"}},
		{"10 MB number", call(`{"name":"acme.x","args":{"a":` + strings.Repeat("9", 10<<20) + `}}`), []string{"-32600", "broken"}},
		{"1,000,000 members", call(`{"name":"acme.x","args":{` + strings.Repeat(`"aaaaaaa":1,`, 1_000_000) + `"b":1}}`), []string{"-32600", "broken"}},
		{"100 MB string", call(`{"name":"acme.x","args":{"a":"` + strings.Repeat("a", 100<<20) + `"}}`), []string{"-32600", "broken"}},
		{"100 MB of space", strings.Repeat(" ", 100<<20), []string{"-32600", "broken"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var a testbed.Answer
			memory := spent(func() { a = c.Post(test.body) }) - int64(len(test.body)) // which the client copies
			found := false
			for _, outcome := range test.outcomes {
				found = found || a.Outcome() == outcome
			}
			if !found || a.Took > mostTime || memory > mostMemory || len(a.Body) > 2<<20 {
				t.Errorf("%.500v, want %q; %s, %d bytes", a, test.outcomes, a.Took, memory)
			}
			if len(test.body) > mega && a.Err == nil && a.Status != http.StatusRequestEntityTooLarge {
				t.Errorf("HTTP status %d", a.Status)
			}
		})
	}
	mustComplete(t, c.Execute("acme.x", nil))
}

// S19, from a provider, in the answer and in both documents.
func TestS19BombsOfProviders(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "max_response_size 1MiB", provider(p.URL(), "acme")))
	for _, test := range []struct{ name, text string }{
		{"a level too many", strings.Repeat("[", 512) + strings.Repeat("]", 512)},
		{"deep arrays", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)},
		{"deep objects", strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)},
		{"open arrays", strings.Repeat("[", 1<<20-1000)},
		{"number", strings.Repeat("9", 10<<20)},
		{"string", `"` + strings.Repeat("a", 20<<20) + `"`},
		{"members", "{" + strings.Repeat(`"aaaaaaa":1,`, 1_000_000) + `"b":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, where := range append(documents[:2:2], place{"acme/x", hostile.Invoke}) {
				body := `{"protocol":{"version":"1.0.0"},"provider":{"name":"Test"},"skills":[],"execution_id":"r","status":"completed","output":` + test.text + "}"
				p.On(where.skill, where.part, hostile.Respond(http.StatusOK, body))
				var a testbed.Answer
				memory := spent(func() { a = c.Execute("acme.x", nil) })
				if outcome := a.Outcome(); outcome != "INVALID_PROVIDER_RESPONSE" && outcome != "VALIDATION_ERROR" || a.Took > mostTime || memory > mostMemory || len(a.Body) > 64<<10 {
					t.Errorf("%s: %.500v; %s, %d bytes", where.part, a, a.Took, memory)
				}
				p.On(where.skill, where.part)
			}
		})
	}
	mustComplete(t, c.Execute("acme.x", nil))
}

// squeezed is an answer with so many bytes of JSON text in a content coding.
func squeezed(coding string, n int) []byte {
	var b bytes.Buffer
	var w, outer io.WriteCloser
	outer = gzip.NewWriter(&b)
	switch coding {
	case "deflate":
		w, _ = flate.NewWriter(&b, flate.BestCompression) // a level that exists
	case "gzip, gzip":
		w = gzip.NewWriter(outer)
	default:
		w = outer
	}
	block := bytes.Repeat([]byte(" "), 64<<10)
	for ; n > 0; n -= len(block) {
		_, _ = w.Write(block) // to memory
	}
	_, _ = io.WriteString(w, `{"execution_id":"r","status":"completed","output":1,"access_token":"a-token","token_type":"Bearer"}`)
	_ = w.Close() // to memory
	if coding == "gzip, gzip" {
		_ = outer.Close() // to memory
	}
	return b.Bytes()
}

// S20: what a provider has compressed is read up to the limit after
// decompression, in every place: documents, answers, polls, results, tokens.
func TestS20Bombs(t *testing.T) {
	p := inHouse(t)
	p.Publish(hostile.Skill{ID: "acme/x", Auth: hostile.OAuth2(p.TokenURL())})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "allow_anonymous", "max_response_size 128KiB",
		provider(p.URL(), "acme", "credentials oauth2 {", "client_id bridge", "client_secret a-client-secret", "}")))
	size := 64 << 20 // of which the bridge is to read 128 KiB
	if raced {
		size = 24 << 20
	}
	gzipped := squeezed("gzip", size)
	bombs := map[string][]byte{
		"gzip": gzipped, "x-gzip": gzipped, "br": gzipped, "identity": gzipped,
		"deflate": squeezed("deflate", size), "gzip, gzip": squeezed("gzip, gzip", size),
	}
	// gzip comes first: a bridge waits for seconds before it asks again for a token that was refused, and then names that.
	for _, coding := range []string{"gzip", "x-gzip", "br", "identity", "deflate", "gzip, gzip"} {
		bomb := bombs[coding]
		for _, where := range []place{
			{"", hostile.Index},
			{"acme/x", hostile.Descriptor},
			{"", hostile.Token},
			{"acme/x", hostile.Invoke},
			{"acme/x", hostile.Status},
			{"acme/x", hostile.Result},
		} {
			p.On("acme/x", hostile.Invoke, hostile.AcceptForResult(0))
			if where.part == hostile.Token {
				p.On("acme/x", hostile.Invoke, hostile.Respond(http.StatusUnauthorized, "")) // so that a new one is needed
			}
			p.On(where.skill, where.part, hostile.Respond(http.StatusOK, string(bomb), "Content-Encoding", coding))
			var a testbed.Answer
			memory := spent(func() { a = c.Execute("acme.x", nil) })
			switch outcome := a.Outcome(); outcome {
			case "INVALID_PROVIDER_RESPONSE", "VALIDATION_ERROR", "AUTH_REQUIRED":
				if coding == "gzip" && !strings.Contains(a.Message, "large") {
					t.Errorf("%s, %s: not for its size: %v", where.part, coding, a)
				}
			default:
				t.Errorf("%s, %s: %v", where.part, coding, a)
			}
			if memory > 16<<20 || a.Took > mostTime {
				t.Errorf("%s, %s: %d bytes, %s", where.part, coding, memory, a.Took)
			}
			p.On(where.skill, where.part)
		}
	}
	// Something small that is compressed is fine.
	p.On("acme/x", hostile.Invoke, hostile.Respond(http.StatusOK, string(squeezed("gzip", 1)), "Content-Encoding", "gzip"))
	mustComplete(t, c.Execute("acme.x", nil))
}

// S20: a request with a Content-Encoding is refused, whatever it says, before its
// body is read.
func TestS20EncodedRequests(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	for range 1 << 10 {
		_, _ = io.WriteString(w, strings.Repeat(" ", 64<<10)) // to memory
	}
	_ = w.Close() // to memory
	for _, coding := range []string{"gzip", "GZIP", "x-gzip", "deflate", "br", "zstd", "identity", "gzip, identity", "", "unknown"} {
		for _, body := range []string{bomb.String(), call(`{"name":"acme.x"}`)} {
			if a := c.With(testbed.Header("Content-Encoding", coding)).Post(body); a.Status != http.StatusUnsupportedMediaType || a.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("%q: %v", coding, a)
			}
		}
	}
	if a := c.Post(bomb.String()); a.Code != -32700 {
		t.Errorf("undeclared: %v", a)
	}
	if n := len(p.All()); n > 0 {
		t.Errorf("%d requests", n)
	}
}
