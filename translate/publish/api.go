package publish

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Options say which operations of an OpenAPI document are published, and as what.
type Options struct {
	Document  string            // its name in LeftOut
	Namespace string            // the first part of the ids
	Provider  document.Provider // without a name: that of Skill.Descriptor
	// Include and Exclude name operations by operationId, or METHOD and path, with globs: * is any text. What no Include names is not published. If an
	// Exclude names none, nothing is: what a typing error does not hide may be secret.
	Include, Exclude []string
	Access           document.AccessPolicy // empty: public if the operation needs no security, else restricted
	Rename           map[string]string     // ids by operationId, or by METHOD and path
	NoOutputSchema   bool
	TimeoutMS        float64 // of the endpoint in the descriptor; 0: none is stated
}

// An API is what an OpenAPI document publishes. It is immutable.
type API struct {
	Title   string
	Skills  []*Skill // also those with the same id: see Merge
	LeftOut []LeftOut
	// Files are those that were read, in order; nil: the documents have URLs.
	Files []string
	// Sum is a digest of all texts that were read, with their URLs.
	Sum []byte
}

// maxTime bounds the time to read and translate a document.
const maxTime = time.Minute

// Read reads the OpenAPI document at a location, a URL of the scheme file, https or http, and makes skills of its operations. reader reads
// what is not a file; it may be nil if the location is one: then no issuer of OpenID Connect is asked.
func Read(ctx context.Context, reader Reader, location *url.URL, options *Options) (*API, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	docs := &documents{ctx: ctx, reader: reader, read: map[string]read{}, known: map[reference]read{}, anchor: map[string]any{}, about: map[string]map[string]any{}}
	value, err := docs.open(location)
	if docs.folder != nil {
		defer docs.folder.Close()
	}
	root := objectIn(value)
	version, swagger := text(root["openapi"]), strings.HasPrefix(text(root["swagger"]), "2.")
	switch {
	case err != nil:
		return nil, fmt.Errorf("the OpenAPI document can't be read: it %w", err)
	case !strings.HasPrefix(version, "3.") && !swagger:
		return nil, errors.New("the document has no member openapi with a version 3.x, and no member swagger with the version 2.0")
	case len(options.Include) == 0:
		return nil, errors.New("no operation is included")
	}
	info := objectIn(root["info"])
	t := translation{
		docs: docs, root: root, options: options, swagger: swagger, old: swagger || strings.HasPrefix(version, "3.0"),
		version: versionOf(text(info["version"])), others: map[string][][]string{},
	}
	t.findSchemes()
	c := collection{API: API{Title: line(info["title"])}, document: options.Document}
	selected, err := t.selected(&c)
	if err != nil {
		return nil, err
	}
	for _, o := range selected {
		skill, err := t.skill(&o)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the OpenAPI document can't be translated: %w", context.Cause(ctx))
		}
		c.add(o.name, skill, err)
	}
	c.Files, c.Sum = docs.files(location), bytes.Clone(docs.sum[:])
	return &c.API, nil
}

// methods are the members of a path item that are operations. TRACE is none: servers must not answer it with what it is asked.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch"}

// selection is an operation that is included.
type selection struct {
	name, id          string // its operationId, or its method and path; the id of its skill
	method            string
	path, query       string         // of the document's path, which may have a query, and a fragment that tells operations apart
	below             int            // see Operation
	operation, around map[string]any // around is the path item
}

