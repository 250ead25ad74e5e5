package schema

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// someLimits are those that hold where the operator has set none, for descriptors of an owner.
func someLimits(room *Schemas, owner string) Limits {
	return Limits{Owner: owner, Size: 64 << 10, Pool: room}
}

// compiledBy compiles the text of a schema.
func compiledBy(tb testing.TB, c *Compiler, text string) (*Schema, bool) {
	tb.Helper()
	value, flaw := jsonvalue.Read([]byte(text), jsonvalue.Bounds{Depth: maxSchemaDepth, Values: 10_000})
	if flaw != nil {
		tb.Fatal(flaw)
	}
	s, flaws := c.Compile([]byte(text), value.(map[string]any), "")
	return s, flaws == nil
}

// compiledAlone compiles the text of a schema that is the only one of its descriptor.
func compiledAlone(t *testing.T, l Limits, text string) *Schema {
	t.Helper()
	s, valid := compiledBy(t, NewCompiler(l), text)
	if !valid {
		t.Fatalf("invalid: %s", text)
	}
	return s
}

// A schema whose compiled form was given up for others is compiled again, and the pool forgets one that is no longer in use.
func TestSchemasAreGivenUp(t *testing.T) {
	room := NewSchemas(1 << 20)
	compile := func(schema string) *Schema { return compiledAlone(t, someLimits(room, ""), schema) }
	one := compile(`{"type":"string","pattern":"^given-up-[a-z]+$"}`)
	for i := 0; one.compiled.Load() != nil; i++ {
		compile(fmt.Sprintf(`{"type":"string","pattern":"^(%s|%d){1,60}$"}`, strings.Repeat("[a-z]x", 40), i))
	}
	compiled, err := one.CompileAgain()
	for range 10 { // to make room, the pool may drop any, also the newest
		if err == nil && one.Ready() == nil {
			compiled, err = one.CompileAgain()
		}
	}
	if err != nil || one.Ready() != compiled {
		t.Fatalf("%p, %p: %v", one.Ready(), compiled, err)
	}
	if f, err := compiled.Validate("given-up-x"); f != nil || err != nil {
		t.Errorf("%v, %v", f, err)
	}
	if f, err := compiled.Validate("x"); f == nil || err != nil {
		t.Errorf("%v, %v", f, err)
	}
	bytes := func() int {
		room.mu.Lock()
		defer room.mu.Unlock()
		return room.bytes
	}
	if bytes() > room.most || bytes() == 0 {
		t.Errorf("they take %d bytes", bytes())
	}
	for tries := 0; bytes() != compiled.bytes; tries++ { // the others are not in use
		if tries == 1000 {
			t.Fatalf("%d bytes are kept, but only %d are in use", bytes(), compiled.bytes)
		}
		runtime.GC()
		runtime.Gosched()
	}
	runtime.KeepAlive(one)
}

// schemaOwnedBy returns a schema of a descriptor of an owner.
func schemaOwnedBy(t *testing.T, room *Schemas, owner string, nth int) *Schema {
	t.Helper()
	return compiledAlone(t, someLimits(room, owner), fmt.Sprintf(`{"type":"string","title":"%d","pattern":"^(%s){1,20}$"}`, nth, strings.Repeat("[a-z]x", 40)))
}

// Those of 140 skills with 60 properties each have room in a cache of the default size,
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
		{"numbers", 140, true, number},
		{"texts", 140, true, func(skill, i int) string { return fmt.Sprintf(`{"type":"string","title":"%d %d"}`, skill, i) }},
		{"lengths", 140, true, func(skill, _ int) string { return fmt.Sprintf(`{"minLength":1,"maxLength":%d}`, skill) }},
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
			room := NewSchemas(64 << 20 / 6)
			before := heapInUse()
			var all []*Schema
			for skill := range c.skills {
				var properties []string
				for i := range 60 {
					properties = append(properties, fmt.Sprintf(`"amount_%d":%s`, i, c.property(skill, i)))
				}
				text := fmt.Sprintf(`{"title":"%d","properties":{%s}}`, skill, strings.Join(properties, ","))
				all = append(all, compiledAlone(t, someLimits(room, ""), text))
			}
			taken, said, compiled := heapInUse()-before, room.bytes, 0
			for _, s := range all {
				taken -= int(unsafe.Sizeof(Schema{})+unsafe.Sizeof(slot{})) + len(s.text)
				if s.compiled.Load() != nil {
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

// heapInUse is the memory in use, once what was cleaned up is gone, too.
func heapInUse() int {
	var now runtime.MemStats
	for least := uint64(math.MaxUint64); ; least = now.HeapAlloc {
		runtime.GC()
		runtime.GC()
		if runtime.ReadMemStats(&now); now.HeapAlloc+64<<10 > least {
			return int(now.HeapAlloc)
		}
	}
}

// What one source publishes takes the place of no other's compiled schemas, and of a
// few more than there is room for, used in turn, most are found.
func TestShareOfASource(t *testing.T) {
	room := NewSchemas(standardMemory)
	var quiet, loud []*Schema
	for i := range 3 {
		quiet = append(quiet, schemaOwnedBy(t, room, "quiet", i))
	}
	each := room.bytes / 3
	for i := range room.most / each * 5 / 4 {
		loud = append(loud, schemaOwnedBy(t, room, "loud", i))
	}
	for _, s := range quiet {
		if s.compiled.Load() == nil {
			t.Error("a schema of another source was given up")
		}
	}
	found := 0
	for range 4 {
		for _, s := range loud {
			if s.compiled.Load() != nil {
				found++
			}
			if s.Ready() == nil {
				if _, err := s.CompileAgain(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if found < 2*len(loud) {
		t.Errorf("%d of %d were found", found, 4*len(loud))
	}
	if room.bytes > room.most {
		t.Errorf("%d bytes", room.bytes)
	}
}
