package demo

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

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

// summarize selects the sentences whose words are frequent in the text and not yet in the summary, as SumBasic does
// (Nenkova and Vanderwende, "The Impact of Frequency on Summarization", 2005), with the sentence boundaries of Unicode (UAX #29).
func summarize(in summary) (any, *failure) {
	sentences, frequency := readSentences(in.Text)
	score := func(s *sentence) (mean float64) {
		for _, word := range s.words {
			mean += frequency[word] / float64(len(s.words))
		}
		return mean
	}
	want := min(max(in.Sentences, 1), 20, len(sentences))
	for range want {
		best := slices.IndexFunc(sentences, func(s *sentence) bool { return !s.taken })
		for i, s := range sentences {
			if !s.taken && score(s) > score(sentences[best]) {
				best = i
			}
		}
		sentences[best].taken = true
		for _, word := range sentences[best].words {
			frequency[word] /= 8 // words in the summary count less
		}
	}
	kept := make([]string, 0, want)
	for _, s := range sentences {
		if s.taken {
			kept = append(kept, s.text)
		}
	}
	return struct { // in this order
		Summary         string `json:"summary"`
		Sentences       int    `json:"sentences"`
		SentencesInText int    `json:"sentences_in_text"`
	}{strings.Join(kept, " "), len(kept), len(sentences)}, nil
}

// readSentences splits a text at blank lines and at the ends of sentences, and counts each word that is not a stop word.
func readSentences(text string) (sentences []*sentence, frequency map[string]float64) {
	frequency = map[string]float64{}
	for _, paragraph := range blankLine.Split(text, -1) {
		rest := strings.Join(strings.Fields(paragraph), " ") // in Unicode, a line break ends a sentence; here it may wrap a line
		for state := -1; rest != ""; {
			s := new(sentence)
			s.text, rest, state = uniseg.FirstSentenceInString(rest, state)
			s.text = strings.TrimSpace(s.text)
			s.words = strings.FieldsFunc(strings.ToLower(s.text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '\'' })
			s.words = slices.DeleteFunc(s.words, func(word string) bool { return strings.Contains(commonWords, " "+word+" ") })
			for _, word := range s.words {
				frequency[word]++
			}
			slices.Sort(s.words)
			s.words = slices.Compact(s.words)
			sentences = append(sentences, s)
		}
	}
	return sentences, frequency
}
