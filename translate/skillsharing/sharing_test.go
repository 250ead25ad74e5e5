package skillsharing

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// The compiled schemas of descriptors that are alike are shared, for as long as there is one.
func TestSchemasAreShared(t *testing.T) {
	compile := func(schema string) *parameterSchema {
		t.Helper()
		in, err := CompileInputs([]Parameter{{Name: "a", Type: "string", Schema: []byte(schema)}})
		if err != nil {
			t.Fatal(err)
		}
		return in.inputs[0].schema
	}
	const text = `{"type":"string","pattern":"^shared-[a-z]+$"}`
	one, two, other := compile(text), compile(text), compile(`{"type":"string","pattern":"^shared-[a-y]+$"}`)
	if one != two || one == other {
		t.Errorf("%p, %p, %p", one, two, other)
	}
	limits := Limits{SchemaComplexity: 100}
	strict, err := limits.compileInputs([]Parameter{{Name: "a", Type: "string", Schema: []byte(text)}})
	if err != nil || strict.inputs[0].schema == one {
		t.Errorf("shared with those that are held to another limit (%v)", err)
	}
	// One whose compiled form was given up for others is compiled again, and is still
	// the one of all.
	forgotten := one
	for i := 0; forgotten.compiled.Load() != nil; i++ {
		compile(fmt.Sprintf(`{"type":"string","pattern":"^(%s|%d){1,60}$"}`, strings.Repeat("[a-z]x", 40), i))
	}
	if again := compile(text); again != one || again.compiled.Load() != nil {
		t.Errorf("%p, %p", again, one)
	}
	in := &Inputs{most: standard.argumentSteps(), inputs: []input{{name: "a", schema: one}}}
	if e := in.Check([]byte(`{"a":"shared-x"}`)); e != nil || one.compiled.Load() == nil {
		t.Errorf("%v", e)
	}
	if e := in.Check([]byte(`{"a":"x"}`)); e == nil {
		t.Error("no error")
	}
	if compiledSchemas.bytes > compiledSchemas.most || compiledSchemas.bytes == 0 {
		t.Errorf("they take %d bytes", compiledSchemas.bytes)
	}
	runtime.KeepAlive(two)
}

// What a shared schema costs counts for each descriptor that has it.
func TestSharedSchemasCount(t *testing.T) {
	costly := fmt.Sprintf(`{"type":"string","pattern":"^(%s){1,20}$"}`, strings.Repeat("[a-z]x", 40))
	one := []Parameter{{Name: "p0", Type: "string", Schema: []byte(costly)}}
	kept, err := CompileInputs(one)
	if err != nil {
		t.Fatal(err)
	}
	all := standard.schemaEffort()
	n := kept.inputs[0].schema.effort
	if n < 10_000 || n > all/2 {
		t.Fatalf("%d steps", n)
	}
	var many []Parameter
	for i := range 2 + all/n {
		many = append(many, Parameter{Name: fmt.Sprint("p", i), Type: "string", Schema: []byte(costly)})
	}
	if _, err := CompileInputs(many); err == nil {
		t.Error("there is no end to what a descriptor may use")
	}
	runtime.KeepAlive(kept)
}

