package publish

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Bounds of an OpenAPI document with all documents that it refers to.
const (
	maxBytes      = 16 << 20
	maxDocuments  = 2000
	maxValues     = 1_000_000 // of one document; an alias counts as what it stands for
	maxLevels     = 200
	maxReferences = 100             // that lead to each other
	maxMissing    = 10              // that a warning names
	maxIssuers    = 10              // of OpenID Connect
	issuerTime    = 5 * time.Second // to read what one says
)

// A Reader reads documents by URL.
type Reader interface {
	Read(ctx context.Context, location *url.URL) ([]byte, error)
}

// documents are an OpenAPI document and those that it refers to, which are read when a reference is followed.
type documents struct {
	ctx    context.Context
	reader Reader
	first  *url.URL
	folder *os.Root // of the first document; nil: it has a URL
	read   map[string]read
	known  map[reference]read        // to what references lead
	about  map[string]map[string]any // see issuer
	anchor map[string]any            // what has an $anchor, by its URL
	order  []*url.URL
	bytes  int
	depth  int // of references in the way to what references refer to
	// missing are the errors of references in the schemas, answers and links of an operation, which is published without what they refer to.
	missing []string
	sum     [sha256.Size]byte // of all texts, in any order
}

// read is a document that was read, or a part of one.
type read struct {
	value any
	err   error
}

