package skillsharing

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
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
	if compiledSchemas.bytes > compiledSchemas.most || compiledSchemas.order.Len() == 0 {
		t.Errorf("%d schemas take %d bytes", compiledSchemas.order.Len(), compiledSchemas.bytes)
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
