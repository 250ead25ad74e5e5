package jsonrpc_test

import (
	"bytes"
	stdjson "encoding/json" // for comparison
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

func FuzzDecode(f *testing.F) {
	for _, c := range envelopes {
		if len(c.body) < 10_000 {
			f.Add([]byte(c.body), 50, true)
		}
	}
	f.Add([]byte(batch(3)), 3, false)
	f.Add([]byte(batch(3)), 2, false)
	f.Add([]byte(`[[],{"jsonrpc":"2.0","method":"x","params":{"a":1,"a":2},"id":1.50},{"id":1}]`), 50, true)
	f.Fuzz(func(t *testing.T, body []byte, maxBatch int, nullID bool) {
		p := jsonrpc.Profile{MaxBatch: maxBatch, NullID: nullID}
		original := bytes.Clone(body)
		msg, fault := jsonrpc.Decode(body, &p)
		if !bytes.Equal(body, original) {
			t.Fatal("the body was changed")
		}
		again, faultAgain := jsonrpc.Decode(body, &p)
		if !reflect.DeepEqual(msg, again) || !reflect.DeepEqual(fault, faultAgain) {
			t.Fatal("decoded differently the second time")
		}
		text := bytes.TrimPrefix(body, []byte("\ufeff"))
		parses := fault == nil || fault.Code != jsonrpc.CodeParseError
		if parses && (!stdjson.Valid(text) || !utf8.Valid(text)) {
			t.Fatal("accepted what is not JSON")
		}
		if !parses && jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) && bytes.Count(text, []byte(`[`))+bytes.Count(text, []byte(`{`)) <= 512 {
			t.Fatal("refused what is JSON")
		}
		if fault != nil {
			if len(msg.Elements) != 0 {
				t.Fatal("elements beside a fault")
			}
			mustBeJSON(t, jsonrpc.AppendError(nil, nil, fault))
			return
		}
		checkMessage(t, text, msg, &p)
	})
}

// checkMessage compares a message with what encoding/json reads in the text.
func checkMessage(t *testing.T, text []byte, msg *jsonrpc.Message, p *jsonrpc.Profile) {
	t.Helper()
	raw := []stdjson.RawMessage{text}
	if msg.Batch {
		raw = nil
		if err := stdjson.Unmarshal(text, &raw); err != nil {
			t.Fatal(err)
		}
		if len(raw) > p.MaxBatch {
			t.Fatal("the batch is too large")
		}
	}
	if len(msg.Elements) != len(raw) || len(raw) == 0 {
		t.Fatalf("%d elements, want %d", len(msg.Elements), len(raw))
	}
	for i := range raw {
		checkElement(t, raw[i], &msg.Elements[i])
	}
}

func checkElement(t *testing.T, raw []byte, element *jsonrpc.Element) {
	t.Helper()
	req := &element.Request
	if element.Err != nil {
		if element.Err.Code != jsonrpc.CodeInvalidRequest {
			t.Fatalf("code %d", element.Err.Code)
		}
		mustBeJSON(t, jsonrpc.AppendError(nil, req.ID, element.Err))
		return
	}
	var members map[string]stdjson.RawMessage
	if err := stdjson.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	var version, method string
	if err := stdjson.Unmarshal(members["jsonrpc"], &version); err != nil || version != "2.0" {
		t.Fatalf("jsonrpc %q: %v", version, err)
	}
	if err := stdjson.Unmarshal(members["method"], &method); err != nil || method != req.Method {
		t.Fatalf("method %q, want %q: %v", req.Method, method, err)
	}
	params := members["params"]
	if string(params) == "null" { // which is as none
		params = nil
	}
	if !bytes.Equal(params, req.Params) || !bytes.Equal(members["id"], req.ID) {
		t.Fatalf("params %s, id %s", req.Params, req.ID)
	}
	checkMembers(t, req.Params, req.Members)
	if _, sent := members["id"]; sent == req.IsNotification() {
		t.Fatal("wrong about being a notification")
	}
	if req.IsNotification() {
		return
	}
	mustBeJSON(t, req.ID)
	mustBeJSON(t, jsonrpc.AppendResult(nil, req.ID, jsontext.Value(`null`)))
}

// checkMembers compares the collected members with the result of encoding/json, which
// keeps the last member of each name.
func checkMembers(t *testing.T, object []byte, noted []jsonrpc.Member) {
	t.Helper()
	if noted == nil {
		return
	}
	var want, got map[string]stdjson.RawMessage
	if err := stdjson.Unmarshal(object, &want); err != nil {
		t.Fatal(err)
	}
	got = map[string]stdjson.RawMessage{}
	for _, m := range noted {
		var name string
		if err := stdjson.Unmarshal(m.Name, &name); err != nil {
			t.Fatal(err)
		}
		got[name] = stdjson.RawMessage(m.Value)
		checkMembers(t, m.Value, m.Members)
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("noted %s, want %s", got, want)
	}
}

func mustBeJSON(t *testing.T, text []byte) {
	t.Helper()
	if !stdjson.Valid(text) {
		t.Fatalf("not JSON: %s", text)
	}
}