// inputsIn returns the inputs of a descriptor of an owner, with a schema of its own.
func inputsIn(t *testing.T, room *Schemas, owner string, nth int) *Inputs {
	t.Helper()
	limits := DefaultLimits()
	limits.Schemas, limits.owner = room, owner
	schema := fmt.Sprintf(`{"type":"string","title":"%d","pattern":"^(%s){1,20}$"}`, nth, strings.Repeat("[a-z]x", 40))
	in, err := limits.compileInputs([]Parameter{{Name: "a", Type: "string", Schema: []byte(schema)}})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// That a schema was given up for others does not make a request dearer: its checks are
// judged as those of a request that came before.
func TestCompilingAgainIsFree(t *testing.T) {
	in := inputsIn(t, NewSchemas(0), "", 1)
	s := in.inputs[0].schema
	in.most = int64(s.effort) / 2
	checked := func() int64 {
		t.Helper()
		var checks Checks
		if e := in.check(t.Context(), asker{}, []byte(`{"a":"x"}`), &checks); e == nil || e.Argument.Reason != "schema" {
			t.Fatalf("%v", e)
		}
		return checks.steps.Load()
	}
	before := checked()
	s.pool.mu.Lock()
	for len(s.pool.owners) > 0 {
		s.pool.giveUp()
	}
	s.pool.mu.Unlock()
	if after := checked(); after != before || s.compiled.Load() == nil {
		t.Errorf("%d steps, before %d", after, before)
	}
}

// Those of 200 skills with 60 properties each have room in a cache of the default size,
// and what they take is what they are said to.
func TestWeightOfSchemas(t *testing.T) {
	number := func(skill, i int) string {
		return fmt.Sprintf(`{"type":"number","minimum":0,"maximum":1000000,"description":"Amount %d of %d."}`, i, skill)
	}
	for _, c := range []struct {
		name     string
		skills   int
		fits     bool // all have room
		property func(skill, i int) string
	}{
		{"numbers", 200, true, number},
		{"texts", 200, true, func(skill, i int) string { return fmt.Sprintf(`{"type":"string","title":"%d %d"}`, skill, i) }},
		{"lengths", 200, true, func(skill, _ int) string { return fmt.Sprintf(`{"minLength":1,"maxLength":%d}`, skill) }},
		{"patterns", 20, false, func(skill, i int) string { return fmt.Sprintf(`{"pattern":"^[a-f]{%d}-%d$"}`, i, skill) }},
		{"values", 50, true, func(skill, i int) string { return fmt.Sprintf(`{"enum":["a",%d,{"b":[%d]},null]}`, skill, i) }},
		{"one after another", 100, false, func(int, int) string { return `{"not":{"items":{"if":{"required":["a","b"]}}}}` }},
		{"maps", 50, false, func(int, int) string {
			return `{"properties":{"a":true},"dependentRequired":{"b":["c"]},"patternProperties":{"x":false},"dependentSchemas":{"d":true}}`
		}},
		{"unusual keywords", 50, false, func(skill, _ int) string {
			return fmt.Sprintf(`{"unevaluatedProperties":{"const":{"a":{"b":[%d]}}},"properties":{"a":{}}}`, skill)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits := DefaultLimits()
			limits.Schemas = NewSchemas(64 << 20)
			before := heapInUse()
			var all []*Inputs
			for skill := range c.skills {
				var properties []string
				for i := range 60 {
					properties = append(properties, fmt.Sprintf(`"amount_%d":%s`, i, c.property(skill, i)))
				}
				text := fmt.Sprintf(`{"title":"%d","properties":{%s}}`, skill, strings.Join(properties, ","))
				in, err := limits.compileInputs([]Parameter{{Name: "a", Type: "object", Schema: []byte(text)}})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, in)
			}
			taken, said, compiled := heapInUse()-before, limits.Schemas.bytes, 0
			for _, in := range all {
				taken -= int(unsafe.Sizeof(parameterSchema{})) + len(in.inputs[0].schema.text)
				if in.inputs[0].schema.compiled.Load() != nil {
					compiled++
				}
			}
			if c.fits && compiled < c.skills {
				t.Errorf("%d of %d have room", compiled, c.skills)
			}
			t.Logf("%d skills: %d bytes, said to be %d", compiled, taken, said)
			if said < taken*95/100 || said > 3*taken {
				t.Errorf("%d bytes are said to be %d", taken, said)
			}
			runtime.KeepAlive(all)
		})
	}
}

// heapInUse is the memory in use.
func heapInUse() int {
	var now runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&now)
	return int(now.HeapAlloc)
}

// What one source publishes takes the place of no other's compiled schemas, and of a
// few more than there is room for, used in turn, most are found.
func TestShareOfASource(t *testing.T) {
	room := NewSchemas(0)
	var quiet, loud []*Inputs
	for i := range 3 {
		quiet = append(quiet, inputsIn(t, room, "quiet", i))
	}
	each := room.bytes / 3
	for i := range room.most / each * 5 / 4 {
		loud = append(loud, inputsIn(t, room, "loud", i))
	}
	for _, in := range quiet {
		if in.inputs[0].schema.compiled.Load() == nil {
			t.Error("a schema of another source was given up")
		}
	}
	found := 0
	for range 4 {
		for _, in := range loud {
			if in.inputs[0].schema.compiled.Load() != nil {
				found++
			}
			in.Check([]byte(`{"a":"x"}`))
		}
	}
	if found < 2*len(loud) {
		t.Errorf("%d of %d were found", found, 4*len(loud))
	}
	if room.bytes > room.most {
		t.Errorf("%d bytes", room.bytes)
	}
}

// The room for compiled schemas follows the size of the cache.
func TestRoomForSchemas(t *testing.T) {
	for documents, want := range map[int64]int{1: 8 << 20, 60 << 20: 10 << 20, 600 << 20: 100 << 20} {
		if got := NewSchemas(documents).most; got != want {
			t.Errorf("%d: %d", documents, got)
		}
	}
}
