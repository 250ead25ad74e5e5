package lint

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/ecma"
)

// Bounds of the documents whose names are compared.
const (
	maxDepth  = 100
	maxValues = 500_000
)

// misspelt adds a warning about each unknown member of a document whose name resembles one that its object may have, or is one of another
// object. t is the Go type of the document. The document may be invalid; if it is not JSON, there are no warnings.
func (w *warnings) misspelt(text []byte, t reflect.Type) {
	value, flaw := jsonvalue.Read(document.WithoutBOM(text), jsonvalue.Bounds{Depth: maxDepth, Values: maxValues})
	if flaw == nil {
		k := known{map[reflect.Type]members{}, map[string]string{}}
		k.find("", t)
		w.compare("", value, t, k)
	}
}

// known is what is known of the objects of a document.
type known struct {
	members map[reflect.Type]members
	// places are the objects that have a member, by its name; empty: several have one of this name. Items of arrays are left out.
	places map[string]string
}

// find adds the members of a type, whose object is at a path, and of the objects in it.
func (k known) find(path string, t reflect.Type) {
	for name, member := range membersOf(t).types {
		if _, several := k.places[name]; several {
			k.places[name] = ""
		} else {
			k.places[name] = path
		}
		if member.Kind() == reflect.Pointer {
			member = member.Elem()
		}
		if member.Kind() == reflect.Struct {
			k.find(path+"/"+name, member)
		}
	}
}

// members are those that an object of the protocol may have.
type members struct {
	types map[string]reflect.Type // by their names
	index *near.Index
}

// compare compares the names in a value with those of a type.
func (w *warnings) compare(path string, value any, t reflect.Type, k known) {
	if len(w.found) >= maxWarnings {
		return
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := value.(type) {
	case []any:
		if t.Kind() != reflect.Slice || t.Elem().Kind() != reflect.Struct {
			return
		}
		for i, item := range value {
			w.compare(path+"/"+strconv.Itoa(i), item, t.Elem(), k)
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return
		}
		m, ok := k.members[t]
		if !ok {
			m = membersOf(t)
			k.members[t] = m
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			at := path + jsonvalue.Pointer([]string{name})
			if own, ok := m.types[name]; ok {
				w.compare(at, value[name], own, k)
			} else if place := k.places[name]; place != "" {
				w.add(at, "is no member of the protocol here, so it is ignored; did you mean "+place+"/"+name+"?")
			} else if meant := near.Find(name, m.index); len(meant) > 0 {
				w.add(at, "is no member of the protocol, so it is ignored; did you mean "+meant[0]+"?")
			}
		}
	}
}

// membersOf returns the members of a type.
func membersOf(t reflect.Type) members {
	m := members{types: map[string]reflect.Type{}}
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			m.types[name] = f.Type
		}
	}
	m.index = near.NewIndex(slices.Sorted(maps.Keys(m.types)))
	return m
}

// patterns adds the warnings about the regular expressions of a schema, which is valid.
func (w *warnings) patterns(path string, value any) {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			w.patterns(path+"/"+strconv.Itoa(i), item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			member, at := value[name], path+jsonvalue.Pointer([]string{name})
			switch name {
			case "pattern":
				expression, _ := member.(string)
				w.pattern(at, expression)
			case "patternProperties":
				expressions, _ := member.(map[string]any)
				for _, expression := range slices.Sorted(maps.Keys(expressions)) {
					w.pattern(at, expression)
				}
			}
			w.patterns(at, member)
		}
	}
}

func (w *warnings) pattern(path, expression string) {
	switch x, err := ecma.Translate(expression); {
	case err != nil: // no pattern, but data or the name of a property
	case x.Obstacle != "":
		w.add(path, "can't be evaluated in linear time ("+x.Obstacle+"), so that bridges don't apply the schema: only the provider does")
	case x.Lenient:
		w.add(path, `is only legal without the flag u of ECMA-262, so that some validators refuse it; in others, a letter after \ that is no escape, such as \A or \Z, is that letter`)
	}
}

// Requests returns the warnings about requests that are not those that the author of a descriptor most likely means: those of an existing HTTP API.
func Requests(d *document.Descriptor) []run.Violation {
	var w warnings
	w.placeholders("/endpoint/url", d.Endpoint.URL)
	w.placeholders("/endpoint/status_url", strings.ReplaceAll(d.Endpoint.StatusURL, executionID, ""))
	w.placeholders("/endpoint/result_url", strings.ReplaceAll(d.Endpoint.ResultURL, executionID, ""))
	w.query(d)
	return w.found
}

// executionID is the only placeholder of the protocol.
const executionID = "{execution_id}"

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// maxNamed bounds how many placeholders or inputs a warning names, and maxNameShown the length of each, in characters.
const (
	maxNamed     = 3
	maxNameShown = 50
)

// placeholders adds a warning about what looks like a placeholder in a URL, but is sent as it is.
func (w *warnings) placeholders(path, text string) {
	text, _, _ = strings.Cut(text, "#") // a fragment is not sent
	found := placeholder.FindAllString(text, -1)
	if len(found) == 0 {
		return
	}
	sent := safetext.Line(strings.NewReplacer("{", "%7B", "}", "%7D").Replace(found[0]), maxNameShown)
	w.add(path, "has "+named(found)+", but bridges replace only "+executionID+", in status_url and result_url: it is sent as "+sent)
}

// query adds a warning about inputs that do not fit the query in which the method has them.
func (w *warnings) query(d *document.Descriptor) {
	if method := d.Endpoint.Method; method == "GET" || method == "DELETE" {
		structured := jsonvalue.TypesNamed("array") | jsonvalue.TypesNamed("object")
		var found []string
		for i := range d.Inputs {
			p := &d.Inputs[i]
			schema, _ := jsonvalue.Read(p.Schema, jsonvalue.Bounds{Depth: maxDepth, Values: maxValues})
			types := typesOf(schema)
			if types == 0 {
				types = jsonvalue.TypesNamed(p.Type)
			}
			if types&structured != 0 {
				found = append(found, p.Name)
			}
		}
		if len(found) > 0 {
			w.add("/endpoint/method", fmt.Sprintf("is %s: inputs are the query; the answer must be an InvocationResponse. Objects and arrays are sent as JSON texts: %s", method, named(found)))
		}
	}
}

// named enumerates names, without repetitions.
func named(names []string) string {
	var shown []string
	for _, name := range names {
		if name = safetext.Line(name, maxNameShown); !slices.Contains(shown, name) {
			shown = append(shown, name)
		}
		if len(shown) > maxNamed {
			return strings.Join(shown[:maxNamed], ", ") + " and others"
		}
	}
	return strings.Join(shown, ", ")
}
