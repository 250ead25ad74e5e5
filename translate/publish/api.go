package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Options say which operations of an OpenAPI document are published, and as what.
type Options struct {
	Namespace string            // the first part of the ids
	Provider  document.Provider // without a name: the title of the document
	// Include and Exclude name operations by operationId, or METHOD and path, with globs: * is any text. What no Include names is not published.
	Include, Exclude []string
	Access           document.AccessPolicy // empty: public if the operation needs no security, else restricted
	Rename           map[string]string     // ids by operationId, or by METHOD and path
	NoOutputSchema   bool
	TimeoutMS        float64 // of the endpoint in the descriptor; 0: none is stated
}

// An API is what an OpenAPI document publishes. It is immutable.
type API struct {
	Title   string
	Skills  []*Skill // in the order of their ids
	LeftOut []LeftOut
	// Referred are the documents that were read, the one at the location first.
	Referred []*url.URL
}

// A LeftOut is an operation that is included, but is no skill.
type LeftOut struct {
	Operation string // its operationId, or its method and path
	Reason    string // for the operator; quotes no contents of referred files
}

const (
	maxTime        = time.Minute // to read and translate a document
	maxDescriptors = 128 << 20   // bytes of all descriptors of a document together
)

// Read reads the OpenAPI document at a location, a URL of the scheme file, https or http, and makes skills of its operations. reader reads
// what is not a file; it may be nil if the location is one.
func Read(ctx context.Context, reader Reader, location *url.URL, options *Options) (*API, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	docs := &documents{ctx: ctx, reader: reader, read: map[string]read{}}
	value, err := docs.open(location)
	if docs.folder != nil {
		defer docs.folder.Close()
	}
	root, _ := value.(map[string]any)
	t := translation{docs: docs, root: root, options: options, swagger: text(root["swagger"]) != "", old: !strings.HasPrefix(text(root["openapi"]), "3.") || strings.HasPrefix(text(root["openapi"]), "3.0")}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the OpenAPI document can't be read: it %w", err)
	case !strings.HasPrefix(text(root["openapi"]), "3.") && !strings.HasPrefix(text(root["swagger"]), "2."):
		return nil, errors.New("the document has no member openapi with a version 3.x, and no member swagger with the version 2.0")
	case len(options.Include) == 0:
		return nil, errors.New("no operation is included")
	}
	info, _ := root["info"].(map[string]any)
	t.title, t.version = safetext.Line(text(info["title"]), maxName), versionOf(text(info["version"]))
	c := collection{operations: map[string][]string{}}
	for _, o := range t.selected(func(operation, reason string) { c.add(operation, nil, errors.New(reason)) }) {
		skill, err := t.skill(&o)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the OpenAPI document can't be translated: %w", context.Cause(ctx))
		}
		c.add(o.name, skill, err)
	}
	c.finish()
	api := &API{Title: t.title, Skills: c.skills, LeftOut: c.leftOut}
	api.Referred = append(api.Referred, location)
	if docs.folder != nil && location.Path == docs.first.Path { // else it is a symbolic link
		docs.order = docs.order[1:]
	}
	api.Referred = append(api.Referred, docs.order...)
	return api, nil
}

// methods are the members of a path item that are operations. TRACE is none: servers must not answer it with what it is asked.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch"}

// selection is an operation that is included.
type selection struct {
	name              string // its operationId, or its method and path
	id                string // empty: it follows from the operationId
	method, path      string
	operation, around map[string]any // around is the path item
}

// selected returns the operations that are included and not excluded, in the order of their paths.
func (t *translation) selected(leaveOut func(operation, reason string)) []selection {
	include, exclude := newGlobs(t.options.Include), newGlobs(t.options.Exclude)
	named := func(operationID, title string) bool {
		return include.match(operationID, title) && !exclude.match(operationID, title)
	}
	paths, err := t.docs.follow(t.root["paths"])
	if err != nil {
		leaveOut("paths", err.Error())
	}
	items, _ := paths.(map[string]any)
	var all []selection
	for _, path := range slices.Sorted(maps.Keys(items)) {
		item, fault := t.item(items[path])
		for _, method := range methods {
			value, isThere := item[method]
			o := selection{method: strings.ToUpper(method), path: path, around: item}
			title := o.method + " " + path
			if fault != nil && named("", title) {
				leaveOut(title, fault.Error())
				break
			}
			value, err := t.docs.follow(value)
			o.operation, _ = value.(map[string]any)
			operationID := text(o.operation["operationId"])
			o.name, o.id = cmp.Or(operationID, title), cmp.Or(t.options.Rename[operationID], t.options.Rename[title])
			switch {
			case !isThere || !named(operationID, title):
			case err != nil:
				leaveOut(title, err.Error())
			case o.operation == nil:
				leaveOut(title, "it is no object")
			default:
				all = append(all, o)
			}
		}
	}
	for i, pattern := range t.options.Include {
		if !include[i].matched {
			leaveOut(pattern, "no operation is named so")
		}
	}
	return all
}

// item returns a path item with what its reference adds.
func (t *translation) item(v any) (map[string]any, error) {
	if _, repeated := v.(twice); repeated {
		return nil, errors.New("its path is in the document twice")
	}
	own, _ := v.(map[string]any)
	target, err := t.docs.follow(v)
	all, _ := target.(map[string]any)
	all = maps.Clone(all)
	if all == nil {
		return nil, err
	}
	maps.Copy(all, own)
	return all, err
}

// glob is a pattern with * for any text.
type glob struct {
	*regexp.Regexp
	matched bool
}

type globs []glob

func newGlobs(patterns []string) globs {
	all := make(globs, len(patterns))
	for i, pattern := range patterns {
		all[i].Regexp = regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
	}
	return all
}

// match reports whether a pattern names an operation, and marks all that do.
func (g globs) match(operationID, title string) (found bool) {
	for i := range g {
		if operationID != "" && g[i].MatchString(operationID) || g[i].MatchString(title) {
			g[i].matched, found = true, true
		}
	}
	return found
}

// kebab returns a text in kebab case, with the letters and digits of ASCII only.
func kebab(s string) string {
	var b strings.Builder
	letters := []rune(s)
	is := func(i int, class func(rune) bool) bool { return i >= 0 && i < len(letters) && class(letters[i]) }
	for i, r := range letters {
		switch {
		case r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = '-'
		case unicode.IsUpper(r) && (is(i-1, unicode.IsLower) || is(i-1, unicode.IsDigit) || is(i-1, unicode.IsUpper) && is(i+1, unicode.IsLower)):
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Join(strings.FieldsFunc(b.String(), func(r rune) bool { return r == '-' }), "-")
}

var (
	semantic = regexp.MustCompile(`^((0|[1-9]\d*)\.){2}(0|[1-9]\d*)(-[A-Za-z]+(\.(0|[1-9]\d*))*)?$`)
	digits   = regexp.MustCompile(`\d{1,9}`)
)

// versionOf returns a version as one of Semantic Versioning: with zeros for numbers that it does not have.
func versionOf(s string) string {
	if bare := strings.TrimPrefix(s, "v"); len(bare) <= 64 && semantic.MatchString(bare) {
		return bare
	}
	numbers := append(digits.FindAllString(s, 3), "0", "0", "0")[:3]
	for i := range numbers {
		numbers[i] = cmp.Or(strings.TrimLeft(numbers[i], "0"), "0")
	}
	return strings.Join(numbers, ".")
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
