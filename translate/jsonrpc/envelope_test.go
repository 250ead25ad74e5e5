package jsonrpc_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// limits are the texts of messages about limits, which TestLimitsAreNamed compares.
var limits = regexp.MustCompile(`: (nested deeper than|the batch has more than|the body is larger than) [^"]*`)

// withoutLimits returns an answer without the texts about limits.
func withoutLimits(answer string) string { return limits.ReplaceAllString(answer, "") }

// answerOf returns the exact text of an error answer with the code.
func answerOf(id string, code int) string {
	switch code {
	case jsonrpc.CodeParseError:
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32700,"message":"Parse error"}}`
	case jsonrpc.CodeInvalidRequest:
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32600,"message":"Invalid Request"}}`
	case jsonrpc.CodeInternalError:
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"Internal error"}}`
	default:
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"Method not found"}}`
	}
}

// envelopes are bodies of single requests, the error code of a server that has none of
// their methods, and the text of the id in the answer.
var envelopes = []struct {
	name, body string
	code       int
	id         string
}{
	{"string id", `{"jsonrpc":"2.0","method":"x","id":"abc"}`, -32601, `"abc"`},
	{"empty string id", `{"jsonrpc":"2.0","method":"x","id":""}`, -32601, `""`},
	{"zero id", `{"jsonrpc":"2.0","method":"x","id":0}`, -32601, `0`},
	{"negative id", `{"jsonrpc":"2.0","method":"x","id":-0}`, -32601, `-0`},
	{"null id", `{"jsonrpc":"2.0","method":"x","id":null}`, -32601, `null`},
	{"big id", `{"jsonrpc":"2.0","method":"x","id":12345678901234567890123}`, -32601, `12345678901234567890123`},
	{"fractional id", `{"jsonrpc":"2.0","method":"x","id":1.5}`, -32601, `1.5`},
	{"exponent id", `{"jsonrpc":"2.0","method":"x","id":1e2}`, -32601, `1e2`},
	{"number too large for a float", `{"jsonrpc":"2.0","method":"x","id":1e9999}`, -32601, `1e9999`},
	{"escaped id", `{"jsonrpc":"2.0","method":"x","id":"\u0041\/"}`, -32601, `"\u0041\/"`},
	{"id with white space around", "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\" : \t\"a b\"\r\n}", -32601, `"a b"`},
	{"object id", `{"jsonrpc":"2.0","method":"x","id":{"a":1}}`, -32600, `null`},
	{"array id", `{"jsonrpc":"2.0","method":"x","id":[1]}`, -32600, `null`},
	{"boolean id", `{"jsonrpc":"2.0","method":"x","id":true}`, -32600, `null`},

	{"no version", `{"method":"x","id":1}`, -32600, `1`},
	{"version as a number", `{"jsonrpc":2.0,"method":"x","id":1}`, -32600, `1`},
	{"version 1.0", `{"jsonrpc":"1.0","method":"x","id":1}`, -32600, `1`},
	{"version 2.00", `{"jsonrpc":"2.00","method":"x","id":1}`, -32600, `1`},
	{"null version", `{"jsonrpc":null,"method":"x","id":1}`, -32600, `1`},
	{"escaped version", `{"jsonrpc":"\u0032.0","method":"x","id":1}`, -32601, `1`},
	{"no method", `{"jsonrpc":"2.0","id":1}`, -32600, `1`},
	{"null method", `{"jsonrpc":"2.0","method":null,"id":1}`, -32600, `1`},
	{"empty method", `{"jsonrpc":"2.0","method":"","id":1}`, -32601, `1`},
	{"method with a blank", `{"jsonrpc":"2.0","method":" get_data","id":1}`, -32601, `1`},
	{"upper-case member", `{"jsonrpc":"2.0","METHOD":"get_data","id":1}`, -32600, `1`},
	{"upper-case id", `{"jsonrpc":"2.0","method":1,"ID":1}`, -32600, `null`},
	{"unknown members", `{"jsonrpc":"2.0","method":"x","id":1,"trace":"x","trace":{},"params":{}}`, -32601, `1`},
	{"long unknown member", `{"jsonrpc":"2.0","method":"x","id":1,"` + strings.Repeat("a", 1000) + `":2}`, -32601, `1`},
	{"params number", `{"jsonrpc":"2.0","method":"x","params":3,"id":1}`, -32600, `1`},
	{"params string", `{"jsonrpc":"2.0","method":"x","params":"a","id":1}`, -32600, `1`},
	{"params boolean", `{"jsonrpc":"2.0","method":"x","params":true,"id":1}`, -32600, `1`},
	{"params null twice", `{"jsonrpc":"2.0","method":"x","params":null,"params":null,"id":1}`, -32600, `1`},
	{"empty object", `{}`, -32600, `null`},
	{"an answer", `{"jsonrpc":"2.0","result":1,"id":7}`, -32600, `7`},

	{"id twice", `{"jsonrpc":"2.0","method":"x","id":1,"id":2}`, -32600, `null`},
	{"the same id twice", `{"jsonrpc":"2.0","method":"x","id":1,"id":1}`, -32600, `null`},
	{"id three times", `{"id":1,"jsonrpc":"2.0","id":1,"method":"x","id":1}`, -32600, `null`},
	{"method twice", `{"jsonrpc":"2.0","method":"x","method":"x","id":1}`, -32600, `1`},
	{"jsonrpc twice", `{"jsonrpc":"2.0","jsonrpc":"2.0","method":"x","id":1}`, -32600, `1`},
	{"params twice", `{"jsonrpc":"2.0","params":{},"method":"x","params":{},"id":1}`, -32600, `1`},
	{"method twice, once escaped", `{"jsonrpc":"2.0","method":"x","\u006dethod":"x","id":1}`, -32600, `1`},
	{"escaped members", `{"\u006asonrpc":"2.0","\u006dethod":"x","\u0069\u0064":"1"}`, -32601, `"1"`},
	{"fully escaped member", `{"\u006a\u0073\u006f\u006e\u0072\u0070\u0063":"2.0","method":"x","id":1}`, -32601, `1`},

	{"top-level string", `"str"`, -32600, `null`},
	{"top-level number", `1`, -32600, `null`},
	{"top-level true", `true`, -32600, `null`},
	{"top-level null", `null`, -32600, `null`},

	{"empty body", ``, -32700, `null`},
	{"white space", " \r\n\t", -32700, `null`},
	{"byte order mark only", "\ufeff", -32700, `null`},
	{"byte order mark", "\ufeff" + `{"jsonrpc":"2.0","method":"x","id":1}`, -32601, `1`},
	{"two byte order marks", "\ufeff\ufeff" + `{"jsonrpc":"2.0","method":"x","id":1}`, -32700, `null`},
	{"truncated", `{"jsonrpc":"2.0","method":"x","id":1`, -32700, `null`},
	{"truncated array", `[{"jsonrpc":"2.0","method":"x","id":1},`, -32700, `null`},
	{"two objects", `{"jsonrpc":"2.0","method":"x","id":1}{"jsonrpc":"2.0","method":"x","id":2}`, -32700, `null`},
	{"trailing bracket", `{"jsonrpc":"2.0","method":"x","id":1}]`, -32700, `null`},
	{"trailing comma", `{"jsonrpc":"2.0","method":"x","id":1},`, -32700, `null`},
	{"trailing NUL", `{"jsonrpc":"2.0","method":"x","id":1}` + "\x00", -32700, `null`},
	{"trailing line", "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":1}\r\n", -32601, `1`},
	{"comma before the end", `{"jsonrpc":"2.0","method":"x","id":1,}`, -32700, `null`},
	{"no value", `{"jsonrpc":"2.0","method":"x","id":}`, -32700, `null`},
	{"no colon", `{"jsonrpc":"2.0","method":"x","id" 1}`, -32700, `null`},
	{"comment", `{"jsonrpc":"2.0","method":"x","id":1/*c*/}`, -32700, `null`},
	{"NaN", `{"jsonrpc":"2.0","method":"x","id":NaN}`, -32700, `null`},
	{"leading zero", `{"jsonrpc":"2.0","method":"x","id":01}`, -32700, `null`},
	{"control character", "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":\"a\x01b\"}", -32700, `null`},
	{"truncated UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":\"\xe2\x82\"}", -32700, `null`},
	{"bad UTF-8 in params", "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":1,\"params\":[\"\xff\"]}", -32700, `null`},
	{"bad UTF-8 in an unknown member", "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":1,\"\xff\":1}", -32700, `null`},
	{"lone surrogate in the id", `{"jsonrpc":"2.0","method":"x","id":"\ud800"}`, -32700, `null`},
	{"lone surrogate in params", `{"jsonrpc":"2.0","method":"x","id":1,"params":["\udc00"]}`, -32700, `null`},
	{"surrogate pair", `{"jsonrpc":"2.0","method":"x","id":"\ud83d\ude00"}`, -32601, `"\ud83d\ude00"`},
	{"depth at the limit", nested(511), -32601, `1`},
	{"depth above the limit", nested(512), -32700, `null`},
	{"depth at the limit, and more brackets", `{"a":[[],{}],` + nested(511)[1:], -32601, `1`},
	{"depth above the limit, and more brackets", `{"a":[[],{}],` + nested(512)[1:], -32700, `null`},
	{"brackets in strings are not depth", `{"jsonrpc":"2.0","method":"x","id":"` + strings.Repeat(`[\"{\\`, 600) + `"}`, -32601, `"` + strings.Repeat(`[\"{\\`, 600) + `"`},
	{"many brackets side by side", `{"jsonrpc":"2.0","method":"x","id":1,"params":[` + strings.Repeat(`[{}],`, 600) + `0]}`, -32601, `1`},
	{"100,000 nested arrays", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), -32700, `null`},
	{"100,000 nested objects", strings.Repeat(`{"a":`, 100_000), -32700, `null`},
}

