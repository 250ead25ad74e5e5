package document_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func TestParseIndex(t *testing.T) {
	index, err := document.ParseIndex([]byte("\ufeff" + acmeIndex))
	if err != nil {
		t.Fatal(err)
	}
	if len(index.Skills) != 2 || index.Provider.Name != "Acme" || index.Skills[1].ID != "acme/translate" || index.Skills[1].Access != document.Restricted || index.Skills[1].CapabilityType != document.Task {
		t.Errorf("got %+v", index)
	}
	if _, err := document.ParseIndex(edited(t, acmeIndex, `/protocol/version="7.0.0"`, `/new=[]`)); err != nil {
		t.Errorf("newer MAJOR: %v", err)
	}
	for _, edit := range []string{`/skills/1/id="acme/forecast"`, `/skills/1/access="x"`, `-/protocol`, `=[]`, `/provider/contact=1`} {
		index, err := document.ParseIndex(edited(t, acmeIndex, edit))
		if e := problem(t, err); index != nil || e.Kind != run.InvalidDocument || e.Phase != run.PhaseDiscovery || e.By != run.Bridge || e.Executed != run.ExecutedNo {
			t.Errorf("%s: got %+v, %+v", edit, index, e)
		}
	}
}

func TestParseRegistry(t *testing.T) {
	start, end := strings.Index(acmeIndex, "["), strings.LastIndex(acmeIndex, "]")+1
	list := acmeIndex[start:end]
	for name, doc := range map[string]string{
		"index": acmeIndex, "array": list, "object": `{"skills":` + list + `,"total":2}`, "with other members of any kind": `{"protocol":2,"provider":"x","skills":` + list + `}`,
	} {
		index, err := document.Standard.ParseRegistry([]byte(doc))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(index.Skills) != 2 || index.Skills[0].DescriptorURL != "https://acme.example/skills/forecast.json" {
			t.Errorf("%s: got %+v", name, index)
		}
	}
	for doc, want := range map[string]string{
		`{}`: "/skills must be an array of index entries", `{"skills":{}}`: "/skills must be an array of index entries",
		`7`: "the document must be an array of index entries", `null`: "the document must be an array of index entries",
		``:                          "the document is empty",
		`{"skills":[],"skills":[]}`: "/skills must not appear twice in one object",
		// None of the entries can be used: it is not an empty list.
		`["maintenance"]`: "/0 must be an object", `[7]`: "/0 must be an object", `[{}]`: "/0/access is required", `{"skills":[{"a":1}]}`: "/skills/0/access is required",
		`{"skills":[` + strings.Repeat(`null,`, 5000) + `null]}`: "/skills/0 must be an object",
	} {
		_, err := document.Standard.ParseRegistry([]byte(doc))
		place, rest, _ := strings.Cut(want, ", (")
		e := problem(t, err)
		if e.Kind != run.InvalidDocument || e.Phase != run.PhaseDiscovery || !strings.HasPrefix(e.Message, "Invalid registry document: "+place) || !strings.HasSuffix(e.Message, rest) {
			t.Errorf("%.60s: got %v, want %s", doc, e, want)
		}
	}
	for _, doc := range []string{`[]`, `{"skills":[]}`} {
		if index, err := document.Standard.ParseRegistry([]byte(doc)); err != nil || len(index.Skills) != 0 {
			t.Errorf("%s: %+v, %v", doc, index, err)
		}
	}
}

