package demo

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// commonWords are English stop words.
const commonWords = ` a about after all also an and any are as at be because been but by can could
 did do for from had has have he her his how i if in into is it its just like may me more most my no
 not of on one only or other our out over she so some such than that the their them then there these
 they this to up was we were what when which who will with would you your `

var blankLine = regexp.MustCompile(`\n[ \t\r]*\n`)

// A sentence is a candidate for the summary.
type sentence struct {
	text  string
	words []string // without stop words and repetitions
	taken bool
}

// A summary is the input of summarize.
type summary struct {
	Text      string `json:"text"`
	Sentences int    `json:"sentences"`
}

// summarize selects the sentences whose words are frequent in the text and not yet in the summary
// (SumBasic: Nenkova and Vanderwende, "The Impact of Frequency on Summarization", 2005), with the
// word and sentence boundaries of Unicode (UAX #29).
func summarize(in summary) (any, *failure) {
	sentences, frequency := readSentences(in.Text)
	want := min(max(in.Sentences, 1), 20, len(sentences))
	for range want {
		best := slices.IndexFunc(sentences, func(s sentence) bool { return !s.taken })
		for i, s := range sentences {
			if !s.taken && s.score(frequency) > sentences[best].score(frequency) {
				best = i
			}
		}
		sentences[best].taken = true
		for _, word := range sentences[best].words {
			frequency[word] *= frequency[word] // words in the summary count less
		}
	}

	kept := make([]string, 0, want)
	for _, s := range sentences {
		if s.taken {
			kept = append(kept, s.text)
		}
	}
	return struct {
		Summary         string `json:"summary"`
		Sentences       int    `json:"sentences"`
		SentencesInText int    `json:"sentences_in_text"`
	}{strings.Join(kept, " "), len(kept), len(sentences)}, nil
}

// readSentences splits a text into sentences, and returns the relative frequency of each word that is
// not a stop word.
func readSentences(text string) ([]sentence, map[string]float64) {
	texts := splitSentences(text)
	sentences := make([]sentence, 0, len(texts))
	frequency := make(map[string]float64)
	total := 0
	for _, text := range texts {
		seen := make(map[string]bool)
		for _, word := range significantWords(text) {
			frequency[word]++
			total++
			seen[word] = true
		}
		sentences = append(sentences, sentence{text: text, words: slices.Sorted(maps.Keys(seen))})
	}
	for word := range frequency {
		frequency[word] /= float64(total)
	}
	return sentences, frequency
}

// splitSentences splits a text at blank lines and at the ends of sentences.
func splitSentences(text string) []string {
	var sentences []string
	for _, paragraph := range blankLine.Split(text, -1) {
		// In Unicode, a line break ends a sentence; here it may wrap a line.
		rest := strings.Join(strings.Fields(paragraph), " ")
		for state := -1; rest != ""; {
			var s string
			s, rest, state = uniseg.FirstSentenceInString(rest, state)
			sentences = append(sentences, strings.TrimSpace(s))
		}
	}
	return sentences
}

// significantWords returns the words of a text in lower case, without stop words.
func significantWords(text string) []string {
	var words []string
	for state := -1; text != ""; {
		var word string
		word, text, state = uniseg.FirstWordInString(text, state)
		first, _ := utf8.DecodeRuneInString(word)
		if !unicode.IsLetter(first) {
			continue
		}
		if word = strings.ToLower(word); !strings.Contains(commonWords, " "+word+" ") {
			words = append(words, word)
		}
	}
	return words
}

// score returns the mean frequency of a sentence's words.
func (s sentence) score(frequency map[string]float64) float64 {
	if len(s.words) == 0 {
		return 0
	}
	sum := 0.0
	for _, word := range s.words {
		sum += frequency[word]
	}
	return sum / float64(len(s.words))
}
