package document_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// The last of several members of one name stays, at any depth.
func TestRepairedMembers(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":2,"a":3,"c":4,"b":5}`:               `{"a":3,"c":4,"b":5}`,
		`{"a":1,"\u0061":2, "a" : 3}`:                   `{"a":3}`,
		`[{"a":{"b":1,"b":2},"a":{"b":3,"b":4}},[],{}]`: `[{"a":{"b":4}},[],{}]`,
		`{"a":[{"x":1,"x":2}],"c":{"a":"}"},"a":[ 1 ]}`: `{"c":{"a":"}"},"a":[1]}`,
		`{"":1,"":2}`:                 `{"":2}`,
		"{\"a\xff\":1,\"a\ufffd\":2}": "{\"a\ufffd\":2}",
		`"\ud800"`:                    "\"\ufffd\"",
		`{"a":1,"a":}`:                ``,
	} {
		if got := string(document.Repaired([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// What a repair takes does not grow with depth times size.
func TestRepairedDepth(t *testing.T) {
	taken := func(depth int) uint64 {
		value := `{"a":1,"b":[1` + strings.Repeat(",1", 50_000) + `],"a":2}`
		text := []byte(strings.Repeat("[", depth) + value + strings.Repeat("]", depth))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := document.Repaired(text)
		if runtime.ReadMemStats(&after); len(got) != len(text)-len(`"a":1,`) {
			t.Fatal(len(got), len(text))
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if flat, deep := taken(1), taken(500); deep > 3*flat {
		t.Errorf("%d bytes at depth 500, %d at depth 1", deep, flat)
	}
}