// nested returns a request whose params nest to a depth, so that the request is one deeper.
func nested(depth int) string {
	return `{"jsonrpc":"2.0","method":"x","id":1,"params":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
}

func TestEnvelope(t *testing.T) {
	for _, c := range envelopes {
		t.Run(c.name, func(t *testing.T) {
			w := post(t, newToyServer(), c.body)
			status := http.StatusOK
			if c.code == jsonrpc.CodeParseError {
				status = http.StatusBadRequest
			}
			if w.Code != status {
				t.Errorf("status %d, want %d", w.Code, status)
			}
			if got, want := withoutLimits(w.Body.String()), answerOf(c.id, c.code); got != want {
				t.Errorf("body\n%.300s\nwant\n%.300s", got, want)
			}
		})
	}
}

func TestEnvelopeBatches(t *testing.T) {
	const request, notification = `{"jsonrpc":"2.0","method":"x","id":1}`, `{"jsonrpc":"2.0","method":"x"}`
	unknown, invalid := answerOf(`1`, jsonrpc.CodeMethodNotFound), answerOf(`null`, jsonrpc.CodeInvalidRequest)
	parse := answerOf(`null`, jsonrpc.CodeParseError)
	for _, c := range []struct {
		name, body string
		maxBatch   int
		status     int
		answer     string
	}{
		{"one element", `[` + request + `]`, 50, 200, `[` + unknown + `]`},
		{"equal ids", `[` + request + `,` + request + `]`, 50, 200, `[` + unknown + `,` + unknown + `]`},
		{"array as an element", `[[]]`, 50, 200, `[` + invalid + `]`},
		{"request in an array as an element", `[[` + request + `],` + request + `]`, 50, 200, `[` + invalid + `,` + unknown + `]`},
		{"notification and invalid", `[` + notification + `,{}]`, 50, 200, `[` + invalid + `]`},
		{"invalid with an id", `[{"id":"a","method":1}]`, 50, 200, `[` + answerOf(`"a"`, jsonrpc.CodeInvalidRequest) + `]`},
		{"null as an element", `[null,` + notification + `]`, 50, 200, `[` + invalid + `]`},
		{"as many as allowed", `[` + request + `,` + request + `]`, 2, 200, `[` + unknown + `,` + unknown + `]`},
		{"one too many", `[` + request + `,` + request + `,` + request + `]`, 2, 200, invalid},
		{"too many notifications", `[` + notification + `,` + notification + `]`, 1, 200, invalid},
		{"too many and not JSON", `[1,2,3,4,}]`, 2, 400, parse},
		{"too many and not closed", `[1,2,3,4`, 2, 400, parse},
		{"too many and more text", `[1,2,3,4] x`, 2, 400, parse},
		{"no batches", `[` + request + `]`, 0, 200, invalid},
		{"no batches, empty", `[]`, 0, 200, invalid},
		{"no batches, single", request, 0, 200, unknown},
		{"trailing comma", `[` + request + `,]`, 50, 400, parse},
		{"two batches", `[` + request + `][]`, 50, 400, parse},
		{"byte order mark", "\ufeff[" + request + `]`, 50, 200, `[` + unknown + `]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newToyServer()
			s.Profile.MaxBatch = c.maxBatch
			w := post(t, s, c.body)
			if w.Code != c.status {
				t.Errorf("status %d, want %d", w.Code, c.status)
			}
			if got := withoutLimits(w.Body.String()); got != c.answer {
				t.Errorf("body\n%s\nwant\n%s", got, c.answer)
			}
		})
	}
}