// inFolder begins the paths in the URLs of files, which are relative to the folder of the first document.
const inFolder = "/folder/"

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
		path, err := filepath.EvalSymlinks(filepath.FromSlash(location.Path))
		if err == nil {
			d.folder, err = os.OpenRoot(filepath.Dir(path))
		}
		if err != nil {
			return nil, fmt.Errorf("can't be opened: %w", cmp.Or(errors.Unwrap(err), err))
		}
		d.first = &url.URL{Scheme: "file", Path: inFolder + filepath.Base(path)}
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
	var value any
	if d.bytes += len(text); err == nil && d.bytes > maxBytes {
		err = fmt.Errorf("makes the documents larger than %d bytes", maxBytes)
	}
	name := strings.TrimPrefix(u.Path, inFolder)
	if err == nil || d.folder != nil && fs.ValidPath(name) && !strings.Contains(name, `\`) { // a file that is missing may be created
		d.order = append(d.order, u)
	}
	if err == nil {
		d.note(u, text)
		value, err = parse(text)
	}
	for _, in := range jsonvalue.Within(value) {
		object, _ := in.(map[string]any)
		if text, ok := object["$ref"].(string); ok {
			object["$ref"] = reference{u, text}
		}
		if name, ok := object["$anchor"].(string); ok {
			if _, again := d.anchor[u.String()+"#"+name]; again {
				in = nil // of several with a name, any may be meant
			}
			d.anchor[u.String()+"#"+name] = in
		}
	}
	d.read[u.String()] = read{value, err}
	return value, err
}

// note adds a text that was read to the sum.
func (d *documents) note(u *url.URL, text []byte) {
	h := sha256.New()
	_, _ = io.WriteString(h, u.String()+"\n")
	_, _ = h.Write(text)
	subtle.XORBytes(d.sum[:], d.sum[:], h.Sum(nil))
}

// text reads a document: a file in the folder of the first one, or below it, or what has a URL of its origin. Errors do not say what was read.
func (d *documents) text(u *url.URL) ([]byte, error) {
	if d.folder == nil {
		if u.Scheme != d.first.Scheme || u.Host != d.first.Host || u.User != nil || d.reader == nil {
			return nil, errors.New("is of another origin than the document")
		}
		text, err := d.reader.Read(d.ctx, u)
		if err != nil {
			err = fmt.Errorf("can't be fetched: %w", err)
		}
		return text, err
	}
	name, ok := strings.CutPrefix(u.Path, inFolder)
	info, err := d.folder.Stat(filepath.FromSlash(name))
	if !ok || err != nil || u.Scheme != "file" || u.Host != "" || !info.Mode().IsRegular() {
		return nil, errors.New("is no file in the folder of the document, or below it")
	}
	file, err := d.folder.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, errors.New("can't be opened")
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxBytes+1))
}

// issuer returns what a document of OpenID Connect Discovery says; nil: it can't be read. It may have another origin, since nothing else of it is used,
// but is read without TLS only if the OpenAPI document is.
func (d *documents) issuer(location string) map[string]any {
	u, err := url.Parse(location)
	if said, ok := d.about[location]; ok || err != nil || d.reader == nil || len(d.about) == maxIssuers || u.Scheme != "https" && (u.Scheme != "http" || d.first.Scheme != "http") {
		return said
	}
	ctx, cancel := context.WithTimeout(d.ctx, issuerTime)
	defer cancel()
	var said any
	if text, err := d.reader.Read(ctx, u); err == nil {
		d.note(u, text)
		said, _ = jsonvalue.Read(text, jsonvalue.Bounds{Depth: maxLevels, Values: maxValues})
	}
	d.about[location] = objectIn(said)
	return d.about[location]
}

// files returns the files of the documents, in order; nil: they have URLs.
func (d *documents) files(location *url.URL) (all []string) {
	if d.folder == nil {
		return nil
	}
	for _, u := range d.order {
		all = append(all, filepath.Join(d.folder.Name(), filepath.FromSlash(strings.TrimPrefix(u.Path, inFolder))))
	}
	all = append(all, filepath.FromSlash(location.Path)) // perhaps a symbolic link
	slices.Sort(all)
	return slices.Compact(all)
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
	return nil, mistake{errors.New("references lead to each other in a circle")}
}

// part returns what a value refers to, as follow does. If that can't be found, it is nil, which stands for anything, and the error is one of those that
// are missing.
func (d *documents) part(v any) any {
	found, err := d.follow(v)
	if err != nil && len(d.missing) < maxMissing && !slices.Contains(d.missing, err.Error()) {
		d.missing = append(d.missing, err.Error())
	}
	return found
}

// at returns the value to which a reference leads.
func (d *documents) at(r reference) (any, error) {
	known, ok := d.known[r]
	if !ok {
		d.depth++
		known.value, known.err = d.lookup(r)
		d.depth--
		d.known[r] = known
	}
	if known.err != nil && d.depth == 0 {
		return nil, mistake{fmt.Errorf("the reference %q %w", safetext.Field(r.text, jsonvalue.MaxActual), known.err)}
	}
	return known.value, known.err
}

func (d *documents) lookup(r reference) (v any, err error) {
	u, err := r.in.Parse(r.text)
	if err != nil || d.depth > maxReferences {
		return nil, errors.New("is no URL, or leads to itself")
	}
	name := u.Fragment
	u.Fragment, u.RawFragment = "", ""
	if v, err = d.document(u); err != nil || name == "" {
		return v, err
	}
	if name[0] != '/' {
		if v = d.anchor[u.String()+"#"+name]; v == nil {
			err = errors.New("has no JSON Pointer, nor the name of one $anchor")
		}
		return v, err
	}
	for token := range jsontext.Pointer(name).Tokens() {
		if v, err = d.follow(v); err != nil {
			return nil, err
		}
		if v = jsonvalue.Lookup(v, []string{token}); v == nil {
			return nil, errors.New("leads nowhere")
		}
	}
	return v, nil
}

// parse reads JSON or YAML, as [jsonvalue.Read] does. The value of a name that occurs twice in an object is [twice].
func parse(text []byte) (any, error) {
	if value, flaw := jsonvalue.Read(document.WithoutBOM(text), jsonvalue.Bounds{Depth: maxLevels, Values: maxValues}); flaw == nil {
		return value, nil
	}
	marks := 0 // each node of YAML has one, which takes 250 bytes
	for _, mark := range "\n,:[{-?" {
		marks += bytes.Count(text, []byte(string(mark)))
	}
	if marks > maxValues {
		return nil, fmt.Errorf("is no JSON that can be read, and too large for YAML: more than %d values", maxValues)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return nil, fmt.Errorf("is neither JSON nor YAML: %s", cmp.Or(atLine.FindString(err.Error()), "it can't be read"))
	}
	p := parser{left: maxValues}
	value := p.value(&node, 0)
	if p.left < 0 {
		return nil, fmt.Errorf("has more than %d values, or more than %d levels", maxValues, maxLevels)
	}
	if p.merges {
		return nil, errors.New("has merge keys (<<), which are no part of YAML 1.2: write out what they stand for")
	}
	return value, nil
}

// atLine is where an error of the YAML library is. The rest may quote the document.
var atLine = regexp.MustCompile(`\bline \d+`)

// twice stands for the values of a name that occurs twice in an object.
type twice struct{}

// parser reads nodes of YAML.
type parser struct {
	left   int  // values that may still be read; less than 0: there are too many, or too many levels
	merges bool // there is a merge key
}

// value returns the value of a node, and what aliases in it stand for.
func (p *parser) value(n *yaml.Node, depth int) any {
	if p.left--; depth > maxLevels {
		p.left = -1
	}
	switch {
	case p.left < 0:
		return nil
	case n.Kind == yaml.DocumentNode:
		return p.value(n.Content[0], depth)
	case n.Kind == yaml.AliasNode:
		return p.value(n.Alias, depth+1)
	case n.Kind == yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = p.value(item, depth+1)
		}
		return list
	case n.Kind == yaml.MappingNode:
		return p.object(n, depth)
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		if number, flaw := jsonvalue.Read([]byte(n.Value), jsonvalue.Bounds{Values: 1}); flaw == nil {
			return number
		}
		var number any // in a notation that JSON does not have
		if n.Decode(&number) == nil {
			value, _ := jsonvalue.Read(jsonvalue.Marshal(number), jsonvalue.Bounds{Values: 1})
			return value
		}
	}
	return n.Value
}

// object returns the value of a mapping.
func (p *parser) object(n *yaml.Node, depth int) map[string]any {
	object := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], p.value(n.Content[i+1], depth+1)
		if _, repeated := object[name.Value]; repeated {
			value = twice{}
		}
		p.merges = p.merges || name.ShortTag() == "!!merge"
		object[name.Value] = value
	}
	return object
}
