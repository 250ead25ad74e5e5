package ecma

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"unicode"
)

// category returns the class of a general category by its short or long name; empty: it has none.
func category(name string) string {
	name = cmp.Or(unicode.CategoryAliases[name], name)
	if unicode.Categories[name] == nil {
		return ""
	}
	return `\p{` + name + `}`
}

// scriptNames are the names of scripts by their codes. Go does not know the codes; here are those of living scripts with many users.
var scriptNames = map[string]string{
	"Arab": "Arabic", "Armn": "Armenian", "Beng": "Bengali", "Cyrl": "Cyrillic", "Deva": "Devanagari", "Ethi": "Ethiopic", "Geor": "Georgian", "Grek": "Greek",
	"Gujr": "Gujarati", "Guru": "Gurmukhi", "Hang": "Hangul", "Hani": "Han", "Hebr": "Hebrew", "Hira": "Hiragana", "Kana": "Katakana", "Khmr": "Khmer", "Knda": "Kannada",
	"Laoo": "Lao", "Latn": "Latin", "Mlym": "Malayalam", "Mymr": "Myanmar", "Sinh": "Sinhala", "Taml": "Tamil", "Telu": "Telugu", "Thai": "Thai", "Tibt": "Tibetan",
	"Zyyy": "Common", "Zinh": "Inherited", "Qaai": "Inherited",
}

// script returns the class of a script; empty: it has none.
func script(name string) string {
	name = cmp.Or(scriptNames[name], name)
	if unicode.Scripts[name] == nil {
		return ""
	}
	return `\p{` + name + `}`
}

// binaryNames are the long names of binary properties by their short ones.
var binaryNames = map[string]string{"Alpha": "Alphabetic", "Lower": "Lowercase", "Upper": "Uppercase", "space": "White_Space", "Hex": "Hex_Digit", "AHex": "ASCII_Hex_Digit", "Ideo": "Ideographic"}

// binary returns the class of a binary property; empty: it has none.
func binary(name string) string { return binaries()[cmp.Or(binaryNames[name], name)] }

var binaries = sync.OnceValue(func() map[string]string {
	all := map[string]string{
		"Any": `\p{Any}`, "ASCII": `\p{ASCII}`, "Assigned": `\p{Assigned}`,
		"Alphabetic": `\p{L}\p{Nl}` + ranges(unicode.Other_Alphabetic),
		"Lowercase":  `\p{Ll}` + ranges(unicode.Other_Lowercase),
		"Uppercase":  `\p{Lu}` + ranges(unicode.Other_Uppercase),
	}
	for _, name := range []string{"White_Space", "Hex_Digit", "ASCII_Hex_Digit", "Ideographic"} {
		all[name] = ranges(unicode.Properties[name])
	}
	return all
})

// ranges returns the characters of a table for use within a class.
func ranges(table *unicode.RangeTable) string {
	var b strings.Builder
	write := func(lo, hi, stride uint32) {
		if stride == 1 {
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, lo, hi)
			return
		}
		for c := lo; c <= hi; c += stride {
			fmt.Fprintf(&b, `\x{%x}`, c)
		}
	}
	for _, r := range table.R16 {
		write(uint32(r.Lo), uint32(r.Hi), uint32(r.Stride))
	}
	for _, r := range table.R32 {
		write(r.Lo, r.Hi, r.Stride)
	}
	return b.String()
}
