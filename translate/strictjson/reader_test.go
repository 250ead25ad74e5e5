package strictjson_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

const depth = 100

// read reads a text with both readers. Where bits of choices are set, it enters objects and arrays; others it reads as one value. It
// reports whether the reader accepts the text, and whether jsontext does. Up to where one of them refuses the text, all they read must be
// equal.
func read(t *testing.T, text []byte, choices uint64, duplicates bool) (accepted, valid bool) {
	t.Helper()
	r := strictjson.Borrow(text, depth, duplicates)
	defer r.GiveBack()
	d := jsontext.NewDecoder(bytes.NewBuffer(bytes.Clone(text)), jsontext.AllowDuplicateNames(duplicates))
	ok, err := true, error(nil)
	for level := 0; ok && err == nil; choices = choices>>1 | choices<<63 {
		kind, want := r.Kind(), d.PeekKind()
		if kind != 0 && want != 0 && jsontext.Value([]byte{kind}).Kind() != want {
			t.Fatalf("%q at %d: kind %q, want %q", text, r.At(), kind, want)
		}
		switch {
		case want == '}' || want == ']':
			_, err = d.ReadToken()
			ok = r.Bracket()
			level--
		case (want == '{' || want == '[') && choices&1 == 1:
			_, err = d.ReadToken()
			ok = r.Bracket()
			level++
		default:
			var value jsontext.Value
			value, err = d.ReadValue()
			got := r.Value()
			if ok = got != nil; ok && err == nil && !bytes.Equal(got, value) {
				t.Fatalf("%q: %q, want %q", text, got, value)
			}
		}
		if ok && err == nil && int64(r.At()) != d.InputOffset() {
			t.Fatalf("%q: at %d, want %d", text, r.At(), d.InputOffset())
		}
		if level == 0 {
			break
		}
	}
	if !ok {
		return false, jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(duplicates))
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return r.End(), errors.Is(err, io.EOF)
}

// check compares the readers. It returns whether the text is accepted.
func check(t *testing.T, text []byte, choices uint64, duplicates bool) bool {
	t.Helper()
	accepted, valid := read(t, text, choices, duplicates)
	if value := jsontext.Value(text); valid != value.IsValid(jsontext.AllowDuplicateNames(duplicates)) {
		t.Fatalf("%q is valid: %t", text, !valid)
	}
	if accepted && !valid {
		t.Fatalf("%q is accepted", text)
	}
	isUsual := bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) <= depth && (duplicates || !bytes.ContainsRune(text, '\\')) && bytes.Count(text, []byte(":")) <= 4096
	if valid && !accepted && isUsual {
		t.Fatalf("%q is refused", text)
	}
	return accepted
}

