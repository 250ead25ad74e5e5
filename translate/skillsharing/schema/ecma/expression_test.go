package ecma_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/ecma"
)

// meanings are expressions that are evaluated, with texts that they match and texts that they don't, as Node.js says with the flag u, or
// without it if only that is legal.
var meanings = []struct {
	expression string
	match, not []string
}{
	{``, []string{"", "a"}, nil},
	{`^[a-z0-9-]{1,63}$`, []string{"a-1"}, []string{"", "A"}},
	{`^\d+\s€$`, []string{"10 €", "10\u00a0€", "10\u3000€", "10\ufeff€", "1\v€", "1\u2028€"}, []string{"10€", "10\u200b€", "10\u0085€", "٣ €"}},
	{`^\S+$`, []string{"a\u200bb", "\u0085"}, []string{"a\u00a0b", "\u2029", "\ufeff"}},
	{`^[^\s]$`, []string{"a"}, []string{"\u3000"}},
	{`^[\s\d]+$`, []string{"1\u00a0"}, []string{"a"}},
	{`^[^\S]$`, []string{"\u1680"}, []string{"a"}},
	{`^.$`, []string{"a", "😀", "\u0085"}, []string{"\n", "\r", "\u2028", "\u2029", ""}},
	{`^[^]$`, []string{"\n", "a"}, []string{""}},
	{`[]`, nil, []string{"", "a"}},
	{`^a[]|b$`, []string{"b"}, []string{"a"}},
	{`a$`, []string{"a"}, []string{"a\n"}},
	{`^\cJ\ca$`, []string{"\n\x01"}, []string{"cJca"}},
	{`^\u0041\x42\u{43}\u{1F600}\uD83D\uDE00$`, []string{"ABC😀😀"}, nil},
	{`^[\uD83D\uDE00-\u{1F64F}]$`, []string{"😀", "😁"}, []string{"a"}},
	{`^[^\uD800-\uDFFF]+$`, []string{"a😀"}, []string{""}},
	{`^[\u4e00-\u9fa5]+$`, []string{"中"}, []string{"x"}},
	{`^\0[\0]$`, []string{"\x00\x00"}, []string{"0"}},
	{`^\/\.\$[\-\]]$`, []string{"/.$-", "/.$]"}, nil},
	{`^\-\_\ \@$`, []string{"-_ @"}, nil},
	{`^[A\b]+$`, []string{"A\b"}, []string{"b"}},
	{`^(?<año>a)(?<$_1>b)(?<\u{61}>c)$`, []string{"abc"}, nil},
	{`^(?:(?<y>\d)-x|y-(?<y>\d))$`, []string{"1-x", "y-1"}, nil},
	{`^\p{L}\p{Letter}\p{Lu}\p{General_Category=Ll}\p{gc=Decimal_Number}$`, []string{"éßÉé٣"}, []string{"éßéé٣"}},
	{`^[\p{Script=Greek}\p{sc=Cyrillic}]+$`, []string{"αж"}, []string{"a"}},
	{`^\P{L}[^\p{L}][\P{L}]$`, []string{"123"}, []string{"a23"}},
	{`^\p{Any}\p{ASCII}\p{Assigned}$`, []string{"\nza"}, nil},
	{`^a{0,1000}b{1000,}$`, []string{strings.Repeat("b", 1000)}, []string{strings.Repeat("b", 999)}},
	{`^a{2}b{1,}c{0,1}$`, []string{"aabb"}, []string{"abc"}},
	{`^a{,2}$`, []string{"a{,2}"}, []string{"aa"}},
	{`^x{y}{$`, []string{"x{y}{"}, nil},
	{`^a+?b??c{1,2}?$`, []string{"aac"}, []string{"b"}},
	{`^\bfoo\b$`, []string{"foo"}, []string{"foox"}},
	{`^\A\Z\z\Q\E$`, []string{"AZzQE"}, []string{"", "Z"}},
	{`^[[:alpha:]]$`, []string{"a]", ":]", "[]"}, []string{"a", "b"}},
	{`^[a&&b]$`, []string{"&"}, []string{"c"}},
	{`^[\w-\d]$`, []string{"-", "1"}, []string{"."}},
	{`^]}$`, []string{"]}"}, nil},
	{`^[a-]$`, []string{"-"}, []string{"b"}},
	{`^a|b$`, []string{"ax", "xb"}, []string{"xa"}},
	{`^(a*)*$`, []string{"aaa", ""}, []string{"b"}},
	{`^\w\W\d\D$`, []string{"a!1é"}, []string{"é!1a"}},
}

