package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Bounds of an OpenAPI document with all documents that it refers to, and of what one of its operations becomes.
const (
	maxBytes      = 16 << 20
	maxDocuments  = 2000
	maxValues     = 2_000_000 // of one document; an alias counts as what it stands for
	maxLevels     = 200
	maxReferences = 100    // that lead to each other
	maxVisits     = 50_000 // values of the schema of an input or output
)

// A Reader reads documents by URL.
type Reader interface {
	Read(ctx context.Context, location *url.URL) ([]byte, error)
}

// Location returns the URL of a document for [Read]: a text that begins with http:// or https://, or the path of a file.
func Location(text string) (*url.URL, error) {
	if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
		return document.ParseEndpointURL(text)
	}
	path, err := filepath.Abs(text)
	return &url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/")}, err
}

// pathOf returns the path of a file by its URL.
func pathOf(u *url.URL) string {
	path := filepath.FromSlash(u.Path)
	if bare := path[min(1, len(path)):]; filepath.VolumeName(bare) != "" {
		return bare
	}
	return path
}

// documents are an OpenAPI document and those that it refers to, which are read when a reference is followed.
type documents struct {
	ctx    context.Context
	reader Reader
	first  *url.URL
	folder *os.Root // of the first document; nil: it has a URL
	bytes  int
	read   map[string]read
	order  []*url.URL
	depth  int // of references in the way to what references refer to
}

// read is a document that was read.
type read struct {
	value any
	err   error
}

// A reference is the value of $ref, and the document in which it stands.
type reference struct {
	in   *url.URL
	text string
}

// MarshalText implements [encoding.TextMarshaler].
func (r reference) MarshalText() ([]byte, error) { return []byte(r.text), nil }

// open reads the document at a location.
func (d *documents) open(location *url.URL) (any, error) {
	d.first = location
	if location.Scheme == "file" {
		path, err := filepath.EvalSymlinks(pathOf(location))
		if err == nil {
			d.first, err = Location(path)
		}
		if err == nil {
			d.folder, err = os.OpenRoot(filepath.Dir(path))
		}
		if err != nil {
			return nil, err
		}
	}
	return d.document(d.first)
}

// document returns the value of a document, with each $ref as a [reference].
func (d *documents) document(u *url.URL) (any, error) {
	if known, ok := d.read[u.String()]; ok {
		return known.value, known.err
	}
	if len(d.read) == maxDocuments {
		return nil, fmt.Errorf("is one document more than %d", maxDocuments)
	}
	text, err := d.text(u)
	d.bytes += len(text)
	if err == nil && d.bytes > maxBytes {
		err = fmt.Errorf("makes the documents larger than %d bytes", maxBytes)
	}
	var value any
	if err == nil {
		d.order = append(d.order, u)
		value, err = parse(text)
	}
	for _, in := range jsonvalue.Within(value) {
		if object, ok := in.(map[string]any); ok {
			if text, ok := object["$ref"].(string); ok {
				object["$ref"] = reference{u, text}
			}
		}
	}
	d.read[u.String()] = read{value, err}
	return value, err
}

// text reads a document: a file in the folder of the first one, or below it, or what has a URL of its origin. Errors do not say what was read.
func (d *documents) text(u *url.URL) ([]byte, error) {
	if d.folder == nil {
		if u.Scheme != d.first.Scheme || u.Host != d.first.Host || u.User != nil || d.reader == nil {
			return nil, errors.New("is of another origin than the document")
		}
		return d.reader.Read(d.ctx, u)
	}
	name, err := filepath.Rel(d.folder.Name(), pathOf(u))
	if err != nil || u.Scheme != "file" || u.Host != "" || u.Opaque != "" || !filepath.IsLocal(name) {
		return nil, errors.New("is outside of the document's folder")
	}
	info, err := d.folder.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("is no file in the document's folder or below")
	}
	file, err := d.folder.Open(name)
	if err != nil {
		return nil, errors.New("can't be opened")
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxBytes+1))
}

