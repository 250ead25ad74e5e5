package attacks_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// each is a list of n values.
func each[T any](n int, value func(i int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = value(i)
	}
	return all
}

// properties is a schema with n properties.
func properties(n int, schema func(i int) any) hostile.Object {
	all := make(hostile.Object, n)
	for i := range n {
		all["p"+strconv.Itoa(i)] = schema(i)
	}
	return hostile.Object{"properties": all}
}

// costlySchema makes schemas that take much to compile. Each is another one.
type costlySchema struct {
	name     string
	accepted bool
	schema   func(nth int) hostile.Object
}

// costly are schemas that take much to compile, those that are accepted nearly as
// much as may be. Each is another one.
var costly = []costlySchema{
	{"a class in 990 instructions, 200 times", false, func(nth int) hostile.Object {
		return properties(200, func(i int) any { return hostile.Object{"pattern": fmt.Sprintf(`^\p{L}{990}%d %d$`, nth, i)} })
	}},
	{"a class in 990 instructions", true, func(nth int) hostile.Object {
		return properties(70, func(i int) any { return hostile.Object{"pattern": fmt.Sprintf(`^\p{L}{990}%d %d$`, nth, i)} })
	}},
	{"patterns that are matched in one pass", true, func(nth int) hostile.Object {
		return properties(350, func(i int) any { return hostile.Object{"pattern": fmt.Sprintf(`^[a-cx-z]{60}%d %d$`, nth, i)} })
	}},
	{"classes in alternatives", true, func(nth int) hostile.Object {
		return hostile.Object{"pattern": "^(" + strings.Repeat(`\p{L}|`, 80) + strconv.Itoa(nth) + ")$"}
	}},
	{"alternatives", true, func(nth int) hostile.Object {
		return properties(2, func(i int) any {
			return hostile.Object{"pattern": "(" + strings.Repeat(`\W|`, 1300) + strconv.Itoa(10*nth+i) + ")"}
		})
	}},
	// An anchor is for the library to find.
	{"2,000 schemas", false, func(nth int) hostile.Object {
		return hostile.Object{"$anchor": "a" + strconv.Itoa(nth), "allOf": each(2000, func(int) any { return true })}
	}},
	{"schemas", true, func(nth int) hostile.Object {
		return hostile.Object{"$anchor": "a" + strconv.Itoa(nth), "allOf": each(1200, func(int) any { return true })}
	}},
	{"items of items", true, func(nth int) hostile.Object {
		return properties(40, func(int) any {
			var s any = hostile.Object{"maxLength": nth}
			for range 28 {
				s = hostile.Object{"items": s}
			}
			return s
		})
	}},
	{"1,900 references to the whole", true, func(nth int) hostile.Object {
		s := properties(1900, func(int) any { return hostile.Object{"$ref": "#"} })
		s["title"] = strconv.Itoa(nth)
		return s
	}},
	{"properties", true, func(nth int) hostile.Object {
		s := properties(500, func(int) any { return hostile.Object{"type": "string"} })
		s["$anchor"] = "a" + strconv.Itoa(nth)
		return s
	}},
	{"properties of the usual kind", true, func(nth int) hostile.Object {
		return properties(300, func(i int) any { return hostile.Object{"minimum": i, "maximum": nth} })
	}},
	{"references to the whole", true, func(nth int) hostile.Object {
		s := properties(240, func(int) any { return hostile.Object{"$ref": "#"} })
		s["title"] = strconv.Itoa(nth)
		return s
	}},
	{"anchors", true, func(nth int) hostile.Object {
		s := properties(400, func(i int) any { return hostile.Object{"$anchor": "a" + strconv.Itoa(i)} })
		s["title"] = strconv.Itoa(nth)
		return s
	}},
	{"values", true, func(nth int) hostile.Object {
		return hostile.Object{"enum": each(4000, func(i int) any { return nth*4000 + i })}
	}},
	{"a long name", true, func(nth int) hostile.Object {
		return hostile.Object{"$anchor": "a", "properties": hostile.Object{strings.Repeat("n", 20_000): hostile.Object{"allOf": each(8, func(int) any { return hostile.Object{"title": strconv.Itoa(nth)} })}}}
	}},
}

