package lint

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Bounds of the documents whose names are compared.
const (
	maxDepth  = 100
	maxValues = 500_000
)

// misspelt adds a warning about each unknown member of a document whose name resembles one that its object may have. t is the Go type
// of the document. The document may be invalid; if it is not JSON, there are no warnings.
func (w *warnings) misspelt(text []byte, t reflect.Type) {
	value, flaw := jsonvalue.Read(document.WithoutBOM(text), jsonvalue.Bounds{Depth: maxDepth, Values: maxValues})
	if flaw == nil {
		w.compare("", value, t, map[reflect.Type]members{})
	}
}

// members are those that an object of the protocol may have.
type members struct {
	types map[string]reflect.Type // by their names
	index *near.Index
}

// compare compares the names in a value with those of a type, whose members are kept in known.
func (w *warnings) compare(path string, value any, t reflect.Type, known map[reflect.Type]members) {
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
			w.compare(path+"/"+strconv.Itoa(i), item, t.Elem(), known)
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return
		}
		m, ok := known[t]
		if !ok {
			m = membersOf(t)
			known[t] = m
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			at := path + "/" + pointer(name)
			if own, ok := m.types[name]; ok {
				w.compare(at, value[name], own, known)
			} else if meant := near.Find(name, m.index); len(meant) > 0 {
				w.add(at, "is no member of the protocol, so it is ignored; did you mean "+meant[0]+"?")
			}
		}
	}
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1").Replace

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
