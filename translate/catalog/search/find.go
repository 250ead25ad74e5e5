package search

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// Scope is what a search considers of an index.
type Scope struct {
	Index *Index
	// Visible says which skills the caller may know; nil: all. What it may not know does not influence the ranks.
	Visible []bool
	// Accept says which of the visible skills may be results; nil: all.
	Accept func(i int) bool
}

// visible counts the visible skills, of n that at yields.
func (s *Scope) visible(n int, at func(int) uint32) (count int) {
	if s.Visible == nil {
		return n
	}
	for i := range n {
		if s.Visible[at(i)] {
			count++
		}
	}
	return count
}

// Hit is a skill that was found.
type Hit struct {
	Scope, Skill int // indexes of the scope and, in it, of the skill
	Rank         uint32
}

// Find returns those skills of each scope that have words of a query and the highest ranks, at most limit of each scope. They
// are in the order of their ranks, then of the scopes and skills.
//
// The rank of a skill is the sum over the words that it has: the weight of the field (name 8, tags 4, title 2,
// description 1) times how rare the word is among the visible skills of all scopes. Words with the same stem, and words that begin with a word of
// the query, count half. If no visible skill has any of these, words that differ by one typo do, and
// words that begin with such a word or have nearly the same stem count a quarter. A query without a text matches all skills.
func Find(query string, scopes []Scope, limit int) []Hit {
	s := finder{words: queryWords(query), all: strings.TrimSpace(query) == "", limit: max(limit, 0)}
	s.weigh(scopes)
	hits := make([]Hit, 0, len(scopes))
	for i := range scopes {
		hits = append(hits, s.best(i, &scopes[i])...)
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Rank, a.Rank) })
	return hits
}

// finder is one search.
type finder struct {
	words []string
	all   bool // all skills match
	limit int
	found [][][]matched // by scope, by word
	rare  []uint32      // how rare each word is
}

// weigh looks up the words, and sets how rare each is.
func (s *finder) weigh(scopes []Scope) {
	skills := 0
	s.found = make([][][]matched, len(scopes))
	for i := range scopes {
		scope := &scopes[i]
		skills += scope.visible(scope.Index.skills, func(i int) uint32 { return uint32(i) }) //nolint:gosec // there are less than 2^30 skills
		for _, word := range s.words {
			s.found[i] = append(s.found[i], scope.Index.matches(word, scope))
		}
	}
	typos := 0
	for w, word := range s.words {
		having := s.having(w, scopes)
		if having == 0 && len(word) >= leastTypo && typos < maxTypos {
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
			count += scopes[i].visible(len(m.postings), func(i int) uint32 { return m.postings[i].skill() })
		}
	}
	return count
}

// ranks pools the ranks of the skills of an index.
var ranks = sync.Pool{New: func() any { return new([]uint32) }}

// best returns the skills of a scope with the highest ranks.
func (s *finder) best(at int, scope *Scope) []Hit {
	pooled := ranks.Get().(*[]uint32)
	defer ranks.Put(pooled)
	rank := slices.Grow((*pooled)[:0], scope.Index.skills)[:scope.Index.skills]
	*pooled = rank
	clear(rank)
	var own []uint32 // by skill, for a word that several words of the index stand for: the most that one of them counts
	for w, found := range s.found[at] {
		if len(found) > 1 {
			if own == nil {
				pooled := ranks.Get().(*[]uint32)
				defer ranks.Put(pooled)
				own = slices.Grow((*pooled)[:0], scope.Index.skills)[:scope.Index.skills]
				*pooled = own
			}
			clear(own)
		}
		for _, m := range found {
			for _, p := range m.postings {
				counts := s.rare[w] * p.field().weight() * m.factor
				if len(found) > 1 {
					had := own[p.skill()]
					own[p.skill()] = max(counts, had)
					counts = max(counts, had) - had
				}
				rank[p.skill()] += counts
			}
		}
	}
	// An order is the complement of a rank, and an index, so that the smallest orders are those of the best skills.
	var orders []uint64
	for i, r := range rank {
		if (r > 0 || s.all) && (scope.Visible == nil || scope.Visible[i]) && (scope.Accept == nil || scope.Accept(i)) {
			orders = append(orders, uint64(^r)<<32|uint64(i))
		}
	}
	slices.Sort(orders)
	orders = orders[:min(len(orders), s.limit)]
	best := make([]Hit, len(orders))
	for i, o := range orders {
		best[i] = Hit{at, int(uint32(o)), ^uint32(o >> 32)} //nolint:gosec // both halves of the order
	}
	return best
}