// bulky are more of the same, whose documents take more memory than what they are compiled into.
var bulky = []costlySchema{
	{"many properties", true, func(nth int) hostile.Object {
		s := properties(700, func(int) any { return hostile.Object{"type": "string"} })
		s["$anchor"] = "a" + strconv.Itoa(nth)
		return s
	}},
	{"many properties of the usual kind", true, func(nth int) hostile.Object {
		return properties(1000, func(i int) any { return hostile.Object{"minimum": i, "maximum": nth} })
	}},
	{"many references to the whole", true, func(nth int) hostile.Object {
		s := properties(1200, func(int) any { return hostile.Object{"$ref": "#"} })
		s["title"] = strconv.Itoa(nth)
		return s
	}},
	{"many anchors", true, func(nth int) hostile.Object {
		s := properties(550, func(i int) any { return hostile.Object{"$anchor": "a" + strconv.Itoa(i)} })
		s["title"] = strconv.Itoa(nth)
		return s
	}},
}

// describing is a batch that describes skills.
func describing(ids []string) string {
	var calls []string
	for i, id := range ids {
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"describe_skill","params":{"name":%q}}`, i, "acme."+id))
	}
	return "[" + strings.Join(calls, ",") + "]"
}

// refusesWork reports whether a message says that a schema takes too much work.
func refusesWork(message string) bool {
	return strings.Contains(message, "so much work to compile") || strings.Contains(message, "so many subschemas") || strings.Contains(message, "it is too complex, or all patterns")
}

// S43: whatever the schemas of descriptors are compiled into, 200 of them take little
// memory, by whichever way they are read: more is refused, by the name of a limit. What
// is bounded is what is kept after each step, without garbage, and what the process has
// occupied at most, with it: the collector lets garbage be as much as what is in use.
func TestS43MemoryOfSchemas(t *testing.T) {
	t.Parallel()
	if raced {
		t.Skip("memory is measured without the race detector")
	}
	const kept, peak = 48 << 20, 128 << 20
	kinds, skills := costly[:2], 50 // which take more than is kept, too, if nothing bounds them
	if longtest.Runs(longtest.Long) {
		kinds, skills = costly, 200
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			published := []hostile.Skill{{ID: "plain"}}
			var ids []string
			for i := range skills {
				ids = append(ids, fmt.Sprintf("s%d", i))
				published = append(published, hostile.Skill{ID: ids[i], Edit: inputs(kind.schema(i))})
			}
			provider := hostile.NewProvider(t, published...)
			p := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("browse", "provider "+provider.URL()+" {\n\tnamespace acme\n}"))
			for range 20 {
				mustComplete(t, p.Execute("acme.plain", nil))
				p.Post(describing(slices.Repeat([]string{"plain"}, 20)))
			}
			before, occupied := p.InUse(), p.RSS()
			check := func(what string) {
				t.Helper()
				atMost := highWater(t, p.PID()) - occupied // before garbage is collected
				inUse := p.InUse() - before
				t.Logf("%s: %.1f MiB more are kept, and %d MiB more have been occupied", what, float64(inUse)/(1<<20), atMost>>20)
				if inUse > kept || atMost > peak {
					t.Fatalf("%s: %d MiB more are kept, and %d MiB more have been occupied", what, inUse>>20, atMost>>20)
				}
			}
			a := p.Call("describe_skill", hostile.Object{"name": "acme.s0"})
			check("one descriptor")
			if kind.accepted != (a.Code == 0) || !kind.accepted && !refusesWork(a.Message) {
				t.Fatalf("%.600s", a.String())
			}
			for some := range slices.Chunk(ids, 20) {
				if a := p.Post(describing(some)); a.Status != http.StatusOK {
					t.Fatalf("%.600s", a.String())
				}
			}
			check("descriptors by batches")
			page := p.Client.With(testbed.Header("Accept", "text/html"))
			for range 3 {
				if a := page.Send(http.MethodGet, p.URL, ""); a.Status != http.StatusOK {
					t.Fatalf("%.600s", a.String())
				}
			}
			check("the page")
			for _, id := range ids { // which needs the compiled schema
				if a := p.Execute("acme."+id, hostile.Object{"x": 1}); kind.accepted && a.Outcome() == "VALIDATION_ERROR" {
					t.Fatalf("%.600s", a.String())
				}
			}
			check("calls")
		})
	}
}

// S44: judging a descriptor takes little of the processor, however it ends, and
// nothing of it goes on for long after the call has ended.
func TestS44WorkOfSchemas(t *testing.T) {
	const trials, skills = 3, 10
	const most = 25 * time.Millisecond // for a descriptor, with its call
	for _, kind := range some(5, slices.Concat(costly, bulky)) {
		t.Run(kind.name, func(t *testing.T) {
			var published []hostile.Skill
			var ids []string
			for i := range trials * skills {
				ids = append(ids, fmt.Sprintf("s%d", i))
				schema := kind.schema(i)
				published = append(published, hostile.Skill{ID: ids[i], Edit: func(d hostile.Object) {
					inputs(schema)(d)
					if !kind.accepted { // as many as may have so many values
						d["inputs"] = append(d["inputs"].([]hostile.Object), hostile.Object{"name": "y", "type": "any", "description": "Y.", "required": false, "schema": schema})
					}
				}})
			}
			provider := hostile.NewProvider(t, published...)
			p := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("provider "+provider.URL()+" {\n\tnamespace acme\n}"))
			p.Names()
			took := time.Hour // the least of all trials: whatever else the machine does only adds to it
			for some := range slices.Chunk(ids, skills) {
				needed := testbed.Ordinary(t, p.CPU)
				var calls []string
				for i, id := range some {
					calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"execute_skill","params":{"name":%q,"timeout_ms":1}}`, i, "acme."+id))
				}
				p.Post("[" + strings.Join(calls, ",") + "]")
				var a testbed.Answer
				testbed.Eventually(t, time.Minute, func() bool { // waits for what is still being read
					a = p.Post(describing(some))
					return !strings.Contains(string(a.Body), "too busy to check it in time")
				}, "the descriptors are checked")
				took = min(took, needed()/skills)
				var answers []struct {
					Error *struct {
						Message string `json:"message"`
					} `json:"error"`
				}
				if err := json.Unmarshal(a.Body, &answers); err != nil || len(answers) != skills {
					t.Fatalf("%v: %.600s", err, a.String())
				}
				for _, one := range answers {
					if kind.accepted != (one.Error == nil) || !kind.accepted && !refusesWork(one.Error.Message) {
						t.Fatalf("%+v", one.Error)
					}
				}
				if took <= most {
					break
				}
			}
			t.Logf("%s for each", took)
			if took > most {
				t.Errorf("a descriptor takes %s of the processor", took)
			}
		})
	}
}

