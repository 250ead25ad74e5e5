package near

import (
	"math/bits"
	"slices"
	"strings"
)

// Bounds of the search for similar names. They are needed because agents and providers choose
// the names.
const (
	maxCandidates = 5
	maxName       = 64 // bytes; longer names have no similar ones

	// maxCompared bounds how many bytes of names are compared for one unknown name, in all sources together.
	maxCompared = 85_000
)

// Index finds names by similarity. It is immutable.
type Index struct {
	names  []string
	folded []string // empty: the name is too long
	last   []uint8  // index at which the last segment of each name begins
	lasts  []uint64 // the set of the bytes of each last segment
	wholes []uint64 // the set of the bytes of each name
}

// bytesOf returns the set of the bytes of a text, each hashed to 64 bits. Changing, adding or removing a byte adds and removes at most one member.
func bytesOf(text string) (set uint64) {
	for i := range len(text) {
		set |= 1 << (text[i] & 63)
	}
	return set
}

// NewIndex returns the index of sorted names.
func NewIndex(names []string) *Index {
	ix := &Index{names: names, folded: make([]string, len(names)), last: make([]uint8, len(names)), lasts: make([]uint64, len(names)), wholes: make([]uint64, len(names))}
	var all strings.Builder // one text for all: adjacent memory is read faster
	for i, name := range names {
		if len(name) <= maxName {
			folded := fold(name)
			all.WriteString(folded)
			ix.last[i] = uint8(len(folded) - len(lastSegment(folded))) //nolint:gosec // a folded name has at most 1.5 times as many bytes
		}
		ix.folded[i] = all.String()
	}
	start := 0
	for i, text := range ix.folded {
		ix.folded[i] = all.String()[start:len(text)]
		ix.lasts[i], ix.wholes[i] = bytesOf(ix.folded[i][ix.last[i]:]), bytesOf(ix.folded[i])
		start = len(text)
	}
	return ix
}

// finder is the search for names that are similar to one name.
type finder struct {
	last, whole pattern
	before      string                 // the text before the last segment
	limit       int                    // the largest distance
	found       []match                // at most maxCandidates, nearest first
	accept      func(name string) bool // nil: all names may be found
}

// match is a similar name.
type match struct {
	name     string
	distance int // distance of the last segments or of the whole names, the smaller one
	whole    int // distance of the whole names
}

func (a match) nearer(b match) bool {
	switch {
	case a.distance != b.distance:
		return a.distance < b.distance
	case a.whole != b.whole:
		return a.whole < b.whole
	}
	return a.name < b.name
}

// Find returns the names of the indexes that are similar to a name, nearest first, at most five: those at a
// small edit distance, as a whole or in the last segment after a dot or slash.
func Find(name string, indexes ...*Index) []string {
	list, _ := nearest(name, indexes, nil)
	return list
}

// FindSkill is Find among the names of skills for which accept returns true; nil: all. A name with underscores that is similar to none is
// searched with dots, since models make up names of tools from parts of names.
func FindSkill(accept func(name string) bool, name string, indexes ...*Index) []string {
	list, _ := nearest(name, indexes, accept)
	if len(list) == 0 && strings.Contains(name, "_") {
		list, _ = nearest(strings.ReplaceAll(name, "_", "."), indexes, accept)
	}
	return list
}

// nearest is Find. It also returns how many bytes were compared. Each index gets
// an equal share of the bound, so that a source with many names does not prevent names of
// another from being found. Indexes are searched in the order of their size; the larger ones
// share what the smaller ones do not use.
func nearest(name string, indexes []*Index, accept func(name string) bool) (list []string, compared int) {
	if len(name) > 3*maxName { // a folded name has at least a third of the bytes
		return nil, 0
	}
	folded := fold(name)
	if len(folded) > maxName {
		return nil, 0
	}
	last := lastSegment(folded)
	s := finder{before: folded[:len(folded)-len(last)], limit: max(1, len(last)/4), accept: accept}
	s.last.set(last)
	s.whole.set(folded)
	bySize := slices.Clone(indexes)
	slices.SortFunc(bySize, func(a, b *Index) int { return len(a.names) - len(b.names) })
	for i, ix := range bySize {
		most := compared + (maxCompared-compared)/(len(bySize)-i)
		for at := 0; at < len(ix.names) && compared < most; at++ {
			compared += s.consider(ix, at)
		}
	}
	for _, f := range s.found {
		list = append(list, f.name)
	}
	return list, compared
}