func members(n int, more string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"name ` + strconv.Itoa(i*7919%n) + `":1,`)
	}
	return "{" + b.String() + more + "}"
}

var texts = []string{
	`null`, ` true `, `false`, `0`, `-1`, `1.0`, `-0`, `1e400`, `1E+2`, `1e-7`, `""`, `"a"`, `"\u0061"`, `"ab\n\"\\\/\b\f\r\t"`, `"\ud83d\ude00 \uD83D\uDE00"`, `"äöü€ 😀 and more"`, `[]`, ` [ ] `, `[1]`, `[1 , [2,[ ] ],{}]`, `{}`, `{ }`, `{"a":1}`, ` { "a" : { "b" : [ null ] } , "c" : "d" } `,
	`{"a":{"a":1},"b":[{"a":1},{"a":2}]}`, `{"":1,"\u0000":2}`, `{"jsonrpc":"2.0","method":"execute_skill","params":{"name":"a.b","args":{"city":"Kyoto","days":[1,2,3]}},"id":"7b1f3a3e-5f0c"}`, `{"0123456":1,"01234567":2,"012345678":3}`, "\"\x7f\"", "\"\u2028\"",
	`{"a":1,"a":1}`, `{"\u0061":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `[{"x":1,"y":2,"x":3}]`, `{"012345678":1,"012345678":2}`,
	``, ` `, `-`, `+1`, `01`, `-01`, `1.`, `.5`, `1e`, `1e+`, `0x1`, `NaN`, `nul`, `nulll`, `tru`, `"`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\ud800"`, `"\ud800\u0041"`, `"\udc00"`, `"\uDBFF\uDBFF"`, `"\ud83d`, "\"\x01\"", "\"0123456\x1f\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc3\"", "\"\xf4\x90\x80\x80\"", `[`, `[1`, `[1,`, `[1,]`, `[,1]`, `[,]`, `[1 2]`, `[1:2]`,
	`{`, `{"a"`, `{"a":`, `{"a":}`, `{"a":]`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{a:1}`, `{1:1}`, `{"a" 1}`, `{"a",1}`, `{"a":1]`, `{"a"::1}`, `{"a":1,,"b":2}`, `[1}`, `[}`, `{]`, `}`, `]`, `,`, `:`, `1 2`, `[] []`, `{}x`, "\ufeff1", "1\x00", "\u00a01", "\x0b1", "[1\x0c]",
}

// Both readers agree on all texts, however they are read.
func TestReader(t *testing.T) {
	for _, text := range append(texts, members(16, `"x":1`), members(16, `"name 3":1`), members(17, `"x":1`), members(200, `"x":{"name 3":1}`), members(200, `"name 77":1`), members(4000, `"x":[{"y":1}]`)) {
		for _, choices := range []uint64{0, ^uint64(0), 1, 2, 5, 0xaaaaaaaaaaaaaaaa} {
			check(t, []byte(text), choices, true)
			check(t, []byte(text), choices, false)
		}
	}
}

// Texts that nest deeper, or have more names than are kept, are refused.
func TestBounds(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat(`[{"a":`, n/2) + "1" + strings.Repeat("}]", n/2)) }
	for _, choices := range []uint64{0, 3, ^uint64(0)} {
		if !check(t, nested(depth), choices, false) || check(t, nested(depth+2), choices, false) {
			t.Error("depth")
		}
	}
	for n, want := range map[int]bool{600: true, 1022: true, 1024: false} {
		r := strictjson.Borrow(nested(n), 2000, true)
		if r.Value(); r.End() != want {
			t.Errorf("%d levels", n)
		}
		r.GiveBack()
	}
	if check(t, []byte(members(5000, `"x":1`)), 0, false) || !check(t, []byte(members(5000, `"x":1`)), 0, true) {
		t.Error("names")
	}
}

// A reader that has refused a text goes on to refuse it, and a reused one does not.
func TestRefused(t *testing.T) {
	r := strictjson.Borrow([]byte(`[1,x,2]`), depth, true)
	if !r.Bracket() || r.Value() == nil || r.Value() != nil || r.Value() != nil || r.Kind() != 0 || r.Bracket() || r.End() {
		t.Error("accepted")
	}
	r.GiveBack()
	fewest := math.Inf(1)
	for range 20 { // the race detector drops a random part of pooled memory
		fewest = min(fewest, testing.AllocsPerRun(100, func() {
			r := strictjson.Borrow([]byte(`{"a":[1,{"b":2}]}`), depth, false)
			if r.Value() == nil || !r.End() {
				t.Error("refused")
			}
			r.GiveBack()
		}))
	}
	if fewest > 1 {
		t.Errorf("%v allocations", fewest)
	}
}

// FuzzReader: the readers agree, and what is refused without need is so rarely.
func FuzzReader(f *testing.F) {
	for i, text := range texts {
		f.Add([]byte(text), uint64(i), i%2 == 0)
		f.Add([]byte(text), ^uint64(0), i%2 == 1)
	}
	f.Add([]byte(members(20, `"name 3":1`)), uint64(0), false)
	f.Add([]byte(members(20, `"x":1`)), uint64(1), false)
	f.Fuzz(func(t *testing.T, text []byte, choices uint64, duplicates bool) { check(t, text, choices, duplicates) })
}

func BenchmarkReader(b *testing.B) {
	point := `{"lat":35.6897,"lon":139.6922,"label":"Tokyo \u6771","tags":["a","b"]},`
	prose := strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA", 40_000)
	for name, text := range map[string]string{"dense": "[" + strings.Repeat(point, 64<<10/len(point)) + "1]", "prose": `{"data":"` + prose + `"}`, "Japanese": `["` + strings.Repeat("東京は今日も晴れです。", 1000) + `"]`} {
		for _, duplicates := range []bool{true, false} {
			b.Run(name+"/duplicates="+strconv.FormatBool(duplicates), func(b *testing.B) {
				text := []byte(text)
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					r := strictjson.Borrow(text, depth, duplicates)
					if r.Value() == nil || !r.End() {
						b.Fatal("refused")
					}
					r.GiveBack()
				}
			})
		}
	}
}
