package near

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/skillnames"
)

// nearByHand compares a name with each of the names, without an index.
func nearByHand(name string, known []string) []match {
	wanted := fold(name)
	if len(wanted) > maxName {
		return nil
	}
	last := lastSegment(wanted)
	limit := max(1, len(last)/4)
	var found []match
	for _, k := range known {
		if len(k) > maxName {
			continue
		}
		folded := fold(k)
		n := match{name: k, whole: alignment(wanted, folded, 2*maxName)}
		if n.distance = min(alignment(last, lastSegment(folded), limit), n.whole); n.distance <= limit {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b match) int {
		if a.nearer(b) {
			return -1
		}
		return 1
	})
	found = slices.Compact(found)
	return found[:min(len(found), maxCandidates)]
}

// alignment returns the distance by the usual table, or some number greater than limit.
func alignment(a, b string, limit int) int {
	if by := abs(len(a) - len(b)); by > limit {
		return by
	}
	var before, above []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := above[j]
			if a[i] != b[j] {
				cost++
			}
			if i > 0 && j > 0 && a[i-1] == b[j] && a[i] == b[j-1] {
				cost = min(cost, before[j-1]+1)
			}
			row[j+1] = min(cost, above[j+1]+1, row[j]+1)
		}
		if least := min(slices.Min(row), slices.Min(above)); least > limit {
			return least
		}
	}
	return row[len(b)]
}

// mistype makes a few typing errors.
func mistype(r *rand.Rand, name string) string {
	b := []byte(name)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(b))
		letter := "abcdefghijklmnopqrstuvwxyz0123456789-._/"[r.IntN(40)]
		switch r.IntN(4) {
		case 0:
			b[at] = letter
		case 1:
			b = slices.Insert(b, at, letter)
		case 2:
			b = slices.Delete(b, at, at+1)
		default:
			if at > 0 {
				b[at-1], b[at] = b[at], b[at-1]
			}
		}
		if len(b) == 0 {
			b = []byte{letter}
		}
	}
	return string(b)
}

// The search finds the same names as a comparison with every name. Names at the same distance are
// in the order of the distance of the whole names. In large catalogs with thousands of similar
// names, it may miss the last of the five.
func TestNearFindsAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 3, 50, 1000, 10_000} {
		names := skillnames.Names(r, size)
		ix := NewIndex(names)
		tries := 100
		if size > 1000 && !longtest.Runs(longtest.Long) {
			tries = 10
		}
		for range tries {
			name := mistype(r, names[r.IntN(size)])
			if r.IntN(4) == 0 {
				name = name[strings.LastIndexByte(name, '.')+1:]
			}
			got := Find(name, ix)
			var want []string
			for _, n := range nearByHand(name, names) {
				want = append(want, n.name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d names, %q: got %q, want %q", size, name, got, want)
			}
		}
	}
}

// Two swapped letters count as one mistake.
func TestNearOfSwappedLetters(t *testing.T) {
	ix := NewIndex([]string{"acme.csv", "acme.pdf", "acme.weather", "acme.weights"})
	for name, want := range map[string]string{
		"acme.weahter": "acme.weather", "acme.waethre": "", "acme.cvs": "acme.csv", "cvs": "acme.csv", "acme.dpf": "acme.pdf", "acme.fdp": "",
		"amce.weahter": "acme.weather", "acme.wieghts": "acme.weights", "acme.weahtre": "",
	} {
		if got := strings.Join(Find(name, ix), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A name without the dot after its namespace is nearest to the name with it, although the last segments differ more than others do.
func TestNearWithoutDot(t *testing.T) {
	names := []string{"api.invoice-1"}
	for i := range 10 {
		names = append(names, fmt.Sprintf("api.invoice-%d", 10+i))
	}
	ix := NewIndex(names)
	for _, name := range []string{"apiinvoice-1", "api-invoice-1", "api_invoice-1", "Api.Invoice-1", "api..invoice-1"} {
		if got := Find(name, ix); len(got) == 0 || got[0] != "api.invoice-1" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The search works for names of any bytes.
func TestNearOfAnyBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	text := func() string {
		b := make([]rune, 1+r.IntN(20))
		for i := range b {
			b[i] = []rune("aabb.../_-AB\u00e9\u212a\u0130\u023a日")[r.IntN(17)]
		}
		return string(b)
	}
	for range 200 {
		var names []string
		for range 40 {
			names = append(names, text())
		}
		names = append(names, strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("\u023a", 32))
		slices.Sort(names)
		names = slices.Compact(names)
		half := len(names) / 2
		first, second := NewIndex(names[:half]), NewIndex(names[half/2:]) // some are in both
		for _, name := range []string{text(), text(), strings.Repeat("x", 63), strings.Repeat("\u212a", 64), "", "."} {
			var want []string
			for _, n := range nearByHand(name, names) {
				want = append(want, n.name)
			}
			if got := Find(name, first, second); !slices.Equal(got, want) {
				t.Fatalf("%q in %q: got %q, want %q", name, names, got, want)
			}
		}
	}
}

// similarNames returns names of which most are at the least distance from others.
func similarNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "evil." + strings.Repeat("ab", 20) + strings.Map(func(r rune) rune { return 'a' + (r-'0')%2 }, fmt.Sprintf("%014b", i))
	}
	slices.Sort(names)
	return names
}

// The work is bounded for any number of similar names, and each source gets its share of it.
func TestNearIsBounded(t *testing.T) {
	var many []*Index
	for range 40 {
		many = append(many, NewIndex(similarNames(10_000)))
	}
	name := "evil." + strings.Repeat("ab", 20) + "babababa"
	list, compared := nearest(name, many, nil)
	if len(list) == 0 || compared > maxCompared+200*len(many) {
		t.Errorf("%d found, %d bytes", len(list), compared)
	}
	mine := NewIndex([]string{"mine." + strings.Repeat("ab", 20) + "bababab"})
	if list := Find(name, append(many, mine)...); !slices.Contains(list, mine.names[0]) {
		t.Errorf("another source's names hide the nearest: %q", list)
	}
	one := many[:1]
	if n := testing.AllocsPerRun(20, func() { Find(name, one...) }); n > 20 { // more under the race detector
		t.Errorf("%.0f allocations", n)
	}
	if list := Find(strings.Repeat("x", 1<<20), many...); list != nil {
		t.Errorf("%q", list)
	}
}

func BenchmarkNear(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	names := skillnames.Names(r, 10_000)
	for about, tc := range map[string]struct {
		names []string
		name  func() string
	}{
		"real":      {names, func() string { return mistype(r, names[r.IntN(len(names))]) }},
		"nothing":   {names, func() string { return "acme.qqqqqqqqqqqqqqqqqqqq" }},
		"alike":     {similarNames(10_000), func() string { return "evil." + strings.Repeat("ab", 20) + "babababababab" }},
		"alikelong": {similarNames(10_000), func() string { return strings.Repeat("ba", 32) }},
	} {
		b.Run(about, func(b *testing.B) {
			b.ReportAllocs()
			ix := NewIndex(tc.names)
			for b.Loop() {
				Find(tc.name(), ix)
			}
		})
	}
	b.Run("old", func(b *testing.B) {
		for b.Loop() {
			nearByHand(mistype(r, names[r.IntN(len(names))]), names)
		}
	})
	b.Run("index", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewIndex(names)
		}
	})
}
