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
