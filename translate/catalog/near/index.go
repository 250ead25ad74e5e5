package near

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"
)

// Bounds of the search for similar names. They are needed because agents and providers choose
// the names.
const (
	maxCandidates = 5
	maxName       = 64 // bytes; longer names have no similar ones

	// maxScanned bounds how many signatures are compared for one unknown name, in all sources
	// together, and maxCompared how many bytes of names. Names with similar signatures are
	// compared first.
	maxScanned  = 400_000
	maxCompared = 8_000
)

// Index finds names by similarity. It takes some 150 bytes a name. It is immutable.
type Index struct {
	names         []string
	folded        []string
	last          []uint8       // index at which the last segment of each name begins
	lasts, wholes [][]signature // of the last segments and of the whole names, by length
}

// signature gives a lower bound of the edit distance of two texts. It is the set of the bytes
// and the set of the pairs of neighbouring bytes of a text, each hashed to 64 bits. Changing,
// adding or removing a byte adds and removes at most one member of the first set and two of
// the second. Swapping two neighbours changes nothing in the first set, and adds and removes
// at most three members of the second.
type signature struct {
	bytes, pairs uint64
	at           uint32 // index of the name
}

// NewIndex returns the index of sorted names.
func NewIndex(names []string) *Index {
	ix := &Index{names: names, folded: make([]string, len(names)), last: make([]uint8, len(names))}
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
		end := len(text)
		ix.folded[i] = all.String()[start:end]
		if end > start {
			ix.lasts = addSignature(ix.lasts, ix.folded[i][ix.last[i]:], i)
			ix.wholes = addSignature(ix.wholes, ix.folded[i], i)
		}
		start = end
	}
	return ix
}

func addSignature(to [][]signature, text string, at int) [][]signature {
	if n := len(text) + 1 - len(to); n > 0 {
		to = append(to, make([][]signature, n)...)
	}
	f := signatureOf(text)
	f.at = uint32(at) //nolint:gosec // there are less than 2^32 names
	to[len(text)] = append(to[len(text)], f)
	return to
}

func signatureOf(text string) (f signature) {
	for i := range len(text) {
		f.bytes |= 1 << (text[i] & 63)
		if i > 0 {
			f.pairs |= 1 << ((uint32(text[i-1])<<8 | uint32(text[i])) * 0x9e3779b1 >> 26)
		}
	}
	return f
}

// differing returns how many members one of two sets has that the other lacks, the larger of both numbers.
func differing(a, b uint64) int {
	return max(bits.OnesCount64(a&^b), bits.OnesCount64(b&^a))
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
	list, _, _ := nearest(name, indexes, nil)
	return list
}

// FindSkill is Find among the names of skills for which accept returns true; nil: all. A name with underscores that is similar to none is
// searched with dots, since models make up names of tools from parts of names.
func FindSkill(accept func(name string) bool, name string, indexes ...*Index) []string {
	list, _, _ := nearest(name, indexes, accept)
	if len(list) == 0 && strings.Contains(name, "_") {
		list, _, _ = nearest(strings.ReplaceAll(name, "_", "."), indexes, accept)
	}
	return list
}

// nearest is Find. It also returns how many signatures and bytes were compared. Each index gets
// an equal share of both bounds, so that a source with many names does not prevent names of
// another from being found. Indexes are searched in the order of their size; the larger ones
// share what the smaller ones do not use.
func nearest(name string, indexes []*Index, accept func(name string) bool) (list []string, scanned, compared int) {
	if len(name) > 3*maxName { // a folded name has at least a third of the bytes
		return nil, 0, 0
	}
	folded := fold(name)
	if len(folded) > maxName {
		return nil, 0, 0
	}
	last := lastSegment(folded)
	s := finder{before: folded[:len(folded)-len(last)], limit: max(1, len(last)/4), found: make([]match, 0, maxCandidates), accept: accept}
	s.last.set(last)
	s.whole.set(folded)
	bySize := slices.SortedFunc(slices.Values(indexes), func(a, b *Index) int { return len(a.names) - len(b.names) })
	for i, ix := range bySize {
		share := len(bySize) - i
		names, letters := s.searchIndex(ix, (maxScanned-scanned)/share, (maxCompared-compared)/share)
		scanned, compared = scanned+names, compared+letters
	}
	for _, f := range s.found {
		list = append(list, f.name)
	}
	return list, scanned, compared
}

