package front_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

func text(s string) front.Part { return front.Part{Kind: front.PartText, Text: s} }
func data(s string) front.Part {
	return front.Part{Kind: front.PartData, Data: jsontext.Value(s)}
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		name, contentType, output string
		want                      []front.Part
	}{
		{"no output", "application/json", "", nil},
		{"null", "text/plain", "null", nil},
		{"no content type", "", `{"a":1}`, []front.Part{data(`{"a":1}`)}},
		{"JSON", "application/json", `{"text":"not a file"}`, []front.Part{data(`{"text":"not a file"}`)}},
		{"JSON with a parameter", "Application/JSON; charset=utf-8", `12345678901234567890`, []front.Part{data(`12345678901234567890`)}},
		{"a string as JSON", "application/json", `"a"`, []front.Part{data(`"a"`)}},
		{"another JSON type", "application/geo+json", `[]`, []front.Part{{Kind: front.PartData, Data: jsontext.Value(`[]`), MediaType: "application/geo+json"}}},
		{"plain text", "text/plain", `"a\nb"`, []front.Part{text("a\nb")}},
		{"text", "text/markdown; charset=utf-8", `"# a"`, []front.Part{{Kind: front.PartText, Text: "# a", MediaType: "text/markdown; charset=utf-8"}}},
		{"text that is none", "text/plain", `[1]`, []front.Part{data(`[1]`)}},
		{"base64", "image/png", `"iVBORw=="`, []front.Part{{Kind: front.PartBytes, Text: "iVBORw==", MediaType: "image/png"}}},
		{"not base64", "application/xml", `"<a/>"`, []front.Part{data(`"<a/>"`)}},
		{"base64 for URLs", "image/png", `"-_-_"`, []front.Part{data(`"-_-_"`)}},
		{"a file", "image/png", `{"base64":"AAAA","filename":"../a/b.png"}`, []front.Part{{Kind: front.PartBytes, Text: "AAAA", Filename: "b.png", MediaType: "image/png"}}},
		{"a file with its type", "image/*", `{"media_type":"image/gif","url":"https://example.com/a.gif"}`, []front.Part{{Kind: front.PartURL, Text: "https://example.com/a.gif", MediaType: "image/gif"}}},
		{"a file that is text", "application/xml", `{"text":"<a/>"}`, []front.Part{{Kind: front.PartText, Text: "<a/>", MediaType: "application/xml"}}},
		{"two contents", "image/png", `{"base64":"AAAA","text":"a"}`, []front.Part{data(`{"base64":"AAAA","text":"a"}`)}},
		{"another member", "image/png", `{"base64":"AAAA","size":"3"}`, []front.Part{data(`{"base64":"AAAA","size":"3"}`)}},
		{"no content", "image/png", `{"filename":"a"}`, []front.Part{data(`{"filename":"a"}`)}},
		{"a script as URL", "image/png", `{"url":"javascript:alert(1)"}`, []front.Part{data(`{"url":"javascript:alert(1)"}`)}},
		{"a relative URL", "image/png", `{"url":"/a.png"}`, []front.Part{data(`{"url":"/a.png"}`)}},
		{"a number as file", "image/png", `1.50`, []front.Part{data(`1.50`)}},
		{"multipart", "multipart/mixed; boundary=x", ` ["a", {"text":"b","media_type":"text/html"}, {"base64":"AAAA"}, {"a":1}, null, [1.0]]`, []front.Part{
			text("a"), {Kind: front.PartText, Text: "b", MediaType: "text/html"}, {Kind: front.PartBytes, Text: "AAAA"}, data(`{"a":1}`), data("null"), data("[1.0]"),
		}},
		{"multipart that is none", "multipart/mixed", `{"a":1}`, []front.Part{data(`{"a":1}`)}},
		{"not a content type", "<script>", `"a"`, []front.Part{data(`"a"`)}},
		{"a content type with a line break", "text/html;\r\nx: y", `"a"`, []front.Part{data(`"a"`)}},
		{"a bad file name", "image/png", `{"base64":"","filename":"..","media_type":"a b"}`, []front.Part{{Kind: front.PartBytes, MediaType: "image/png"}}},
		{"a file name with a line break", "image/png", `{"base64":"","filename":"a\r\nb.png"}`, []front.Part{{Kind: front.PartBytes, Filename: "a  b.png", MediaType: "image/png"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := front.Parts(jsontext.Value(c.output), c.contentType)
			if !slices.EqualFunc(got, c.want, equal) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func equal(a, b front.Part) bool {
	return a.Kind == b.Kind && a.Text == b.Text && string(a.Data) == string(b.Data) && a.Filename == b.Filename && a.MediaType == b.MediaType
}

// TestPartsOfLongArray: an array with very many elements is one part, so that the parts take little more memory than
// the array.
func TestPartsOfLongArray(t *testing.T) {
	output := jsontext.Value("[" + strings.Repeat("0,", 1_000_000) + "0]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	parts := front.Parts(output, "multipart/mixed")
	runtime.ReadMemStats(&after)
	if len(parts) != 1 || &parts[0].Data[0] != &output[0] {
		t.Errorf("got %d parts", len(parts))
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > uint64(len(output)) {
		t.Errorf("%d bytes were allocated for an array of %d", allocated, len(output))
	}
}

func TestBase64(t *testing.T) {
	for _, c := range []struct {
		text, strict, lenient string // "-": refused
	}{
		{"", "", ""},
		{"AAAA", "AAAA", "AAAA"},
		{"AAA=", "AAA=", "AAA="},
		{"AA==", "AA==", "AA=="},
		{"AAA", "-", "AAA="},
		{"AA", "-", "AA=="},
		{"-_8", "-", "+/8="},
		{"-_-_", "-", "+/+/"},
		{"+/+/", "+/+/", "+/+/"},
		{"A", "-", "-"},
		{"AAAAA", "-", "-"},
		{"A===", "-", "-"},
		{"AA=", "-", "-"},
		{"AAAA=", "-", "-"},
		{"AAAA==", "-", "-"},
		{"====", "-", "-"},
		{"AA\nAA", "-", "-"},
		{"AA A", "-", "-"},
		{"AÄ==", "-", "-"},
	} {
		for lenient, want := range map[bool]string{false: c.strict, true: c.lenient} {
			got, ok := front.Base64([]byte(c.text), lenient)
			if !ok {
				got = "-"
			}
			if got != want {
				t.Errorf("%q, lenient %v: got %q, want %q", c.text, lenient, got, want)
			}
		}
	}
}

func FuzzParts(f *testing.F) {
	f.Add([]byte(`[{"text":"b","media_type":"text/html"},{"base64":"AAAA"},{"url":"https://a/"}]`), "multipart/mixed")
	f.Add([]byte(`{"base64":"AAAA","filename":"a"}`), "image/png")
	f.Add([]byte(`"\ud83d\ude00"`), "text/plain")
	f.Fuzz(func(t *testing.T, output []byte, contentType string) {
		value := jsontext.Value(output)
		if !value.IsValid(jsontext.AllowDuplicateNames(true)) {
			front.Parts(value, contentType)
			return
		}
		before := string(output)
		for _, p := range front.Parts(value, contentType) {
			switch p.Kind {
			case front.PartData:
				if !p.Data.IsValid(jsontext.AllowDuplicateNames(true)) {
					t.Errorf("data is %q", p.Data)
				}
			case front.PartBytes:
				if _, ok := front.Base64([]byte(p.Text), false); !ok {
					t.Errorf("bytes are %q", p.Text)
				}
			case front.PartText, front.PartURL:
			default:
				t.Errorf("a part of kind %d", p.Kind)
			}
			for _, s := range []string{p.Filename, p.MediaType} {
				if strings.ContainsAny(s, "\r\n\x00") || len(s) > 1000 {
					t.Errorf("%q", s)
				}
			}
		}
		if string(output) != before {
			t.Error("the output has changed")
		}
	})
}
