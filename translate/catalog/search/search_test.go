package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// find returns the indexes of the skills that have words of a query, best first.
func find(query string, skills ...Texts) (found []int) {
	ix := NewIndex(len(skills), func(i int) Texts { return skills[i] })
	for _, h := range Find(query, []Scope{{Index: ix}}, len(skills)) {
		found = append(found, h.Skill)
	}
	return found
}

var words = strings.Fields(`weather forecast invoice create payment refund translate summarize calendar event search image resize report
	ticket close customer lookup order track shipment parse extract convert csv json pdf qr code diff merge user account balance transfer mail send`)

// A search finds the same skills, in the same order, as one that reads all texts.
func TestFindFindsAll(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	some := func(n int, between string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = words[r.IntN(len(words))]
		}
		return strings.Join(list, between)
	}
	skills := make([]Texts, 500)
	for i := range skills {
		skills[i] = Texts{Name: fmt.Sprintf("x.%s.%03d", some(1+r.IntN(2), "-"), i), Tags: []string{some(r.IntN(2), "")}, Title: some(r.IntN(3), " "), Description: some(r.IntN(12), ", ")}
	}
	for _, word := range words {
		var want [4][]int
		for i, s := range skills {
			for f, text := range []string{s.Name, s.Tags[0], s.Title, s.Description} {
				if slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(".-, ", r) }), word) {
					want[f] = append(want[f], i)
					break
				}
			}
		}
		for f := range want {
			slices.SortFunc(want[f], func(a, b int) int { return Natural(skills[a].Name, skills[b].Name) })
		}
		if got, want := find(word, skills...), slices.Concat(want[:]...); !slices.Equal(got, want) {
			t.Fatalf("%s: %d, want %d", word, got, want)
		}
	}
}