// tooFar is the distance of names that are not similar.
const tooFar = 255

// searchIndex searches one index. It compares at most scan signatures, and names until compare
// bytes are compared: those with the least lower bound first, and only those that can still be
// among the nearest.
func (s *finder) searchIndex(ix *Index, scan, compare int) (scanned, compared int) {
	least := make([]uint8, len(ix.names))
	for i := range least {
		least[i] = tooFar
	}
	scanned = s.last.lowerBounds(ix.lasts, least, s.limit, scan/2)
	scanned += s.whole.lowerBounds(ix.wholes, least, s.limit, scan-scanned)
	for d := range s.limit + 1 {
		for at := 0; compared < compare && !s.fullWith(d-1); at++ {
			next := bytes.IndexByte(least[at:], uint8(d))
			if next < 0 {
				break
			}
			at += next
			compared += s.consider(ix, at, d)
		}
	}
	return scanned, compared
}

// fullWith reports whether enough names within the distance d are found.
func (s *finder) fullWith(d int) bool {
	return len(s.found) == maxCandidates && s.found[maxCandidates-1].distance <= d
}

// consider adds a name to the found ones if it is among the nearest. least is a lower bound of
// its distance. It returns how many bytes were compared.
func (s *finder) consider(ix *Index, at, least int) (compared int) {
	name, folded := ix.names[at], ix.folded[at]
	if s.accept != nil && !s.accept(name) {
		return 1
	}
	before, last := folded[:ix.last[at]], folded[ix.last[at]:]
	n := match{name: name, distance: least, whole: abs(len(folded) - len(s.whole.text))}
	if before == s.before {
		n.whole = least
	}
	full := len(s.found) == maxCandidates
	if full && !n.nearer(s.found[maxCandidates-1]) {
		return 1
	}
	n.distance, compared = s.last.distance(last, s.limit)
	most := tooFar // the largest distance of the whole names that matters
	switch {
	case full && n.distance > s.found[maxCandidates-1].distance:
		most = s.found[maxCandidates-1].distance
	case full && n.distance == s.found[maxCandidates-1].distance:
		most = s.found[maxCandidates-1].whole
	case n.distance > s.limit:
		most = s.limit
	}
	switch {
	case before == s.before: // the distance of the whole names is that of the last segments
		n.whole = n.distance
	case n.whole <= most:
		var more int
		n.whole, more = s.whole.distance(folded, most)
		compared += more
	}
	n.distance = min(n.distance, n.whole)
	if n.distance > s.limit || full && !n.nearer(s.found[maxCandidates-1]) || slices.ContainsFunc(s.found, func(other match) bool { return other.name == name }) {
		return compared
	}
	if full {
		s.found = s.found[:maxCandidates-1]
	}
	place := 0
	for place < len(s.found) && s.found[place].nearer(n) {
		place++
	}
	s.found = slices.Insert(s.found, place, n)
	return compared
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
	text      string
	signature signature
	at        [256]uint64 // positions of each byte, counted from the end
}

func (p *pattern) set(text string) {
	p.text, p.signature = text, signatureOf(text)
	for i := range len(text) {
		p.at[text[i]] |= 1 << (len(text) - 1 - i)
	}
}

// lowerBounds lowers the elements of least to the lower bounds of the distances of the names, if
// they are within the limit. It compares no more than most signatures, those of texts of similar
// length first, and returns how many it has compared.
func (p *pattern) lowerBounds(forms [][]signature, least []uint8, limit, most int) (seen int) {
	for i := range 2*limit + 1 {
		by := (i + 1) / 2
		length := len(p.text) + by
		if i%2 == 0 {
			length = len(p.text) - by
		}
		if length < 0 || length >= len(forms) {
			continue
		}
		some := forms[length]
		some = some[:min(len(some), most-seen)]
		seen += len(some)
		for j := range some {
			f := &some[j]
			if bits.OnesCount64(p.signature.bytes^f.bytes) > 2*limit {
				continue
			}
			d := max(by, differing(p.signature.bytes, f.bytes)) // swaps are added below
			if swapped := (differing(p.signature.pairs, f.pairs) - 2*d + 2) / 3; swapped > 0 {
				d += swapped
			}
			if d <= limit && d < int(least[f.at]) {
				least[f.at] = uint8(d) //nolint:gosec // at most limit
			}
		}
	}
	return seen
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
