package jsonrpc_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

func TestDeeper(t *testing.T) {
	for _, c := range []struct {
		text  string
		depth int // 0: it is not JSON, and no parser descends into it
	}{
		{``, 0},
		{" \t\r\n", 0},
		{`"[[[["`, 0},
		{`<style>a{b{c{d{`, 0},
		{`1[[[[`, 0},
		{`[]`, 1},
		{`{}`, 1},
		{" \r\n\t[{}]", 2},
		{`[[],{},[]]`, 2},
		{`{"a":[{"b":[1]}],"c":{}}`, 4},
		{`["[[[[{{{{"]`, 1},
		{`["\"[[[[","\\",[]]`, 2},
		{`{"[\"{\\":{"\\\"[":[]}}`, 3},
		{strings.Repeat("[", 600) + strings.Repeat("]", 600), 600},
		{strings.Repeat(`{"a":`, 600), 600},
		{strings.Repeat("[", 600) + "x", 600},
		{`["` + strings.Repeat("[", 600), 1},
		{`[` + strings.Repeat(`[{}],`, 600) + `0]`, 3},
	} {
		for _, limit := range []int{1, 2, 3, 4, 512, 599, 600, 601} {
			if got, want := jsonrpc.Deeper([]byte(c.text), limit), c.depth > limit; got != want {
				t.Errorf("%.40s: deeper than %d: %v, want %v", c.text, limit, got, want)
			}
		}
	}
}

// FuzzDeeper compares Deeper with the depth that a parser finds.
func FuzzDeeper(f *testing.F) {
	for _, text := range []string{`[[{"a":["\"["]}]]`, `{"\\":[`, `]]]][[`, `"[[["`, ` [1,{}] x`, "[\xff["} {
		f.Add([]byte(text), 2)
	}
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		if limit = limit%64 + 1; limit < 1 {
			limit += 64
		}
		dec := jsontext.NewDecoder(strings.NewReader(string(text)))
		reached := 0
		for {
			if _, err := dec.ReadToken(); err != nil {
				break
			}
			if reached = max(reached, dec.StackDepth()); dec.StackDepth() == 0 {
				break // the rest is not of this value
			}
		}
		deeper := jsonrpc.Deeper(text, limit)
		if reached > limit && !deeper {
			t.Errorf("a parser reaches %d, which is not found deeper than %d", reached, limit)
		}
		if jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) && deeper != (reached > limit) {
			t.Errorf("%d levels, deeper than %d: %v", reached, limit, deeper)
		}
	})
}

func BenchmarkDeeper(b *testing.B) {
	for name, text := range map[string]string{
		"flat": `{"text":"` + strings.Repeat("lorem ipsum ", 100_000) + `"}`,
		"rows": `[` + strings.Repeat(`{"id":1234,"name":"some \"text\"","list":[1,2,3]},`, 20_000) + `0]`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if jsonrpc.Deeper([]byte(text), 512) {
					b.Fatal("deeper")
				}
			}
		})
	}
}
