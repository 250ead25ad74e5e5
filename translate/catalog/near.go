package catalog

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// Bounds of the search for names that may have been meant. An agent chooses the
// one name, and providers choose the others.
const (
	maxCandidates = 5
	maxNearName   = 64 // bytes; a longer name has no near ones

	// maxScanned is how many names and last segments of names are looked at for one mistyped
	// name, in all sources together, and maxCompared how many bytes of them are compared with
	// it letter by letter. What is likely to be near is compared first.
	maxScanned  = 400_000
	maxCompared = 8_000
)

// nearIndex finds names that are like another one. It takes some 150 bytes a name.
type nearIndex struct {
	names         []string
	folded        []string
	last          []uint8      // where the last segments begin in them
	lasts, wholes [][]nearForm // of the last segments and of the whole names, by their lengths
}

// nearForm is what tells at a glance that a text is not near: the set of its bytes, and
// that of its pairs of neighbouring bytes, each hashed to 64 bits. A letter that is
// changed, added or left out adds and removes one member of the one at most, and two of
// the other; two neighbours that are swapped none of the one, and three of the other.
type nearForm struct {
	bytes, pairs uint64
	at           uint32 // in the names
}

// newNearIndex makes an index of names that are given in their order.
func newNearIndex(names []string) *nearIndex {
	ix := &nearIndex{names: names, folded: make([]string, len(names)), last: make([]uint8, len(names))}
	var all strings.Builder // one text, since what stands side by side is read faster
	for i, name := range names {
		if len(name) <= maxNearName {
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
			ix.lasts = addForm(ix.lasts, ix.folded[i][ix.last[i]:], i)
			ix.wholes = addForm(ix.wholes, ix.folded[i], i)
		}
		start = end
	}
	return ix
}

func addForm(to [][]nearForm, text string, at int) [][]nearForm {
	if n := len(text) + 1 - len(to); n > 0 {
		to = append(to, make([][]nearForm, n)...)
	}
	f := formOf(text)
	f.at = uint32(at) //nolint:gosec // there are not so many
	to[len(text)] = append(to[len(text)], f)
	return to
}

func formOf(text string) (f nearForm) {
	for i := range len(text) {
		f.bytes |= 1 << (text[i] & 63)
		if i > 0 {
			f.pairs |= 1 << ((uint32(text[i-1])<<8 | uint32(text[i])) * 0x9e3779b1 >> 26)
		}
	}
	return f
}

// differing is the larger number of members that one of two sets has and the other has not.
func differing(a, b uint64) int {
	return max(bits.OnesCount64(a&^b), bits.OnesCount64(b&^a))
}

// nearSearch looks for the names that may have been meant instead of one, in one index
// after the other.
type nearSearch struct {
	last, whole pattern
	before      string     // what stands before the last segment
	limit       int        // how many letters may differ
	found       []nearName // at most maxCandidates, the nearest first
}

// nearName is a name that is near.
type nearName struct {
	name     string
	distance int // of the last segments if that is within the limit, or else of the whole names
	whole    int // of the whole names
}

func (a nearName) nearer(b nearName) bool {
	switch {
	case a.distance != b.distance:
		return a.distance < b.distance
	case a.whole != b.whole:
		return a.whole < b.whole
	}
	return a.name < b.name
}

// near returns the names of the indexes that may have been meant instead of name, the
// nearest first: those that differ in a few letters, as a whole or after their namespace.
func near(name string, indexes ...*nearIndex) []string {
	list, _, _ := search(name, indexes)
	return list
}

// search is near, and says how many names were looked at, and how many bytes of them
// were compared. Each index has an equal share of both, so that no source can keep the
// names of another from being found; what one leaves goes to the larger ones after it.
func search(name string, indexes []*nearIndex) (list []string, scanned, compared int) {
	if len(name) > 3*maxNearName { // folding leaves a third of it at least
		return nil, 0, 0
	}
	folded := fold(name)
	if len(folded) > maxNearName {
		return nil, 0, 0
	}
	last := lastSegment(folded)
	s := nearSearch{before: folded[:len(folded)-len(last)], limit: max(1, len(last)/4), found: make([]nearName, 0, maxCandidates)}
	s.last.set(last)
	s.whole.set(folded)
	bySize := slices.SortedFunc(slices.Values(indexes), func(a, b *nearIndex) int { return len(a.names) - len(b.names) })
	for i, ix := range bySize {
		share := len(bySize) - i
		names, letters := s.in(ix, (maxScanned-scanned)/share, (maxCompared-compared)/share)
		scanned, compared = scanned+names, compared+letters
	}
	for _, f := range s.found {
		list = append(list, f.name)
	}
	return list, scanned, compared
}

// leasts lends memory for how near each name of an index can be at best.
var leasts = sync.Pool{New: func() any { return new([]uint8) }}