// Skills that the caller may not know are no results, and change no ranks.
func TestFindInScopes(t *testing.T) {
	texts := []Texts{{Name: "red"}, {Name: "blue"}, {Name: "blue"}, {Name: "blue"}, {Name: "blue"}, {Description: "red green"}, {Name: "green"}}
	ix := NewIndex(len(texts), func(i int) Texts { return texts[i] })
	without := append(slices.Clone(texts[:1]), texts[5:]...)
	few := NewIndex(len(without), func(i int) Texts { return without[i] })
	visible := []bool{true, false, false, false, false, true, true}
	for _, query := range []string{"red", "blue", "red green", "red blue green", ""} {
		got, want := Find(query, []Scope{{Index: ix, Visible: visible}}, 10), Find(query, []Scope{{Index: few}}, 10)
		for i := range want {
			if want[i].Skill > 0 {
				want[i].Skill += 4
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	odd := Scope{Index: few, Accept: func(i int) bool { return i == 1 }}
	if got := Find("red", []Scope{odd, {Index: few}}, 1); len(got) != 2 || got[0].Scope != 1 || got[0].Skill != 0 || got[1].Scope != 0 || got[1].Skill != 1 {
		t.Errorf("%v", got)
	}
}

// Words with the same stem, words that begin with one of the query, and misspelt words are found, after the word itself.
func TestFindSimilar(t *testing.T) {
	skills := []Texts{
		{Name: "forecast"}, {Name: "forecasting"}, {Name: "translate"}, {Name: "translation"}, {Name: "summary"}, {Name: "summarize"}, {Name: "invoice"}, {Name: "qr-code"}, {Name: "übersetzen"},
	}
	for query, want := range map[string][]int{
		"forecast": {0, 1}, "forecasting": {1, 0}, "forecasts": {0, 1}, "fore": {0, 1}, "fo": {0, 1}, "f": nil,
		"translating": {2, 3}, "transl": {2, 3}, "summaries": {5, 4}, "summarise": {5, 4}, "summarization": {5, 4}, "summry": {5, 4}, "summri": nil, "translator": {2, 3}, "trnslate": {2, 3}, "sum": {5, 4}, "invoices": {6}, "invoic": {6},
		"forcast": {0, 1}, "forecsat": {0, 1}, "forecxst": {0, 1}, "foreecast": {0, 1}, "inovice": {6}, "xnvoice": nil, "invo1c3": nil,
		"qr": {7}, "cdoe": {7}, "cod": {7}, "übersetzn": {8}, "über": {8}, "summary invoise": {4, 6, 5},
	} {
		if got := find(query, skills...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for query, want := range map[string][]int{"summary": {0, 1}, "summaries": {0, 1}, "summry": {0, 1}, "summari": {0}, "sumaries": {0, 1}, "analysis": {2}, "contain": nil} {
		if got := find(query, Texts{Name: "demo.summarize"}, Texts{Description: "the summary"}, Texts{Name: "analyze"}, Texts{Name: "contraction"}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if got := find("report reports", Texts{Name: "report"}, Texts{Name: "reports report reporting"}); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// What the caller may not know is not similar to anything.
func TestFindSimilarInScopes(t *testing.T) {
	texts := []Texts{{Name: "secretive"}, {Name: "secrets"}, {Name: "secert"}}
	ix := NewIndex(len(texts), func(i int) Texts { return texts[i] })
	hits := Find("secret", []Scope{{Index: ix, Visible: []bool{false, false, true}}}, 10)
	if len(hits) != 1 || hits[0].Skill != 2 { // as if there were no others: a typo counts only if nothing else is found
		t.Errorf("%v", hits)
	}
}

// hostile returns the index of skills with 60 words each, all of which are different or, if same is true, in all skills.
func hostile(n int, same bool) *Index {
	return NewIndex(n, func(i int) Texts {
		var b strings.Builder
		for j := range 60 {
			if same {
				fmt.Fprintf(&b, "w%d ", j)
			} else {
				fmt.Fprintf(&b, "%x ", i*60+j)
			}
		}
		return Texts{Name: fmt.Sprintf("x.%06d", i), Description: b.String()}
	})
}

// The index of any texts is bounded, and each skill has its share of it.
func TestIndexIsBounded(t *testing.T) {
	for _, same := range []bool{false, true} {
		ix := hostile(20_000, same)
		if len(ix.words) > maxNewWords+20_000*leastOwn || len(ix.postings) > maxWords+20_000*leastOwn {
			t.Errorf("%d words, %d postings", len(ix.words), len(ix.postings))
		}
		if last := ix.lookUp("019999"); len(last) != 1 || last[0].skill() != 19_999 || last[0].field() != nameField {
			t.Errorf("%v", last)
		}
	}
	long := []Texts{{Description: strings.Repeat("é", 1<<20)}, {Description: strings.Repeat("\ufdfa", 1<<20)}, {Tags: slices.Repeat([]string{"tag"}, 1<<20)}}
	if ix := NewIndex(len(long), func(i int) Texts { return long[i] }); len(ix.words) > 20 || len(ix.words[len(ix.words)-1]) > maxWord {
		t.Errorf("%q", ix.words)
	}
}

// FuzzFind searches one skill with any texts: it is found by each of its words.
func FuzzFind(f *testing.F) {
	f.Add("weather", "acme.weather", "Wéather", "天気予報 of tomorrow")
	f.Add("\ufdfa \xff", strings.Repeat("a", 100), "e\u0301", "\u0300")
	f.Fuzz(func(t *testing.T, query, name, title, description string) {
		texts := Texts{Name: name, Title: title, Description: description}
		var own []string
		for _, text := range []string{name, title, description} {
			eachWord(text, maxText, func(word string) bool {
				own = append(own, strings.Clone(word))
				return len(own) < leastOwn
			})
		}
		given := queryWords(query)
		if len(given) > maxQueryWords {
			t.Errorf("%q", given)
		}
		found := len(find(query, texts))
		for _, word := range given {
			if word == "" || len(word) > maxWord || slices.Contains(own, word) && found != 1 {
				t.Errorf("%q, own %q: %d found", word, own, found)
			}
		}
		for _, word := range own {
			if len(find(word, texts)) != 1 {
				t.Errorf("%q is not found", word)
			}
		}
	})
}

// BenchmarkFindWorst searches 10,000 skills, each of which has each word of the longest query, with one that is not visible.
func BenchmarkFindWorst(b *testing.B) {
	ix := hostile(10_000, true)
	visible := slices.Repeat([]bool{true}, 10_000)
	visible[5] = false
	query := ""
	for i := range 40 {
		query += fmt.Sprintf("w%d ", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(Find(query, []Scope{{Index: ix, Visible: visible}}, 20)) != 20 {
			b.Fatal("nothing found")
		}
	}
}

// BenchmarkFindSimilar searches 10,000 skills with 60 different words each for words that many words begin with, and for misspelt ones.
func BenchmarkFindSimilar(b *testing.B) {
	ix := hostile(10_000, false)
	for name, query := range map[string]string{"prefixes": "1a 2b 3c 4d 5e 6f", "typos": "1a2b3x 2b3c4x 3c4d5x", "one": "1a2b3"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Find(query, []Scope{{Index: ix}}, 50)
			}
		})
	}
}

// BenchmarkIndex makes indexes of 10,000 skills with 60 words each.
func BenchmarkIndex(b *testing.B) {
	for name, same := range map[string]bool{"same": true, "different": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				hostile(10_000, same)
			}
		})
	}
}

// TestRenewed: tags that become known later are found, in an index of many skills after some time.
func TestRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, skills := range []int{3, manySkills + 1} {
			further := make([][]string, skills)
			var r Renewed
			found := func(query string) bool {
				ix := r.Index(skills, func(i int) Texts { return Texts{Name: "x", Further: further[i]} })
				return len(Find(query, []Scope{{Index: ix}}, 1)) > 0
			}
			if r.Know(1, []string{"early"}); found("billing") {
				t.Error("the tag is not known yet")
			}
			further[1] = []string{"billing"}
			r.Know(0, nil)
			if found("billing") {
				t.Error("nothing has become known")
			}
			r.Know(1, further[1])
			if got := found("billing"); got != (skills < manySkills) {
				t.Errorf("%d skills: found %t", skills, got)
			}
			time.Sleep(renewSlowly)
			if !found("billing") || r.stale.Load() {
				t.Errorf("%d skills: not found", skills)
			}
			if r.Know(1, further[1]); r.stale.Load() {
				t.Error("the tags are the same")
			}
		}
	})
}
