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

// eachWord calls use with the words of a text: runs of letters, digits and marks, in lower case and without accents. Scripts whose words no spaces
// separate have other words: each character of Chinese and Japanese; in Thai and the like, each two neighbouring letters with their marks, and
// the last one of a run. So any part of a run is found by its own words. It ends when use returns false. The words are only valid during the call.
func eachWord(text string, most int, use func(word string) bool) {
	eachFolded(fold(text, most), use)
}

// eachFolded is eachWord for a text that is folded.
func eachFolded(text string, use func(word string) bool) {
	start, running := -1, between
	for i, r := range text {
		kind := kindOf(r)
		if kind == running && kind != wholeWord {
			continue
		}
		if start >= 0 && !useRun(text[start:i], running, use) {
			return
		}
		start, running = i, kind
		if kind == between {
			start = -1
		}
	}
	if start >= 0 {
		useRun(text[start:], running, use)
	}
}

func useRun(run string, kind kind, use func(word string) bool) bool {
	if kind == unspaced {
		return eachPair(run, use)
	}
	return use(cutWord(run))
}

// eachPair calls use with each two neighbouring letters of a run with their marks, and with the last one. It returns false if use does.
func eachPair(run string, use func(word string) bool) bool {
	from, second := 0, afterLetter(run, 0)
	for second < len(run) {
		end := afterLetter(run, second)
		if !use(cutWord(run[from:end])) {
			return false
		}
		from, second = second, end
	}
	return use(cutWord(run[from:]))
}

// afterLetter returns where the letter at start and its marks end.
func afterLetter(text string, start int) int {
	for i, r := range text[start:] {
		if i > 0 && !unicode.IsMark(r) {
			return start + i
		}
	}
	return len(text)
}

// fold returns the first bytes of a text in lower case, without accents, and with the letters that stand for others.
func fold(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	ascii := true
	for i := 0; ascii && i < len(text); i++ {
		ascii = text[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(text)
	}
	text = norm.NFKD.String(text)
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		r = unicode.ToLower(r)
		if isAccent(r) {
			continue
		}
		if plain, found := plainLetters[r]; r > utf8.RuneSelf && found {
			b.WriteString(plain)
			continue
		}
		b.WriteRune(r)
	}
	return norm.NFC.String(b.String()) // the syllables of Korean
}

// plainLetters are what people write who don't have a letter on their keyboards, and which no decomposition of Unicode has.
var plainLetters = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'ħ': "h", 'ı': "i", 'ł': "l", 'þ': "th", 'ŧ': "t", 'ς': "σ",
}

// isAccent reports whether a character is a mark of a letter of the Latin, Greek, Cyrillic, Hebrew or Arabic script. Marks of other scripts
// are vowels, or make other letters.
func isAccent(r rune) bool {
	switch {
	case r < 0x300:
		return false
	case r < 0x700, 0x1AB0 <= r && r < 0x1B00, 0x1DC0 <= r && r < 0x1E00, 0x20D0 <= r && r < 0x2100, 0xFE20 <= r && r < 0xFE30:
		return unicode.Is(unicode.M, r)
	}
	return false
}

// kind is what a character in lower case is for words.
type kind int

const (
	between kind = iota
	inWord
	wholeWord // a word of its own
	unspaced  // in a run of words without spaces
)

// firstUnspaced is before the scripts that have other kinds than inWord.
const firstUnspaced = 0x0E00

func kindOf(r rune) kind {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		return inWord
	case r < utf8.RuneSelf:
		return between
	case !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r):
		return between
	case r < firstUnspaced, unicode.IsDigit(r):
		return inWord
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return wholeWord
	case unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet,
		unicode.Javanese, unicode.Balinese, unicode.Ahom):
		return unspaced
	}
	return inWord
}

// firstKind is the kind of the first character of a word.
func firstKind(word string) kind {
	r, _ := utf8.DecodeRuneInString(word)
	return kindOf(r)
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
	eachFolded(fold(query, maxQueryText), func(word string) bool {
		if !seen[word] {
			seen[word] = true
			words = append(words, strings.Clone(word))
		}
		return len(words) < maxQueryWords
	})
	return words
}