// TestReadIndexLeavesOut: the entries of an index are judged one by one, but not the rest of it.
func TestReadIndexLeavesOut(t *testing.T) {
	first, second := "acme/forecast", "acme/translate"
	entry := func(id string) string {
		return `{"id":"` + id + `","name":"n","description":"d","version":"1.0.0","capability_type":"api","access":"public","descriptor_url":"https://acme.example/x"}`
	}
	for edits, want := range map[[2]string]struct {
		skills []string // nil: the index is invalid
		id     string
		fault  string
		count  int
	}{
		{}:                               {skills: []string{first, second}},
		{`/skills/1/id="acme/forecast"`}: {fault: "/skills/0/id must be unique"}, // nothing is left
		{`/skills=[` + entry(first) + `,` + entry(second) + `,` + entry(first) + `,` + entry(first) + `]`}: {[]string{second}, first, "/skills/2/id must be unique, but /skills/0/id is the same", 3},
		{`/skills/1/access="x"`}:               {[]string{first}, second, "/skills/1/access must be equal to one of", 1},
		{`/skills/0=7`}:                        {[]string{second}, "", "/skills/0 must be an object", 1},
		{`/skills/0=null`, `/x={"y":[1]}`}:     {[]string{second}, "", "/skills/0 must be an object", 1},
		{`-/skills/0/version`}:                 {[]string{second}, first, "/skills/0/version is required", 1},
		{`/skills/0/name=["Forecast"]`}:        {[]string{second}, first, "/skills/0/name must be a string", 1},
		{`/skills/0/descriptor_url="d.json"`}:  {[]string{second}, first, "/skills/0/descriptor_url must be an absolute", 1},
		{`/skills/0/capability_type="agent"`}:  {[]string{second}, first, "/skills/0/capability_type must be equal to one of", 1},
		{`/skills/0=7`, `/skills/1/id=""`}:     {fault: "/skills/0 must be an object"}, // nothing is left
		{`/skills=[]`}:                         {skills: []string{}},
		{`/skills={}`}:                         {fault: "/skills must be an array"},
		{`-/skills`}:                           {fault: "/skills is required"},
		{`-/protocol`}:                         {fault: "/protocol is required"},
		{`-/provider`, `/skills/0=7`}:          {fault: "/provider is required"},
		{`/protocol/version=1`}:                {fault: "/protocol/version must be a string"},
		{`/provider/contact=1`, `/skills/1=7`}: {fault: "/provider/contact must be a string"},
		{`=[]`}:                                {fault: "the document must be an object"},
		{`=null`}:                              {fault: "the document must be an object"},
	} {
		doc := edited(t, acmeIndex, slices.DeleteFunc(edits[:], func(edit string) bool { return edit == "" })...)
		index, err := document.Standard.ReadIndex(doc)
		if want.skills == nil {
			if e := problem(t, err); index != nil || e.Kind != run.InvalidDocument || !strings.HasPrefix(e.Message, "Invalid SkillIndex document: "+want.fault) || len(e.Violations) == 0 {
				t.Errorf("%q: got %+v, %v", edits, index, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", edits, err)
			continue
		}
		got := []string{}
		for _, s := range index.Skills {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, want.skills) || index.LeftOutCount != want.count || len(index.LeftOut) != want.count || index.Provider.Name != "Acme" || index.Protocol.Version != "1.0.0" {
			t.Errorf("%q: got %q, %+v", edits, got, index)
		}
		if want.count > 0 {
			if left := index.LeftOut[0]; left.ID != want.id || !strings.HasPrefix(left.Fault.Path+" "+left.Fault.Message, want.fault) {
				t.Errorf("%q: the first is %+v", edits, left)
			}
		}
		if strict, err := document.ParseIndex(doc); (err == nil) != (want.count == 0) {
			t.Errorf("%q: as a document: %+v, %v", edits, strict, err)
		}
	}
}

// TestParseRegistryLeavesOut: entries of a registry are judged one by one.
func TestParseRegistryLeavesOut(t *testing.T) {
	list := acmeIndex[strings.Index(acmeIndex, "[") : strings.LastIndex(acmeIndex, "]")+1]
	first, second := "acme/forecast", "acme/translate"
	for doc, want := range map[string]struct {
		skills []string
		id     string
		fault  string
		count  int
	}{
		string(edited(t, acmeIndex, `/skills/1/id="acme/forecast"`)):                             {[]string{first}, first, "/skills/1/id must be unique, but /skills/0/id is the same", 1},
		string(edited(t, list, `/1/id="acme/forecast"`)):                                         {[]string{first}, first, "/1/id must be unique, but /0/id is the same", 1},
		string(edited(t, list, `/1/id="acme/forecast"`, `/0/descriptor_url=7`)):                  {[]string{first}, first, "/0/descriptor_url must be a string", 1},
		string(edited(t, list, `/1/descriptor_url="translate.json"`)):                            {[]string{first}, second, "/1/descriptor_url must be an absolute http or https URL with a host", 1},
		string(edited(t, list, `/0/id=7`)):                                                       {[]string{second}, "", "/0/id must be a string", 1},
		string(edited(t, list, `/0/id="`+strings.Repeat("x", 600)+`"`)):                          {[]string{second}, strings.Repeat("x", 512) + "…", "/0/id must have at most 512 bytes", 1},
		"[" + strings.Repeat(`7,`, 5000) + list[1:]:                                              {[]string{first, second}, "", "/0 must be an object", 5000},
		`{"skills":[` + strings.Repeat(`{"id":"a/b"},`, 500) + list[1:len(list)-1] + `],"x":[]}`: {[]string{first, second}, "a/b", "/skills/0/access is required", 500},
	} {
		index, err := document.Standard.ParseRegistry([]byte(doc))
		if err != nil {
			t.Errorf("%.60s: %v", doc, err)
			continue
		}
		var got []string
		for _, s := range index.Skills {
			got = append(got, s.ID)
		}
		left := index.LeftOut[0]
		if !slices.Equal(got, want.skills) || index.LeftOutCount != want.count || len(index.LeftOut) != min(want.count, 100) || left.ID != want.id || left.Fault.Path+" "+left.Fault.Message != want.fault {
			t.Errorf("%.60s: got %q, %d left out, the first is %+v", doc, got, index.LeftOutCount, left)
		}
	}
}
