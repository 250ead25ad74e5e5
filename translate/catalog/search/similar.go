package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// matched are the skills that have a word of the index which a word of a query means. A similar word counts half.
type matched struct {
	postings []posting
	factor   uint32
}

// The factors of words of the index.
const (
	similarFactor = 1
	sameFactor    = 2
)

// Bounds of the words of an index that one word of a query means besides itself.
const (
	maxSimilar = 64      // words
	maxScanned = 1 << 14 // words that are compared
	leastTypo  = 4       // bytes of a word that may be misspelt
	maxTypos   = 3       // words of a query that may be misspelt
)

// matches returns the skills that have the word, and those that have a word with the same stem or that begins with it.
func (ix *Index) matches(word string, scope *Scope) []matched {
	var list []matched
	if same := ix.lookUp(word); same != nil {
		list = append(list, matched{same, sameFactor})
	}
	if utf8.RuneCountInString(word) < 2 && firstKind(word) != unspaced {
		return list
	}
	root := stem(word)
	at, _ := slices.BinarySearch(ix.words, root)
	return ix.similar(list, at, scope, func(other string) (factor uint32, more bool) {
		if !strings.HasPrefix(other, root) {
			return 0, false
		}
		switch {
		case other == word:
		case strings.HasPrefix(other, word):
			if !endsIn(word, other[len(word):]) {
				return similarFactor, true
			}
		case stem(other) == root && sameNumbers(word, other):
			return similarFactor, true
		}
		return 0, true
	})
}

// misspelt returns the skills that have a word which differs from the word by one typo. A typo is a character that is missing, added or
// replaced, or two that are swapped. Words whose stem
// differs so count, too. The first byte must be right, and for stems the second.
func (ix *Index) misspelt(word string, scope *Scope) []matched {
	at, _ := slices.BinarySearch(ix.words, word[:1])
	root := stem(word)
	return ix.similar(nil, at, scope, func(other string) (factor uint32, more bool) {
		if (oneTypo(word, other) || strings.HasPrefix(other, word[:2]) && oneTypo(root, stem(other))) && sameNumbers(word, other) {
			return similarFactor, true
		}
		return 0, other[0] == word[0]
	})
}

// similar adds the skills of the words from an index on for which factor returns more than 0, until it says that there are no more. There are at
// most as many occurrences as the index has skills. Words that no visible skill has are not considered.
func (ix *Index) similar(list []matched, at int, scope *Scope, factor func(other string) (factor uint32, more bool)) []matched {
	left := ix.skills
	for i := at; i < min(len(ix.words), at+maxScanned) && len(list) < maxSimilar; i++ {
		counts, more := factor(ix.words[i])
		if !more {
			break
		}
		if counts == 0 {
			continue
		}
		found := ix.postingsOf(i)
		if len(found) <= left && scope.having(found) > 0 {
			left -= len(found)
			list = append(list, matched{found, counts})
		}
	}
	return list
}

// misspellable reports whether a word may have a typo. Characters and pairs of letters that are words have no beginnings or ends that would be right.
func misspellable(word string) bool { return len(word) >= leastTypo && firstKind(word) == inWord }

// sameNumbers reports whether another word has the numbers of a word, and perhaps more after them.
func sameNumbers(word, other string) bool {
	for {
		if word = word[endOf(word, false):]; word == "" {
			return true
		}
		other = other[endOf(other, false):]
		number := endOf(word, true)
		if number != endOf(other, true) || word[:number] != other[:number] {
			return false
		}
		word, other = word[number:], other[number:]
	}
}

// endsIn reports whether a word ends within a number, which the rest of a longer word continues.
func endsIn(word, rest string) bool {
	last, _ := utf8.DecodeLastRuneInString(word)
	next, _ := utf8.DecodeRuneInString(rest)
	return isNumeral(last) && isNumeral(next)
}

func isNumeral(r rune) bool { return '0' <= r && r <= '9' || r >= utf8.RuneSelf && unicode.IsDigit(r) }

// endOf returns where the digits, or the other characters, at the beginning of a text end.
func endOf(text string, digits bool) int {
	for i, r := range text {
		if isNumeral(r) != digits {
			return i
		}
	}
	return len(text)
}

// suffixes are endings of English words, the longest of those with a common end first.
var suffixes = []string{
	"izations", "ization", "isations", "isation", "izers", "izer", "isers", "iser", "izing", "ising", "izes", "ises", "ized", "ised", "ize", "ise",
	"ators", "ator", "ations", "ation", "ating", "ates", "ated", "ate", "ysis", "yses", "yzing", "ysing", "yzer", "yzes", "yzed", "yze", "yse", "ings", "ing", "ions", "ion", "ies", "ied", "ers", "er", "ed", "es", "e", "s", "y",
}

// leastStem is how many bytes of a word are left without its ending.
const leastStem = 3

// stem returns a word without its ending: words with the same stem mean nearly the same.
func stem(word string) string {
	for _, suffix := range suffixes {
		if len(word)-len(suffix) >= leastStem && strings.HasSuffix(word, suffix) {
			return word[:len(word)-len(suffix)]
		}
	}
	return word
}

// oneTypo reports whether two different words differ by one typo.
func oneTypo(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > utf8.UTFMax {
		return false
	}
	x, y := []rune(a), []rune(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	start := 0
	for start < len(x) && x[start] == y[start] {
		start++
	}
	end := 0
	for end < len(x)-start && x[len(x)-1-end] == y[len(y)-1-end] {
		end++
	}
	x, y = x[start:len(x)-end], y[start:len(y)-end]
	switch {
	case len(y) == 1:
		return true // missing, added or replaced
	case len(x) == 2 && len(y) == 2:
		return x[0] == y[1] && x[1] == y[0]
	}
	return false
}
