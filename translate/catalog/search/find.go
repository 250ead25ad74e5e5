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
// description 1) times how rare the word is among the visible skills of all scopes. A query without a text matches all skills.
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
	found [][][]posting // by scope, by word
	rare  []uint32      // how rare each word is
}

// weigh looks up the words, and sets how rare each is.
func (s *finder) weigh(scopes []Scope) {
	skills := 0
	s.found = make([][][]posting, len(scopes))
	for i := range scopes {
		scope := &scopes[i]
		skills += scope.visible(scope.Index.skills, func(i int) uint32 { return uint32(i) }) //nolint:gosec // there are less than 2^30 skills
		for _, word := range s.words {
			s.found[i] = append(s.found[i], scope.Index.lookUp(word))
		}
	}
	for w := range s.words {
		having := 0
		for i := range scopes {
			postings := s.found[i][w]
			having += scopes[i].visible(len(postings), func(i int) uint32 { return postings[i].skill() })
		}
		s.rare = append(s.rare, uint32(bits.Len(uint(skills/max(having, 1))))) //nolint:gosec // at most 64
	}
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
	for w, postings := range s.found[at] {
		for _, p := range postings {
			rank[p.skill()] += s.rare[w] * p.field().weight()
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
