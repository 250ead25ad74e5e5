package safetext_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                                      "",
		"four":                                  "four",
		"fives":                                 "fiv…",
		"äöüß":                                  "äöüß",
		"äöüßä":                                 "äöü…",
		"a\r\nb":                                "a  b",
		"a\x00b\x1b":                            "a b ",
		"a\u2028b":                              "a b",
		"a\u202eb":                              "ab",
		"\ufeffa\u2066b\u00adc\u200ed":          "abcd",
		"\ufeffa\u2066b\u00adcde":               "abc…",
		"\xff":                                  "\ufffd",
		"\u2764\ufe0fb\u3164\U000e0100c":        "\u2764bc",
		"👩\u200d🔬":                              "👩\u200d🔬",
		strings.Repeat("\u202e", 1000):          "…",
		"abcd" + strings.Repeat("\u202e", 1000): "abc…",
	} {
		if got := safetext.Line(in, 4); got != want {
			t.Errorf("%.20q: %q, not %q", in, got, want)
		}
	}
}

// FuzzLine checks the guarantees of Line for any text.
func FuzzLine(f *testing.F) {
	f.Add("a\u202eb\r\n\xff", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 1 + max(limit, -limit, 0)%100
		line := safetext.Line(s, limit)
		if !utf8.ValidString(line) || utf8.RuneCountInString(line) > limit || strings.ContainsAny(line, "\r\n\x1b\u202e\u2028") {
			t.Errorf("%q, %d: %q", s, limit, line)
		}
		if again := safetext.Line(line, limit); again != line {
			t.Errorf("%q becomes %q", line, again)
		}
	})
}
