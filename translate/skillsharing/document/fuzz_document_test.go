package document_test

import (
	stdjson "encoding/json" // a second opinion on what a document says
	"reflect"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/cost"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/sample"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// FuzzIndex: an index or a registry's answer is refused as a whole or read in full,
// and the same list means the same in each of the forms in which it may come.
func FuzzIndex(f *testing.F) {
	for _, c := range indexCases() {
		f.Add(edited(f, acmeIndex, c.edits...))
	}
	for _, doc := range []string{
		``, `null`, `[]`, `{}`, `{"skills":[]}`, `{"skills":null}`, `{"skills":[{}]}`, `{"skills":{"a":1}}`, "\ufeff" + acmeIndex, acmeIndex + "x", strings.Repeat("[", 200),
		string(edited(f, acmeIndex, `/skills/1/id="acme/forecast"`)), string(edited(f, acmeIndex, `/skills/0/descriptor_url="file:///etc/passwd"`)), string(edited(f, acmeIndex, `/x={"y":[1]}`, `/skills/0/x=null`)), strings.Replace(acmeIndex, `"protocol"`, `"x":1e400,"protocol"`, 1),
		string(edited(f, acmeIndex, `/skills/0/id="acme/\u0000"`)), strings.Replace(acmeIndex, `"skills"`, `"skills":[],"skills"`, 1),
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		index, err := document.ParseIndex(doc)
		checkIndex(t, index, err)
		listed, err2 := document.Standard.ParseRegistry(doc)
		checkIndex(t, listed, err2)
		if err == nil && (err2 != nil || !reflect.DeepEqual(listed.Skills, index.Skills)) {
			t.Errorf("the index is read as %+v, and as a registry's answer as %+v: %v", index, listed, err2)
		}
		used, err3 := document.Standard.ReadIndex(doc)
		checkIndex(t, used, err3)
		if err == nil && !reflect.DeepEqual(used, index) || err3 == nil && (err2 != nil || !reflect.DeepEqual(used.Skills, listed.Skills)) {
			t.Errorf("the index is read as %+v, and for those who use it as %+v: %v", index, used, err3)
		}
		if err2 != nil {
			return
		}
		var said struct{ Skills stdjson.RawMessage }
		if stdjson.Unmarshal([]byte(strings.TrimPrefix(string(doc), "\ufeff")), &said) != nil {
			return // it is the list itself
		}
		alone, err := document.Standard.ParseRegistry(said.Skills)
		if err != nil || !reflect.DeepEqual(alone.Skills, listed.Skills) {
			t.Errorf("the list is read as %+v, and alone as %+v: %v", listed, alone, err)
		}
	})
}

func checkIndex(t *testing.T, index *document.Index, err error) {
	t.Helper()
	if (index == nil) == (err == nil) {
		t.Fatalf("index %+v and error %v", index, err)
	}
	if err != nil {
		if e := problem(t, err); e.Kind != run.InvalidDocument || !front.Details(e).IsValid() || e.Message == "" || len(front.Details(e)) > 1<<20 || e.Executed != run.ExecutedNo {
			t.Errorf("error %+v", e)
		}
		return
	}
	seen := map[string]bool{}
	for i, entry := range index.Skills {
		if entry.ID == "" || entry.DescriptorURL == "" || seen[entry.ID] {
			t.Errorf("entry %d: %+v", i, entry)
		}
		seen[entry.ID] = true
	}
}

// FuzzDescriptor: whatever a provider serves, reading it neither panics nor takes
// much, and what was read survives being serialized.
func FuzzDescriptor(f *testing.F) {
	for _, c := range descriptorCases() {
		f.Add(edited(f, forecast, c.edits...))
	}
	for _, c := range indexCases() {
		f.Add(edited(f, acmeIndex, c.edits...))
	}
	for _, schema := range []string{`{"$ref":"#"}`, `{"items":{"$ref":"#"},"pattern":"a+"}`, sample.Doubling(5, `{"allOf":[*,*]}`), `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`} {
		f.Add(edited(f, forecast, `/inputs/0/schema=`+schema, `/inputs/1/default=null`, `/x={"y":[1]}`))
	}
	for i := range 12 {
		f.Add(edited(f, forecast, `/inputs/0/schema=`+sample.Property(i)))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		cost.Cheap(t, "index", func() {
			_, _ = document.ParseIndex(doc)             // must not panic
			_, _ = document.Standard.ReadIndex(doc)     // must not panic
			_, _ = document.Standard.ParseRegistry(doc) // must not panic
		})
		cost.Cheap(t, "skill", func() { _, _ = discovery.NewSkill(doc, nil) }) // must not panic
		d, err := document.ParseDescriptor(doc)
		if err != nil {
			if e := problem(t, err); !front.Details(e).IsValid() || e.Message == "" || len(front.Details(e)) > 1<<20 {
				t.Errorf("error %+v", e)
			}
			return
		}
		if schema := inputs.InputSchema(d.Inputs); !schema.IsValid() {
			t.Errorf("input schema %s", schema)
		}
		s, err := discovery.NewSkill(doc, nil)
		if err != nil {
			t.Fatalf("skill of a valid descriptor: %v", err)
		}
		_ = s.CheckInputs(t.Context(), "", jsonrpc.Object{Text: doc}, nil) // must not panic
	})
}