// consider adds a name to the found ones if it is among the nearest. It returns how many bytes were compared.
func (s *finder) consider(ix *Index, at int) (compared int) {
	folded, most := ix.folded[at], s.limit
	full := len(s.found) == maxCandidates
	if full {
		most = s.found[maxCandidates-1].distance
	}
	n := match{name: ix.names[at], distance: most + 1}
	if s.last.mayBe(len(folded)-int(ix.last[at]), ix.lasts[at], most) {
		n.distance, compared = s.last.distance(folded[ix.last[at]:], most)
	}
	switch isNear := n.distance <= most; {
	case folded[:ix.last[at]] == s.before: // the distance of the whole names is that of the last segments
		n.whole = n.distance
	case isNear || s.whole.mayBe(len(folded), ix.wholes[at], most):
		if isNear {
			most = 2 * maxName
		}
		var more int
		n.whole, more = s.whole.distance(folded, most)
		compared += more
		n.distance = min(n.distance, n.whole)
	}
	if folded == "" || n.distance > s.limit || full && !n.nearer(s.found[maxCandidates-1]) || s.accept != nil && !s.accept(n.name) ||
		slices.ContainsFunc(s.found, func(other match) bool { return other.name == n.name }) {
		return compared + 1
	}
	if full {
		s.found = s.found[:maxCandidates-1]
	}
	place := 0
	for place < len(s.found) && s.found[place].nearer(n) {
		place++
	}
	s.found = slices.Insert(s.found, place, n)
	return compared + 1
}

func abs(n int) int { return max(n, -n) }

var folder = strings.NewReplacer("/", ".", "_", "-")

// fold maps spellings that differ only in case or separators to one.
func fold(name string) string { return folder.Replace(strings.ToLower(name)) }

func lastSegment(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// pattern computes the distances of other texts from a text of at most 64 bytes: how many
// bytes have to be changed, added, removed or swapped with their neighbours, each at most once
// (optimal string alignment). It uses the bit-vector algorithm of Hyyrö (2003), which takes a
// few instructions for each byte: the differences between neighbours in a column of the usual
// table are bits of a word, so that a column takes one step. It starts at the ends of the
// texts, since names differ more there.
type pattern struct {
	text  string
	bytes uint64
	at    [256]uint64 // positions of each byte, counted from the end
}

func (p *pattern) set(text string) {
	p.text, p.bytes = text, bytesOf(text)
	for i := range len(text) {
		p.at[text[i]] |= 1 << (len(text) - 1 - i)
	}
}

// mayBe reports whether the distance of a text can be at most most, by its length and the set of its bytes.
func (p *pattern) mayBe(length int, set uint64, most int) bool {
	return abs(length-len(p.text)) <= most && bits.OnesCount64(p.bytes^set) <= 2*most
}

// distance returns the distance of a text. If it is above most, the result may be any number
// above most. It also returns how many bytes it has compared.
func (p *pattern) distance(text string, most int) (distance, compared int) {
	if p.text == "" {
		return len(text), 1
	}
	up, down, end := ^uint64(0), uint64(0), uint64(1)<<(len(p.text)-1)
	var diagonal, last uint64 // of the previous column: the diagonal steps without cost, and the positions of its byte
	distance = len(p.text)
	for i := len(text) - 1; i >= 0; i-- {
		equal := p.at[text[i]]
		diagonal = (equal&up + up) ^ up | equal | down | (^diagonal&equal)<<1&last
		right, left := down|^(diagonal|up), up&diagonal
		switch {
		case right&end != 0:
			distance++
		case left&end != 0:
			distance--
		}
		if distance-i > most { // each of the i remaining bytes lowers it by at most one
			return distance - i, len(text) - i
		}
		right, left = right<<1|1, left<<1
		up, down, last = left|^(diagonal|right), right&diagonal, equal
	}
	return distance, len(text) + 1
}
