package search

import (
	"bytes"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Texts are the texts of a skill.
type Texts struct {
	Name               string
	Tags               []string
	Further            []string // tags that may become known later (see [Renewed])
	Title, Description string
}

// TagsIn returns the tags in members that the protocol does not define.
func TagsIn(members jsontext.Value) []string {
	if !bytes.Contains(members, []byte(`"tags"`)) {
		return nil
	}
	var more struct {
		Tags []string `json:"tags"`
	}
	if json.Unmarshal(members, &more) != nil {
		return nil
	}
	return more.Tags
}

// field is a text of a skill that searches consider.
type field uint32

// The fields, in the order of their weights.
const (
	nameField field = iota
	tagField
	titleField
	descriptionField

	fieldBits = 2
)

// weight is what a word in a field counts.
func (f field) weight() uint32 { return 8 >> f }

// posting is an occurrence of a word: the index of a skill and the field of the greatest weight that has the word.
type posting uint32

func (p posting) skill() uint32 { return uint32(p >> fieldBits) }
func (p posting) field() field  { return field(p & (1<<fieldBits - 1)) }

// Index finds the skills that have a word. It takes 4 bytes for each word of a skill, some 36 bytes for each different
// word, and 28 bytes for each skill. It is immutable.
//
// The words are sorted, so that a search for words that begin with a text, or that are similar to it, can use them, too.
type Index struct {
	skills   int
	words    []string
	ends     []uint32  // of the postings of each word, after a 0
	postings []posting // by word, by skill

	exact []names // by skill
	given []int   // by skill: the number that it was given with
}

// names are hashes of the words of a name, of those after its first separator, and of those after its last one.
type names [3]uint64

// NewIndex makes the index of the texts of skills. The description of a skill is what is cut if it has too many words. In the index, the skills are in
// the natural order of their names, so that those of equal rank are found in this order.
func NewIndex(skills int, texts func(i int) Texts) *Index {
	all, given := make([]Texts, skills), make([]int, skills)
	for i := range all {
		all[i], given[i] = texts(i), i
	}
	slices.SortStableFunc(given, func(a, b int) int { return Natural(all[a].Name, all[b].Name) })
	b := builder{found: map[string][]posting{}}
	exact := make([]names, skills)
	share := func(all int) int { return min(max(all/max(skills, 1), leastOwn), mostOwn) }
	for i, number := range given {
		b.skill, b.left, b.leftNew = uint32(i), share(maxWords), share(maxNewWords)
		t := &all[number]
		exact[i] = namesOf(t.Name)
		b.add(nameField, t.Name)
		for _, tag := range slices.Concat(t.Tags, t.Further) {
			b.add(tagField, tag)
		}
		b.add(titleField, t.Title)
		b.add(descriptionField, t.Description)
	}
	ix := b.index(skills)
	ix.exact, ix.given = exact, given
	return ix
}

// separators are between the parts of a name: the namespace and those that the provider's id has.
const separators = "./:"

func namesOf(name string) names {
	name = fold(name, maxText)
	first := strings.IndexAny(name, separators) + 1
	return names{hashWords(name), hashWords(name[first:]), hashWords(name[strings.LastIndexAny(name, separators)+1:])}
}

// hashWords returns a hash of the words of a text that is folded; 0: it has none.
func hashWords(text string) (sum uint64) {
	eachFolded(text, func(word string) bool {
		sum = sum*31 + maphash.String(seed, word) | 1
		return true
	})
	return sum
}

// lookUp returns the skills that have a word.
func (ix *Index) lookUp(word string) []posting {
	at, found := slices.BinarySearch(ix.words, word)
	if !found {
		return nil
	}
	return ix.postingsOf(at)
}

// postingsOf returns the skills that have the word with an index.
func (ix *Index) postingsOf(at int) []posting {
	return ix.postings[ix.ends[at]:ix.ends[at+1]]
}

// builder collects the words of skills.
type builder struct {
	found map[string][]posting // by word, by skill

	skill         uint32
	left, leftNew int // how many more words, and new words, of the skill are indexed
}

// add adds those words of a text of the skill that it does not have yet.
func (b *builder) add(f field, text string) {
	if b.left == 0 {
		return
	}
	eachWord(text, maxText, func(word string) bool {
		list := b.found[word]
		switch {
		case list == nil && b.leftNew == 0:
			return true
		case list == nil:
			b.leftNew--
			word = strings.Clone(word)
		case list[len(list)-1].skill() == b.skill:
			return true
		}
		b.found[word] = append(list, posting(b.skill)<<fieldBits|posting(f))
		b.left--
		return b.left > 0
	})
}

// index returns the index of the words that were added.
func (b *builder) index(skills int) *Index {
	ix := &Index{skills: skills, words: slices.Sorted(maps.Keys(b.found))}
	all := make([][]posting, len(ix.words))
	ix.ends = make([]uint32, 1, 1+len(ix.words))
	end := 0
	for i, word := range ix.words {
		all[i] = b.found[word]
		end += len(all[i])
		ix.ends = append(ix.ends, uint32(end)) //nolint:gosec // at most maxWords
	}
	ix.postings = slices.Concat(all...)
	return ix
}
