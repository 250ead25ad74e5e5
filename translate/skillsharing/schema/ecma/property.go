package ecma

import (
	"cmp"
	"unicode"
)

// category returns the class of a general category by its short or long name, or of one of the properties that Go has; empty: it has none.
func category(name string) string {
	name = cmp.Or(unicode.CategoryAliases[name], name)
	if unicode.Categories[name] == nil && name != "Any" && name != "ASCII" && name != "Assigned" {
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
