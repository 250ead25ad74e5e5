package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// matched are the skills that have a word of the index which a word of a query means. A similar word counts half, and one that is only near to
// the beginning or the stem of another a quarter.
type matched struct {
	postings []posting
	factor   uint32
}

// The factors of words of the index.
const (
	nearFactor    = 1
	similarFactor = 2
	sameFactor    = 4
)

// Bounds of the words of an index that one word of a query means besides itself.
const (
	maxSimilar = 64      // words
	maxScanned = 1 << 14 // words that are compared
	maxNear    = 1 << 12 // words whose beginnings and stems are compared
	leastTypo  = 4       // bytes of a word that may be misspelt
	leastNear  = 5       // bytes of a word whose beginning or stem may be misspelt
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
// replaced, or two that are swapped. Words that begin with a word that differs so, words whose stem does, and words with nearly the same stem are
// near. The first byte must be right, and for near ones the second, too.
func (ix *Index) misspelt(word string, scope *Scope) []matched {
	at, _ := slices.BinarySearch(ix.words, word[:1])
	root := stem(word)
	list := ix.similar(nil, at, scope, func(other string) (factor uint32, more bool) {
		if oneTypo(word, other) && sameNumbers(word, other) {
			return similarFactor, true
		}
		return 0, other[0] == word[0]
	})
	if len(word) < leastNear {
		return list
	}
	begin := word[:2]
	at, _ = slices.BinarySearch(ix.words, begin)
	last := at + maxNear
	return ix.similar(list, at, scope, func(other string) (factor uint32, more bool) {
		if at++; at > last || !strings.HasPrefix(other, begin) {
			return 0, false
		}
		if !oneTypo(word, other) && (beginsNear(word, other) || nearStems(root, stem(other))) && sameNumbers(word, other) {
			return nearFactor, true
		}
		return 0, true
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
	"ators", "ator", "ations", "ation", "ating", "ates", "ated", "ate", "ings", "ing", "ions", "ion", "ies", "ied", "ers", "er", "ed", "es", "e", "s", "y",
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

// nearStems reports whether two different stems differ by one typo, or by few characters at their ends.
func nearStems(a, b string) bool {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	return min(len(a), len(b)) >= leastTypo && oneTypo(a, b) || same >= leastNear && len(a)+len(b)-2*same <= maxEnds
}

// maxEnds is how many bytes two stems have that only one of them has at its end.
const maxEnds = 3

// beginsNear reports whether a longer word begins with a word that differs from the word by one typo.
func beginsNear(word, longer string) bool {
	at := 0
	for at < len(word) && at < len(longer) && word[at] == longer[at] {
		at++
	}
	if at == len(word) || at >= len(longer) {
		return false
	}
	_, size := utf8.DecodeRuneInString(word[at:])
	_, other := utf8.DecodeRuneInString(longer[at:])
	rest, beyond := word[at+size:], longer[at+other:]
	if strings.HasPrefix(beyond, word[at:]) || strings.HasPrefix(longer[at:], rest) || strings.HasPrefix(beyond, rest) {
		return true // missing, added or replaced
	}
	return strings.HasPrefix(rest, longer[at:at+other]) && strings.HasPrefix(beyond, word[at:at+size]) && strings.HasPrefix(beyond[size:], rest[other:])
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