func TestParamsArePassedUntouched(t *testing.T) {
	for _, params := range []string{
		`{}`, `[]`, `[ 1.0, 1e2 , 12345678901234567890123 ]`, `{"a":1,"a":2,"\u0061" : "\u0041"}`, `{"method":"a","id":1,"id":2}`,
	} {
		w := post(t, newToyServer(), `{"jsonrpc":"2.0","params": `+params+` ,"method":"params","id":1}`)
		if got, want := w.Body.String(), `{"jsonrpc":"2.0","id":1,"result":`+params+`}`; got != want {
			t.Errorf("body %s, want %s", got, want)
		}
	}
}

func TestNullIDProfile(t *testing.T) {
	const body = `{"jsonrpc":"2.0","method":"x","id":null}`
	for _, c := range []struct {
		nullID bool
		code   int
	}{{true, jsonrpc.CodeMethodNotFound}, {false, jsonrpc.CodeInvalidRequest}} {
		s := newToyServer()
		s.Profile.NullID = c.nullID
		if got, want := post(t, s, body).Body.String(), answerOf(`null`, c.code); got != want {
			t.Errorf("NullID %v: body %s, want %s", c.nullID, got, want)
		}
	}
}

func TestMaxDepth(t *testing.T) {
	for _, c := range []struct {
		depth int
		id    string
		code  int
	}{
		{511, `1`, jsonrpc.CodeMethodNotFound},
		{512, `null`, jsonrpc.CodeParseError},
		{20_000, `null`, jsonrpc.CodeParseError},
	} {
		if got, want := withoutLimits(post(t, newToyServer(), nested(c.depth)).Body.String()), answerOf(c.id, c.code); got != want {
			t.Errorf("depth %d: body %s, want %s", c.depth, got, want)
		}
	}
}