// follow returns what a value refers to if it is a reference, and otherwise the value.
func (d *documents) follow(v any) (any, error) {
	for range maxReferences {
		object, _ := v.(map[string]any)
		r, ok := object["$ref"].(reference)
		if !ok {
			return v, nil
		}
		var err error
		if v, err = d.at(r); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("references lead to each other in a circle")
}

// at returns the value to which a reference leads.
func (d *documents) at(r reference) (v any, err error) {
	d.depth++
	defer func() {
		if d.depth--; err != nil && d.depth == 0 {
			err = fmt.Errorf("the reference %q %w", safetext.Field(r.text, jsonvalue.MaxActual), err)
		}
	}()
	if d.depth > maxReferences {
		return nil, errors.New("leads to itself")
	}
	u, err := r.in.Parse(r.text)
	if err != nil {
		return nil, errors.New("is no URL")
	}
	pointer := u.Fragment
	u.Fragment, u.RawFragment = "", ""
	if v, err = d.document(u); err != nil {
		return nil, err
	}
	root, tokens, found := strings.Cut(pointer, "/")
	if root != "" {
		return nil, errors.New("leads nowhere: it has no JSON Pointer")
	}
	for token := range strings.SplitSeq(tokens, "/") {
		if !found {
			break
		}
		if v, err = d.follow(v); err != nil {
			return nil, err
		}
		if v = jsonvalue.Lookup(v, []string{unescape.Replace(token)}); v == nil {
			return nil, errors.New("leads nowhere")
		}
	}
	return v, nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// parse reads JSON or YAML, as [jsonvalue.Read] does. The value of a name that occurs twice in an object is of the type [twice].
func parse(text []byte) (any, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("has more than %d bytes", maxBytes)
	}
	if value, flaw := jsonvalue.Read(document.WithoutBOM(text), jsonvalue.Bounds{Depth: maxLevels, Values: maxValues}); flaw == nil {
		return value, nil
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return nil, fmt.Errorf("is neither JSON nor YAML: %s", cmp.Or(atLine.FindString(err.Error()), "it can't be read"))
	}
	values := maxValues
	return valueOf(&node, 0, &values)
}

// atLine is where an error of the YAML library is. The rest may quote the document.
var atLine = regexp.MustCompile(`\bline \d+`)

// twice stands for the values of a name that occurs twice in an object.
type twice struct{}

// valueOf returns the value of a node of YAML, and what aliases in it stand for. left is how many values it may have.
func valueOf(n *yaml.Node, depth int, left *int) (any, error) {
	if *left--; *left < 0 || depth > maxLevels {
		return nil, fmt.Errorf("has more than %d values, or more than %d levels", maxValues, maxLevels)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return valueOf(n.Content[0], depth, left)
	case yaml.AliasNode:
		return valueOf(n.Alias, depth+1, left)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			var err error
			if list[i], err = valueOf(item, depth+1, left); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.MappingNode:
		return objectOf(n, depth, left)
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int", "!!float":
		if number, flaw := jsonvalue.Read([]byte(n.Value), jsonvalue.Bounds{Values: 1}); flaw == nil {
			return number, nil
		}
		var number any
		if err := n.Decode(&number); err == nil { // in a notation that JSON does not have
			value, _ := jsonvalue.Read(jsonvalue.Marshal(number), jsonvalue.Bounds{Values: 1})
			return value, nil
		}
	}
	return n.Value, nil
}

func objectOf(n *yaml.Node, depth int, left *int) (any, error) {
	object, merged := make(map[string]any, len(n.Content)/2), map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Kind == yaml.AliasNode {
			name = name.Alias
		}
		if name.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("has a name that is no text in line %d", n.Line)
		}
		member, err := valueOf(value, depth+1, left)
		if err != nil {
			return nil, err
		}
		_, repeated := object[name.Value]
		switch {
		case name.ShortTag() == "!!merge":
			sources, isList := member.([]any)
			if !isList {
				sources = []any{member}
			}
			for _, source := range sources { // the first one counts
				source, _ := source.(map[string]any)
				for name, value := range source {
					if _, known := merged[name]; !known {
						merged[name] = value
					}
				}
			}
		case repeated:
			object[name.Value] = twice{}
		default:
			object[name.Value] = member
		}
	}
	for name, value := range merged {
		if _, own := object[name]; !own {
			object[name] = value
		}
	}
	return object, nil
}
