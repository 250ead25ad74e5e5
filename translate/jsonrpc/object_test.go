package jsonrpc_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// FuzzMembers compares the members of an object with those that the parser reads. Text that is no valid object must do no
// harm.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":1,"a":[{"b":"}"}],"\u0061":"\\\"","":{"c":[1,2,{}]} , "d" : -1.5e3 ,"e":null,"f":true}`,
		"{\r\n\t\"a\" :\n1 ,\"b\":\"x\" }", `[1]`, `"{"`, ``, `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":}`, `{"a" 1}`, `{"a":]}`, `{"a":[}`, `{"a":"`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got []jsontext.Value
		for name, value := range jsonrpc.Members(text) {
			got = append(got, name, value)
		}
		if v := jsontext.Value(text); !v.IsValid(jsontext.AllowDuplicateNames(true)) || v.Kind() != '{' {
			return
		}
		d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
		if _, err := d.ReadToken(); err != nil {
			t.Fatal(err)
		}
		for i := 0; d.PeekKind() != '}'; i++ {
			want, err := d.ReadValue()
			if err != nil {
				t.Fatal(err)
			}
			if i >= len(got) || !bytes.Equal(want, got[i]) {
				t.Fatalf("%q, want %q at %d", got, want, i)
			}
			if i == len(got)-1 && d.PeekKind() != '}' {
				t.Fatalf("%q ends too early", got)
			}
		}
	})
}

// Answers of providers are searched for a member also if they are cut.
func TestValueOfCutText(t *testing.T) {
	const whole = `{"status":"completed","output":{"text":"a\"a","list":["x\\",[1,"y"]]},"id":"z"}`
	for n := range len(whole) + 1 {
		cut := slices.Clip([]byte(whole[:n]))
		value := jsonrpc.ValueOf(cut[:n:n], "id")
		if n == len(whole) && string(value) != `"z"` || n < len(whole)-4 && value != nil {
			t.Errorf("%s: %s", cut, value)
		}
	}
}

// A body is scanned once: members that were collected are not looked for in the text again.
func TestCollectedMembers(t *testing.T) {
	collected := jsonrpc.Object{Text: jsontext.Value(`{"of":1,"the":2,"text":3}`), Members: []jsonrpc.Member{{Name: jsontext.Value(`"a"`), Value: jsontext.Value(`4`)}, {Name: jsontext.Value(`"b"`), Value: jsontext.Value(`5`)}}}
	for _, c := range []struct {
		of    jsonrpc.Object
		names string
	}{{collected, `"a"4"b"5`}, {jsonrpc.Object{Text: collected.Text}, `"of"1"the"2"text"3`}, {jsonrpc.Object{}, ""}} {
		names := ""
		for name, value := range c.of.All() {
			names += string(name) + string(value)
		}
		if names != c.names {
			t.Errorf("%s, not %s", names, c.names)
		}
	}
	for name := range collected.All() {
		if string(name) != `"a"` {
			t.Error("the loop goes on after its end")
		}
		break
	}
	collected.Members[1].Name = collected.Members[0].Name
	if name, twice := jsonrpc.Repeated(collected); name != "a" || !twice {
		t.Error(name, twice)
	}
}