// S53: what checking arguments takes is bounded for a request as a whole, a batch or
// not, and an ordinary argument of the largest size is checked.
func TestS53WorkOfChecks(t *testing.T) {
	record := func(i int) any {
		return hostile.Object{"id": i, "name": "Somebody or other, with a name", "active": true, "tags": []any{"a", "b"}}
	}
	list := func(n int, item func(i int) any) []any { return each(n, item) }
	of := func(item hostile.Object) hostile.Object { return hostile.Object{"type": "array", "items": item} }
	collide := func(i int) any { // other items of the same hash: the library writes no lengths
		var items []any
		text := "a"
		for bit := range 14 {
			if i>>bit&1 == 1 {
				items, text = append(items, text), "a"
			} else {
				text += "\x04a"
			}
		}
		return append(items, text)
	}
	type check struct {
		name   string
		schema hostile.Object
		x      any
		reason string // empty: the call is completed
	}
	few := 4
	if raced {
		few = 2
	}
	for _, test := range some(few, []check{
		{"records", of(hostile.Object{"type": "object", "required": []any{"id"}, "properties": hostile.Object{
			"id": hostile.Object{"type": "integer", "minimum": 0}, "name": hostile.Object{"type": "string", "pattern": "^[A-Za-z ,]{1,80}$"},
			"active": hostile.Object{"type": "boolean"}, "tags": of(hostile.Object{"type": "string"}),
		}}), list(9000, record), ""},
		{"a text", hostile.Object{"type": "string", "pattern": "^[A-Za-z0-9+/]*=*$"}, strings.Repeat("QUJD", 260_000), ""},
		{"a costly pattern", hostile.Object{"type": "string", "pattern": "([a-z]+[0-9]*){50,300}$"}, strings.Repeat("a", 1_000_000), "argument_complexity"},
		{"numbers to compare", of(hostile.Object{"enum": each(2000, func(i int) any { return i + 1_000_000 })}), list(40_000, func(i int) any { return i }), "argument_complexity"},
		{"members that are missing", of(hostile.Object{"required": each(1000, func(i int) any { return "v" + strconv.Itoa(i) })}), list(15_000, func(int) any { return hostile.Object{} }), "argument_complexity"},
		{"members that are not evaluated", hostile.Object{"allOf": each(50, func(i int) any {
			return hostile.Object{"properties": hostile.Object{"a" + strconv.Itoa(i): hostile.Object{}}}
		}), "unevaluatedProperties": hostile.Object{"type": "string"}}, properties(90_000, func(i int) any { return i })["properties"], "argument_complexity"},
		{"unique items of one hash", hostile.Object{"type": "array", "uniqueItems": true}, list(9000, collide), "argument_complexity"},
		{"unique items that are long", hostile.Object{"type": "array", "uniqueItems": true}, list(20, func(i int) any {
			return append(each(9000, func(int) any { return 1.5 }), i)
		}), "argument_complexity"},
	}) {
		t.Run(test.name, func(t *testing.T) {
			provider := hostile.NewProvider(t, hostile.Skill{ID: "plain"}, hostile.Skill{ID: "checked", Edit: inputs(test.schema)})
			p := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("max_request_size 60MiB", "provider "+provider.URL()+" {\n\tnamespace acme\n}"))
			mustComplete(t, p.Execute("acme.plain", nil))
			before := p.CPU()
			a := p.Execute("acme.checked", hostile.Object{"x": test.x})
			one := p.CPU() - before
			if test.reason == "" && a.Outcome() != "completed" || test.reason != "" && (!strings.Contains(a.Message, "would take too much work to check against its schema") ||
				string(a.Data.Details) != `{"limit":"`+test.reason+`","max":100000000}` || a.Data.Reason != "limit" || a.Data.Executed != "no" || a.Data.Next != "fix_params") {
				t.Errorf("%.600s", a.String())
			}
			if test.reason != "" {
				testbed.Eventually(t, 30*time.Second, func() bool { return len(p.Log.Lines("would take too much work", `"level":"warn"`)) > 0 }, "the operator is warned")
			}
			call, err := json.Marshal(hostile.Object{"jsonrpc": "2.0", "id": 1, "method": "execute_skill", "params": hostile.Object{"name": "acme.checked", "args": hostile.Object{"x": test.x}}})
			if err != nil {
				t.Fatal(err)
			}
			before = p.CPU()
			p.Post("[" + strings.Join(slices.Repeat([]string{string(call)}, 50), ",") + "]")
			batch := p.CPU() - before
			t.Logf("%s for one, %s for a batch of 50, of %d KiB each", one, batch, len(call)>>10)
			if one > 2*time.Second*costlier || batch > 6*time.Second*costlier {
				t.Errorf("%s for one, %s for a batch", one, batch)
			}
			mustComplete(t, p.Execute("acme.plain", nil))
		})
	}
}
