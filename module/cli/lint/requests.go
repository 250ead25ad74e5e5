package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

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