func TestMeanings(t *testing.T) {
	for _, c := range meanings {
		x, err := ecma.Translate(c.expression)
		if err != nil || x.Obstacle != "" {
			t.Errorf("%s: %v %s", c.expression, err, x.Obstacle)
			continue
		}
		re, err := regexp.Compile(x.Text)
		if err != nil {
			t.Errorf("%s: %v", c.expression, err)
			continue
		}
		for _, text := range append(slices.Clone(c.match), c.not...) {
			if got := re.MatchString(text); got != slices.Contains(c.match, text) {
				t.Errorf("%s (%s) and %.20q: got %t", c.expression, x.Text, text, got)
			}
		}
	}
}

// obstacles are legal expressions that package regexp can't evaluate.
var obstacles = []string{
	`^[a-z0-9-]{1,63}(?<!-)$`, `(?<=a)b`, `(?=a)`, `(?!a)b`, `(?=a)*`, `^(?!.*\.\.)(?!.*\.$)[^\W][\w.]{0,29}$`, `(a)\1`, `\1(a)`, `(?<n>a)\k<n>`, `\k<n>(?<n>a)`, `(?<n>a)|(?<n>b)\k<n>`,
	`\c`, `\101`, `[\c_]`, `[\18]`, `\k`, `a{2,1}`, `\p{sc=Cyrl}`, `\p{Script_Extensions=Latin}`, `\p{scx=Grek}`, `\p{Emoji}`, `\p{Foo}`, `\P{Alphabetic}`, `\pL`, `\-\p{L}`, `\-\u{61}`, `\ud83d`, `[\ud83d]`, `\ude00`, `😀\-`, `(?m:^a$)`, `(?i:\P{Lu})`, `(?s:.)`, `(?-i:a)`, `(?im-s:a)`, `\p{Alphabetic}`, `\p{White_Space}`, `a{0,2500}`, `a{1200,}`,
	`a{1000000000000000000000}`, `[a-z]{0,100000}`, strings.Repeat(`\p{Alphabetic}`, 20),
}

// illegal expressions are refused.
var illegal = []string{
	`(`, `)`, `a)`, `(?`, `(?:`, `(?a)`, `[`, `[a`, `[^`, `[a-`, `[z-a]`, `[b-a]`, `\`, `[\`, `*`, `+`, `?`, `a**`, `a+*`, `a???`, `|*`, `(*a)`, `{1}`, `a{1}{2}`,
	`(?<>a)`, `(?<a`,
	`(?P<n>a)`, `(?P=n)`, `(?i)a`, `(?i`, `(?-:a)`, `(?x:a)`, `(?>a)`, `(?#c)`, `(?'n'a)`, `(?|a)`, `(?R)`,
}

func TestLegality(t *testing.T) {
	for _, expression := range obstacles {
		x, err := ecma.Translate(expression)
		if tree, bad := x.Parse(); err != nil || bad != nil || tree != nil {
			t.Errorf("%.60s: %v, %v, %+v", expression, err, bad, x)
		}
	}
	for _, expression := range append(illegal, strings.Repeat("a", ecma.MaxBytes+1)) {
		x, err := ecma.Translate(expression)
		if err == nil {
			_, err = x.Parse()
		}
		if err == nil {
			t.Errorf("%.60s is legal: %+v", expression, x)
		}
	}
	for expression, want := range map[string]string{`(?P<n>a)`: "(?<name>", `(?i)a`: "(?i:"} {
		if _, err := ecma.Translate(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say what to write", expression, err)
		}
	}
}

// FuzzPattern: what is translated is bounded, and can be parsed or is refused without a panic.
func FuzzPattern(f *testing.F) {
	for _, c := range meanings {
		f.Add(c.expression)
	}
	for _, expression := range slices.Concat(obstacles, illegal) {
		f.Add(expression)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		x, err := ecma.Translate(expression)
		if err != nil {
			return
		}
		if len(x.Text) > 64<<10 {
			t.Errorf("%q becomes %d bytes", expression, len(x.Text))
		}
		if tree, err := x.Parse(); tree != nil && err != nil {
			t.Errorf("%q: a tree and %v", expression, err)
		}
	})
}
