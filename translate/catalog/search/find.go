package search

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// Scope is what a search considers of an index.
type Scope struct {
	Index *Index
	// Visible says which skills the caller may know; nil: all. What it may not know does not influence the ranks.
	Visible []bool
	// Accept says which of the visible skills may be results; nil: all.
	Accept func(i int) bool
}

// visible reports whether the caller may know a skill.
func (s *Scope) visible(skill int) bool { return s.Visible == nil || s.Visible[s.Index.given[skill]] }

// having counts the visible skills of postings.
func (s *Scope) having(postings []posting) (count int) {
	if s.Visible == nil {
		return len(postings)
	}
	for _, p := range postings {
		if s.visible(int(p.skill())) {
			count++
		}
	}
	return count
}

// Hit is a skill that was found.
type Hit struct {
	Scope, Skill int // indexes of the scope and, in it, of the skill
	Rank         uint32
	complete     bool // it has all words that are required
}

// Find returns those skills of each scope that have all words of a query and the highest ranks, at most limit of each scope. They
// are in the order of their ranks, then of the scopes and skills. A skill that lacks a word is found if no skill of its scope has
// all of them, and if it ranks above all those of other scopes that do: if no skill has all words, those with any of them are found. Few
// words, such as "the", may always be missing.
//
// First are the skills whose name, or its last part, has exactly the words of the query. The
// rank of a skill is the sum over the words that it has: the weight of the field (name 8, tags 4, title 2,
// description 1) times how rare the word is among the visible skills of all scopes. Words with the same stem, and words that begin with a word of
// the query, count half. If no visible skill has any of these, words that differ by one typo do, as they are or in their stems. A number in a word is only the same number: neither the beginning of another nor a
// typo. A query without a text matches all skills.
func Find(query string, scopes []Scope, limit int) []Hit {
	s := finder{words: queryWords(query), all: strings.TrimSpace(query) == "", limit: max(limit, 0)}
	s.exact = hashWords(fold(query, maxQueryText))
	s.require()
	s.weigh(scopes)
	hits, complete := make([]Hit, 0, len(scopes)), uint32(0)
	for i := range scopes {
		for _, h := range s.best(i, &scopes[i]) {
			if h.complete {
				complete = max(complete, h.Rank)
			}
			hits = append(hits, h)
		}
	}
	hits = slices.DeleteFunc(hits, func(h Hit) bool { return !h.complete && h.Rank <= complete })
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Rank, a.Rank) })
	return hits
}

// optional are words that say nothing about a skill.
var optional = map[string]bool{
	"a": true, "an": true, "and": true, "for": true, "from": true, "in": true, "of": true, "on": true, "or": true, "the": true, "to": true, "with": true,
}

// require sets which words a skill must have.
func (s *finder) require() {
	s.required = make([]bool, len(s.words))
	for w, word := range s.words {
		if s.required[w] = !optional[word]; s.required[w] {
			s.least++
		}
	}
	if s.least == 0 {
		for w := range s.required {
			s.required[w] = true
		}
		s.least = uint32(len(s.words)) //nolint:gosec // at most maxQueryWords
	}
}

// finder is one search.
type finder struct {
	words    []string
	required []bool // by word: a skill must have it
	least    uint32 // how many words are required
	exact    uint64 // hash of all words
	all      bool   // all skills match
	limit    int
	found    [][][]matched // by scope, by word
	rare     []uint32      // how rare each word is
}

// weigh looks up the words, and sets how rare each is.
func (s *finder) weigh(scopes []Scope) {
	skills := 0
	s.found = make([][][]matched, len(scopes))
	for i := range scopes {
		scope := &scopes[i]
		for skill := range scope.Index.skills {
			if scope.visible(skill) {
				skills++
			}
		}
		for _, word := range s.words {
			s.found[i] = append(s.found[i], scope.Index.matches(word, scope))
		}
	}
	typos := 0
	for w, word := range s.words {
		having := s.having(w, scopes)
		if having == 0 && misspellable(word) && typos < maxTypos {
			typos++
			for i := range scopes {
				s.found[i][w] = scopes[i].Index.misspelt(word, &scopes[i])
			}
			having = s.having(w, scopes)
		}
		s.rare = append(s.rare, uint32(bits.Len(uint(skills/max(min(having, skills), 1))))) //nolint:gosec // at most 64
	}
}

// having returns how many visible skills have a word, or one that is similar to it. Those that have several count several times.
func (s *finder) having(w int, scopes []Scope) (count int) {
	for i := range scopes {
		for _, m := range s.found[i][w] {
			count += scopes[i].having(m.postings)
		}
	}
	return count
}

// A rank has the sum of what the words count in its lower bits, which 16 words can't exceed. While words are counted, the number of required words is
// above it, then how exactly the query is the name.
const (
	countedBits = 24
	counted     = 1<<countedBits - 1
	wholeName   = 3 << countedBits
	ownName     = 2 << countedBits // without the namespace
	endOfName   = 1 << countedBits
)

// exactly returns what is added to the rank of a skill whose name is the query.
func (s *finder) exactly(n *names) uint32 {
	switch {
	case s.exact == 0:
		return 0
	case n[0] == s.exact:
		return wholeName
	case n[1] == s.exact:
		return ownName
	case n[2] == s.exact:
		return endOfName
	}
	return 0
}

// best returns the skills of a scope with the highest ranks.
func (s *finder) best(at int, scope *Scope) []Hit {
	rank := make([]uint32, scope.Index.skills)
	var own []uint32 // by skill, for a word that several words of the index stand for: the most that one of them counts
	for w, found := range s.found[at] {
		one := uint32(0)
		if s.required[w] {
			one = 1 << countedBits
		}
		if len(found) > 1 {
			own = make([]uint32, scope.Index.skills)
		}
		for _, m := range found {
			for _, p := range m.postings {
				counts := s.rare[w] * p.field().weight() * m.factor
				if len(found) > 1 {
					had := own[p.skill()]
					own[p.skill()] = max(counts, had)
					counts = max(counts, had) - had
					if had > 0 {
						rank[p.skill()] += counts
						continue
					}
				}
				rank[p.skill()] += counts + one
			}
		}
	}
	return s.sorted(at, scope, rank)
}

// sorted returns the skills of a scope with the highest ranks: if some have all words that are required, only those.
func (s *finder) sorted(at int, scope *Scope, rank []uint32) []Hit {
	// An order is the complement of a rank, and a skill, so that the smallest orders are those of the best skills.
	orders := make([]uint64, 0, len(rank))
	complete := false
	for i, r := range rank {
		if r == 0 && !s.all {
			continue
		}
		exactly := s.exactly(&scope.Index.exact[i])
		has := r>>countedBits >= s.least || exactly > 0
		if complete && !has || !scope.visible(i) || scope.Accept != nil && !scope.Accept(scope.Index.given[i]) {
			continue
		}
		if has && !complete {
			orders, complete = orders[:0], true
		}
		orders = append(orders, uint64(^(r&counted+exactly))<<32|uint64(i))
	}
	slices.Sort(orders)
	best := make([]Hit, min(len(orders), s.limit))
	for i, o := range orders[:len(best)] {
		best[i] = Hit{at, scope.Index.given[uint32(o)], ^uint32(o >> 32), complete} //nolint:gosec // both halves of the order
	}
	return best
}
