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
	key := schemaKey{text, new(Limits).schemaComplexity()}
	runtime.KeepAlive(one)
	runtime.KeepAlive(two)
	for range 10 {
		runtime.GC()
	}
	if s := sharedSchemas.get(key); s != nil {
		t.Error("kept without use")
	}
}

// What a shared schema costs counts for each descriptor that has it.
func TestSharedSchemasCount(t *testing.T) {
	costly := fmt.Sprintf(`{"type":"string","pattern":"^(%s){1,60}$"}`, strings.Repeat("[a-z]x", 40))
	one := []Parameter{{Name: "p0", Type: "string", Schema: []byte(costly)}}
	kept, err := CompileInputs(one)
	if err != nil {
		t.Fatal(err)
	}
	if n := kept.inputs[0].schema.instructions; n < 2000 || n > maxPatternInstructions/2 {
		t.Fatalf("%d instructions", n)
	}
	var many []Parameter
	for i := range 2 + maxPatternInstructions/kept.inputs[0].schema.instructions {
		many = append(many, Parameter{Name: fmt.Sprint("p", i), Type: "string", Schema: []byte(costly)})
	}
	if _, err := CompileInputs(many); err == nil {
		t.Error("there is no end to what a descriptor may use")
	}
	runtime.KeepAlive(kept)
}