// selected returns the operations that are included and not excluded, in the order of their paths.
func (t *translation) selected(c *collection) (all []selection, err error) {
	used, known := map[string]bool{}, map[string]bool{} // patterns, and names of operations
	named := func(patterns []string, operationID, title string) (found bool) {
		for _, pattern := range patterns {
			if operationID != "" && matches(pattern, operationID) || matches(pattern, title) {
				used[pattern], found = true, true
			}
		}
		return found
	}
	paths, err := t.object(t.root["paths"])
	if err != nil {
		c.add("paths", nil, err)
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		target, fault := t.object(paths[path])
		if _, repeated := paths[path].(twice); repeated {
			fault = errors.New("its path is in the document twice")
		}
		item := map[string]any{}
		maps.Copy(item, target)
		maps.Copy(item, objectIn(paths[path])) // which may have more than $ref
		reported := false
		for _, method := range methods {
			if _, isThere := item[method]; !isThere && fault == nil {
				continue
			}
			operation, err := t.object(item[method])
			operationID, title := text(operation["operationId"]), strings.ToUpper(method)+" "+path
			known[operationID], known[title] = true, true
			own, query, _ := strings.Cut(strings.SplitN(path, "#", 2)[0], "?")
			for name := range (&url.URL{RawQuery: query}).Query() {
				t.fixed = append(t.fixed, fixed{patternsOf(own), place("query", name)})
			}
			included, excluded := named(t.options.Include, operationID, title), named(t.options.Exclude, operationID, title)
			if !included || excluded {
				t.others[method] = append(t.others[method], patternsOf(own))
			}
			if !included || excluded || reported {
				continue
			}
			if err = cmp.Or(fault, err); err == nil && operation == nil {
				err = errors.New("it is no object")
			}
			if err != nil {
				c.add(title, nil, err)
				reported = fault != nil
				continue
			}
			id := cmp.Or(kebab(operationID), kebab(strings.ReplaceAll(title, "{", " by ")))
			all = append(all, selection{
				name: cmp.Or(operationID, title), id: cmp.Or(t.options.Rename[operationID], t.options.Rename[title], t.options.Namespace+"/"+id),
				method: strings.ToUpper(method), path: own, query: query, operation: operation, around: item,
			})
		}
	}
	for _, pattern := range t.options.Include {
		if !used[pattern] {
			c.add(pattern, nil, mistake{errors.New("no operation is named so")})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.options.Rename)) {
		if !known[name] {
			c.add(name, nil, mistake{errors.New("no operation is named so, so that none is renamed")})
		}
	}
	for _, pattern := range t.options.Exclude {
		if !used[pattern] {
			return nil, fmt.Errorf("no operation is named %q, so that exclude does not hide what it should", pattern)
		}
	}
	return all, nil
}

// patternsOf returns the patterns for a path of the document; see [Operation.Others].
func patternsOf(own string) []string {
	if decoded, err := url.PathUnescape(own); err == nil {
		own = decoded
	}
	return strings.Split(path.Clean("/"+placeholder.ReplaceAllString(literal.Replace(strings.ToLower(own)), "?*")), "/")
}

// fixed is a place in requests to a path, by whose value the path has several operations.
type fixed struct {
	path  []string // patterns
	place string
}

// reserved returns the places that no argument of an operation sets: those of credentials, and those by which paths that it may send to have several operations.
func (t *translation) reserved(own string) []string {
	places, path := slices.Clone(t.secrets), patternsOf(own)
	for _, f := range t.fixed {
		if slices.EqualFunc(path, f.path, func(a, b string) bool { return a == b || strings.Contains(a+b, "*") }) {
			places = append(places, f.place)
		}
	}
	return places
}

// literal escapes what is special in patterns.
var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// matches reports whether a name is that of a pattern, in which * is any text.
func matches(pattern, name string) bool {
	before, after, found := strings.Cut(pattern, "*")
	rest, ok := strings.CutPrefix(name, before)
	if !ok || !found {
		return ok && rest == ""
	}
	for i := range len(rest) + 1 {
		if matches(after, rest[i:]) {
			return true
		}
	}
	return false
}

var (
	humps   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronym = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
	others  = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// kebab returns a text in kebab case, with the letters and digits of ASCII only.
func kebab(s string) string {
	s = acronym.ReplaceAllString(humps.ReplaceAllString(s, "$1-$2"), "$1-$2")
	return strings.ToLower(strings.Trim(others.ReplaceAllString(s, "-"), "-"))
}

var (
	semantic = regexp.MustCompile(`^((0|[1-9]\d*)\.){2}(0|[1-9]\d*)(-[A-Za-z]+(\.(0|[1-9]\d*))*)?$`)
	digits   = regexp.MustCompile(`\d{1,9}`)
)

// versionOf returns a version as one of Semantic Versioning: with zeros for numbers that it does not have.
func versionOf(s string) string {
	if s = strings.TrimPrefix(s, "v"); semantic.MatchString(s) {
		return s
	}
	numbers := append(digits.FindAllString(s, 3), "0", "0", "0")[:3]
	for i := range numbers {
		numbers[i] = cmp.Or(strings.TrimLeft(numbers[i], "0"), "0")
	}
	return strings.Join(numbers, ".")
}

// objectIn returns a value if it is an object, else nil.
func objectIn(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}

// listIn returns a value if it is a list, else nil.
func listIn(v any) []any {
	list, _ := v.([]any)
	return list
}

// text returns a value as a text; empty: it is neither a text nor a number.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case jsonvalue.Number:
		return string(v)
	}
	return ""
}

// Bounds of texts for people, in characters and in bytes.
const (
	maxName        = 200
	maxDescription = 20_000
)

// line returns a value as one line for people; empty: it is no text, or has none.
func line(v any) string { return safetext.TrimmedLine(text(v), maxName) }

// lines returns a value as a text for people; empty: it is no text, or has none.
func lines(v any) string {
	return safetext.Clip(strings.TrimSpace(safetext.Lines(text(v))), maxDescription)
}