// tooFar is the distance of a name that is not near.
const tooFar = 255

// in looks for near names in one index: at no more of its forms than scan says, until it
// has compared as many bytes of its names as compare says. Those that can be nearest are
// compared first, and the others only as long as they can still be among the nearest.
func (s *nearSearch) in(ix *nearIndex, scan, compare int) (scanned, compared int) {
	lent := leasts.Get().(*[]uint8)
	defer leasts.Put(lent)
	least := slices.Grow((*lent)[:0], len(ix.names))[:len(ix.names)]
	*lent = least
	for i := range least {
		least[i] = tooFar
	}
	scanned = s.last.glance(ix.lasts, least, s.limit, scan/2)
	scanned += s.whole.glance(ix.wholes, least, s.limit, scan-scanned)
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

// fullWith reports whether enough names are found that are no farther than d.
func (s *nearSearch) fullWith(d int) bool {
	return len(s.found) == maxCandidates && s.found[maxCandidates-1].distance <= d
}

// consider compares a name that is no nearer than least, unless it can't be among the
// nearest, and returns how many bytes that took.
func (s *nearSearch) consider(ix *nearIndex, at, least int) (compared int) {
	name, folded := ix.names[at], ix.folded[at]
	before, last := folded[:ix.last[at]], folded[ix.last[at]:]
	n := nearName{name: name, distance: least, whole: abs(len(folded) - len(s.whole.text))}
	if before == s.before {
		n.whole = least
	}
	full := len(s.found) == maxCandidates
	if full && !n.nearer(s.found[maxCandidates-1]) {
		return 1
	}
	n.distance, compared = s.last.distance(last, s.limit)
	most := tooFar
	switch {
	case n.distance > s.limit:
		most = s.limit
	case full && n.distance > s.found[maxCandidates-1].distance:
		return compared
	case full && n.distance == s.found[maxCandidates-1].distance:
		most = s.found[maxCandidates-1].whole
	}
	if before == s.before { // what is the same at the beginning of both makes no difference
		n.whole = n.distance
	} else {
		var more int
		n.whole, more = s.whole.distance(folded, most)
		compared += more
	}
	if n.distance > s.limit {
		n.distance = n.whole
	}
	if n.distance > s.limit || full && !n.nearer(s.found[maxCandidates-1]) || slices.ContainsFunc(s.found, func(other nearName) bool { return other.name == name }) {
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

// fold makes spellings equal that differ in case or separators only.
func fold(name string) string { return folder.Replace(strings.ToLower(name)) }

func lastSegment(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// pattern is a text of at most 64 bytes whose distance from others is wanted: how many
// bytes have to be changed, added, left out, or swapped with their neighbours, each once
// (optimal string alignment). Comparing takes a few instructions for each of their bytes,
// by the bit-vector algorithm of Hyyrö (2003): the differences between neighbours in a
// column of the usual table are bits of a word, so that a column takes one step. It goes
// from the ends of the texts, since names have more in common at their beginnings.
type pattern struct {
	text string
	form nearForm
	at   [256]uint64 // where each byte stands, counted from the end
}

func (p *pattern) set(text string) {
	p.text, p.form = text, formOf(text)
	for i := range len(text) {
		p.at[text[i]] |= 1 << (len(text) - 1 - i)
	}
}

// glance notes for each name what its distance is at least, as far as that is within the
// limit, those first that are as long as the pattern. It looks at no more than so many, and
// returns at how many.
func (p *pattern) glance(forms [][]nearForm, least []uint8, limit, most int) (seen int) {
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
			if bits.OnesCount64(p.form.bytes^f.bytes) > 2*limit {
				continue
			}
			d := max(by, differing(p.form.bytes, f.bytes)) // without swapped ones
			if swapped := (differing(p.form.pairs, f.pairs) - 2*d + 2) / 3; swapped > 0 {
				d += swapped
			}
			if d <= limit && d < int(least[f.at]) {
				least[f.at] = uint8(d) //nolint:gosec // at most limit
			}
		}
	}
	return seen
}

// distance is the distance of a text. It stops, with some greater number, as soon as it is
// more than most. It also returns how many bytes of text it took.
func (p *pattern) distance(text string, most int) (distance, compared int) {
	if p.text == "" {
		return len(text), 1
	}
	up, down, end := ^uint64(0), uint64(0), uint64(1)<<(len(p.text)-1)
	var diagonal, last uint64 // of the column before: which diagonals have steps that cost nothing, and where its byte stands
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
		if distance-i > most { // each of the i bytes that are left makes it less by one at most
			return distance - i, len(text) - i
		}
		right, left = right<<1|1, left<<1
		up, down, last = left|^(diagonal|right), right&diagonal, equal
	}
	return distance, len(text) + 1
}
