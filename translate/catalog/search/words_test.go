package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The words of a query are joined by «and», and by «or» if no skill has all of them. Exact names are first.
func TestFindJoinsWords(t *testing.T) {
	skills := []Texts{
		{Name: "acme.weather-archive", Description: "of the weather of Berlin"},
		{Name: "acme.weather"},
		{Name: "acme.radar", Description: "weather radar of Berlin"},
		{Name: "acme.invoice.create", Title: "Create an invoice"},
		{Name: "acme.create"},
		{Name: "acme.plan-a"},
		{Name: "acme.plan-b", Description: "and plan a"},
	}
	for query, want := range map[string][]int{
		"weather": {1, 0, 2}, "acme.weather": {1, 0, 2}, "acme_weather": {1, 0, 2}, "WEATHER archive": {0}, "weather berlin": {0, 2}, "berlin weather radar": {2},
		"weather invoice": {3, 1, 0, 2}, // none has both
		"create invoice":  {3}, "create the invoice": {3}, "create": {4, 3}, "invoice.create": {3}, "the": {0}, "an": {3, 6}, "plan a": {5, 6}, "plan b": {6},
		"acme weather": {1, 0, 2}, "forecast weather": {1, 0, 2},
	} {
		if got := find(query, skills...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// A source whose skills have all words does not hide better ones of other sources that lack one, but worse ones.
func TestFindJoinsWordsOfSources(t *testing.T) {
	index := func(texts ...Texts) *Index { return NewIndex(len(texts), func(i int) Texts { return texts[i] }) }
	honest := index(Texts{Name: "translate"}, Texts{Description: "translate"}, Texts{Name: "other"})
	for name, tc := range map[string]struct {
		with Texts
		want string
	}{
		"stuffed": {Texts{Name: "x", Description: "translate text order pay image german"}, "[{0 0} {1 0}]"},
		"exact":   {Texts{Name: "x.translate-german"}, "[{1 0}]"},
	} {
		var got [][2]int
		for _, h := range Find("translate german", []Scope{{Index: honest}, {Index: index(tc.with)}}, 10) {
			got = append(got, [2]int{h.Scope, h.Skill})
		}
		if text := strings.NewReplacer("[", "{", "]", "}").Replace(fmt.Sprint(got)); "["+text[1:len(text)-1]+"]" != tc.want {
			t.Errorf("%s: %s, want %s", name, text, tc.want)
		}
	}
}

// A number is only the same number, and skills of equal rank are in their natural order, also where a limit cuts them.
func TestFindNumbers(t *testing.T) {
	names := make([]string, 0, 5005)
	for i := range 5000 {
		names = append(names, fmt.Sprintf("big.skill-%d", i))
	}
	names = append(names, "big.iso27001", "big.iso27", "big.v10", "big.report2", "big.report")
	slices.Sort(names)
	var r Renewed
	ix := r.Index(len(names), func(i int) Texts { return Texts{Name: names[i], Description: "text"} })
	for query, want := range map[string]string{
		"skill-499": "skill-499", "skill 49": "skill-49", "big.skill-4990": "skill-4990", "499": "skill-499", "skill-7": "skill-7",
		"skill": "skill-0 skill-1 skill-2 skill-3", "text": "iso27 iso27001 report report2", "skill-50000": "skill-0 skill-1 skill-2 skill-3", "50000": "", "45678": "",
		"iso27": "iso27", "iso2": "", "iso": "iso27 iso27001", "v1": "", "v10": "v10", "report": "report report2", "reprot2": "report2", "reprot": "report", "report3": "",
	} {
		var got []string
		for _, h := range Find(query, []Scope{{Index: ix}}, 4) {
			got = append(got, strings.TrimPrefix(names[h.Skill], "big."))
		}
		if list := strings.Join(got, " "); list != want {
			t.Errorf("%s: %q, want %q", query, list, want)
		}
	}
}

// Accents do not matter, and letters that stand for two are these.
func TestFindFolds(t *testing.T) {
	for text, queries := range map[string]string{
		"Straße":        "strasse STRASSE Straße STRAẞE strassen",
		"Café, naïve":   "cafe CAFÉ cafe\u0301 naive",
		"Łódź Øresund":  "lodz łódź oresund ØRESUND",
		"Übersetzung":   "ubersetzung übersetzung UBERSETZUNG uber",
		"Prévisions":    "previsions pre\u0301visions prevision",
		"đường phố":     "duong pho đường",
		"ædel œuvre":    "aedel oeuvre",
		"İstanbul":      "istanbul ISTANBUL ıstanbul",
		"Καιρός":        "καιρος ΚΑΙΡΟΣ καιρός",
		"ещё й":         "еще ЕЩЁ и",
		"مُدَرِّس أحمد": "مدرس احمد",
		"한국어":           "한국어 한국 \u1112\u1161\u11ab\u1100\u116e\u11a8",
		"ﬁle ２０":        "file 20",
		"हिन्दी":        "हिन्दी",
		"ガス":            "ガス",
	} {
		for query := range strings.FieldsSeq(queries) {
			if len(find(query, Texts{Description: text})) != 1 {
				t.Errorf("%s is not found in %s", query, text)
			}
		}
	}
	for query, text := range map[string]string{"カ": "ガス", "strase": "Strand"} {
		if len(find(query, Texts{Description: text})) != 0 {
			t.Errorf("%s is found in %s", query, text)
		}
	}
}

// Words are found inside of texts without spaces.
func TestFindInsideUnspaced(t *testing.T) {
	texts := []Texts{
		{Name: "thai", Description: "พยากรณ์อากาศวันพรุ่งนี้"},
		{Name: "invoice", Description: "สร้างใบแจ้งหนี้สำหรับลูกค้า 2024"},
		{Name: "lao", Description: "ພະຍາກອນອາກາດມື້ອື່ນ"},
		{Name: "khmer", Description: "ការព្យាករណ៍អាកាសធាតុ"},
		{Name: "burmese", Description: "မိုးလေဝသခန့်မှန်းချက်"},
		{Name: "chinese", Description: "天気予報と地図"},
		{Name: "mixed", Description: "ส่งSMSถึงลูกค้า"},
		{Name: "digits", Description: "ที่๔๙"},
	}
	for query, want := range map[string][]int{
		"อากาศ": {0}, "พยากรณ์": {0}, "พรุ่งนี้": {0}, "พยากรณ์ อากาศ": {0}, "ใบแจ้งหนี้": {1}, "ลูกค้า": {1, 6}, "ลูกค้า 2024": {1}, "sms": {6}, "พ": {0}, "ศ": {0}, "ลูก": {1, 6},
		"ອາກາດ": {2}, "ມື້ອື່ນ": {2}, "អាកាសធាតុ": {3}, "ခန့်မှန်း": {4}, "予報": {5}, "地図 天気": {5}, "ภาษี": nil, "๔๙": {7}, "๔": nil, "อากาศวันพรุ่งนี้": {0},
	} {
		if got := find(query, texts...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if got := queryWords(strings.Repeat("พยากรณ์อากาศ", 100)); len(got) > maxQueryWords {
		t.Errorf("%d words", len(got))
	}
}