// TestReasons checks the reasons that a profile's ErrorData is called with.
func TestReasons(t *testing.T) {
	for _, c := range []struct{ body, reason string }{
		{``, `the body is empty`},
		{`{`, `the JSON text ends too early at byte 1`},
		{`{"a":tru}`, "invalid character '}' in literal true (expecting 'e') at byte 8"},
		{"\ufeff" + `{} {}`, `data after the JSON text at byte 5`},
		{strings.Repeat("[", 513), `nested deeper than 512 levels`},
		{`1`, `a request must be an object`},
		{`[]`, `the batch is empty`},
		{`[` + strings.Repeat(`1,`, 50) + `1]`, `the batch has more than 50 elements: send several smaller ones (max_batch: 50)`},
		{`{"method":"x"}`, `jsonrpc must be the string "2.0"`},
		{`{"jsonrpc":"2.0","method":1}`, `method must be a string`},
		{`{"jsonrpc":"2.0","method":"x","params":1}`, `params must be an object or an array, or be left out`},
		{`{"jsonrpc":"2.0","method":"x","id":false}`, `id must be a string or a number`},
		{`{"jsonrpc":"2.0","method":"x","id":null}`, `id must not be null`},
		{`{"jsonrpc":"2.0","method":"x","id":1,"id":1}`, `id must not stand there twice`},
	} {
		p := jsonrpc.Profile{MaxBatch: 50, ErrorData: func(_ int, reason string, _ *jsonrpc.Limit) jsontext.Value {
			data, err := jsontext.AppendQuote(nil, reason)
			if err != nil {
				t.Error(err)
			}
			return data
		}}
		msg, fault := jsonrpc.Decode([]byte(c.body), &p)
		if fault == nil {
			fault = msg.Elements[0].Err
		}
		if fault == nil {
			t.Errorf("%s: no error", c.body)
			continue
		}
		reason, err := jsontext.AppendUnquote(nil, fault.Data)
		if err != nil || string(reason) != c.reason {
			t.Errorf("%.80s: reason %q (%v), want %q", c.body, reason, err, c.reason)
		}
	}
}
