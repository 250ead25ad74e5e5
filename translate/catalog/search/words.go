package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Bounds of searches, since providers and agents choose the texts.
const (
	maxText       = 4 << 10 // bytes of a text that are searched
	maxQueryText  = 1 << 10 // bytes of a query that count
	maxQueryWords = 16      // words of a query that count
	maxWord       = 64      // bytes; longer words are cut

	// All skills share these numbers of words in an index. Each may have at least leastOwn and at most mostOwn. A new word
	// is one that no skill before has.
	maxWords    = 1 << 19
	maxNewWords = 1 << 17
	leastOwn    = 16
	mostOwn     = 512
)

// eachWord calls use with the words of a text: runs of letters, digits and marks, in lower case. A Chinese or Japanese
// character is a word of its own, since spaces do not separate the words of these languages. It ends when use returns false.
// The words are only valid during the call.
func eachWord(text string, most int, use func(word string) bool) {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	text = strings.ToLower(norm.NFKC.String(text))
	start := -1
	for i, r := range text {
		kind := kindOf(r)
		if kind == inWord {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 && !use(cutWord(text[start:i])) || kind == wholeWord && !use(text[i:i+utf8.RuneLen(r)]) {
			return
		}
		start = -1
	}
	if start >= 0 {
		use(cutWord(text[start:]))
	}
}

// kind is what a character in lower case is for words.
type kind int

const (
	between kind = iota
	inWord
	wholeWord
)

func kindOf(r rune) kind {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		return inWord
	case r < utf8.RuneSelf:
		return between
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return wholeWord
	case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r):
		return inWord
	}
	return between
}

func cutWord(word string) string {
	if len(word) <= maxWord {
		return word
	}
	return strings.ToValidUTF8(word[:maxWord], "")
}

// queryWords returns the words of a query that count, each once.
func queryWords(query string) []string {
	var words []string
	seen := map[string]bool{}
	eachWord(query, maxQueryText, func(word string) bool {
		if !seen[word] {
			seen[word] = true
			words = append(words, strings.Clone(word))
		}
		return len(words) < maxQueryWords
	})
	return words
}
