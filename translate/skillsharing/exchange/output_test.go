package exchange_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// An output without a secret is neither copied nor changed, whatever its size.
func TestOutputsWithoutSecretsAreNotCopied(t *testing.T) {
	output := []byte(listOf(20_000, func(i int) string {
		return fmt.Sprintf(`{"id":%d,"path":"C:\\dir\\%d","text":"line\nline \u00e9","plain":"%d"}`, i, i, i)
	}))
	used := allocated(func() {
		if got := exchange.ScrubOutput(output, "secret-key"); &got[0] != &output[0] || len(got) != len(output) {
			t.Error("it is another one")
		}
	})
	if used > 64<<10 {
		t.Errorf("%d bytes were allocated for %d", used, len(output))
	}
	if !jsontext.Value(output).IsValid() {
		t.Error("the test's output is no JSON")
	}
}

func BenchmarkScrubOutput(b *testing.B) {
	for name, item := range map[string]string{
		"plain":      `{"id":1,"path":"C:/dir","text":"some words and others"}`,
		"backslash":  `{"id":1,"path":"C:\\dir","text":"some words\nand others"}`,
		"all escape": `"` + strings.Repeat(`\u00e9\n`, 100) + `"`,
	} {
		output := []byte(listOf(1<<20/len(item), func(int) string { return item }))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(output)))
			b.ReportAllocs()
			for b.Loop() {
				if len(exchange.ScrubOutput(output, "secret-key")) != len(output) {
					b.Fatal("changed")
				}
			}
		})
	}
}

// FuzzOutputSecrets: however an output spells a secret, it is found, and nothing
// else is touched.
func FuzzOutputSecrets(f *testing.F) {
	for _, output := range []string{
		`"k-12345"`, `{"k-12345":["x k-12345 y",1.0]}`, `["\u006b-12345","\n"]`, `{"a":"\\","b":"k\u002D12345"}`, `["\"","k-12345\""]`, ` [ "\u006b-1234" , "5" ] `, `{"k-12345":1,"[redacted]":2}`, `[12345,"\/"]`,
	} {
		f.Add([]byte(output), "k-12345")
		f.Add([]byte(output), "\"12345\\")
	}
	f.Add([]byte("100"), "000100")
	f.Fuzz(func(t *testing.T, output []byte, secret string) {
		if !jsontext.Value(output).IsValid() || len(secret) < 6 || strings.Contains("[redacted]", secret) {
			return
		}
		quoted := strconv.Quote(secret) // secrets are looked for in this form, too
		forms := []string{secret, quoted[1 : len(quoted)-1]}
		in := func(text string) bool {
			return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) })
		}
		contained := false
		for dec := jsontext.NewDecoder(bytes.NewReader(output)); ; {
			token, err := dec.ReadToken()
			if err != nil {
				break
			}
			contained = contained || token.Kind() == '"' && in(token.String())
		}
		got := exchange.ScrubOutput(output, secret)
		switch {
		case !got.IsValid():
			t.Errorf("%q of %q is no JSON", got, output)
		case contained && bytes.Equal(got, output):
			t.Errorf("%q stays in %q", secret, output)
		case strings.Trim(secret, "0123456789") == "": // a provider that reads it as a number loses its zeros: 100 is 000100, too
		case !contained && !in(string(output)) && !bytes.Equal(got, output):
			t.Errorf("%q became %q without %q in it", output, got, secret)
		}
	})
}

// listOf is a JSON array of n items.
func listOf(n int, item func(i int) string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(item(i))
	}
	return b.String() + "]"
}

// allocated is how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
