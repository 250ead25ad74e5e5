package publish

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Settable reports whether a parameter of a document can be an input: one in a header or cookie must neither set a credential nor change
// what the request means to servers.
func Settable(in, name string) bool {
	switch in {
	case "header":
		name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) // CGI and its successors don't tell these apart
		return name != "Authorization" && !strings.HasPrefix(name+"-", "Proxy-") && !strings.HasPrefix(name, "Sec-") && !strings.HasPrefix(name, "X-Forwarded-") &&
			(!document.ForbiddenHeader(name) || slices.Contains(plainHeaders, name))
	case "cookie":
		return httpguts.ValidHeaderFieldName(name)
	}
	return true
}

// place returns where a parameter is, in one notation for all names that servers may not tell apart.
func place(in, name string) string {
	if in == "header" {
		name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	}
	return in + " " + name
}

// plainHeaders can't have a credential, but are inputs of some APIs.
var plainHeaders = []string{
	"Accept-Language", "Cache-Control", "Content-Language", "Content-Range", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", "User-Agent",
}

// argument is an input that the caller gave.
type argument struct {
	name  string
	value jsontext.Value
	at    int // its place among the arguments
}

// fault returns the failure of an argument.
func (a *argument) fault(reason run.Reason, problem string) *run.Failure {
	name, actual := safetext.Clip(a.name, jsonvalue.MaxActual), jsonvalue.Quoted("missing")
	if value, flaw := jsonvalue.Read(a.value, jsonvalue.Bounds{Depth: maxDepth, Values: maxValues}); flaw == nil && a.value != nil {
		actual = jsonvalue.Shown(value)
	}
	return run.WrongArgument(run.Argument{Field: run.FieldInput, Name: name, Pointer: safetext.Clip(jsonvalue.Pointer([]string{a.name}), jsonvalue.MaxPath), Reason: reason, Expected: jsonvalue.Quoted(problem), Actual: actual},
		fmt.Sprintf("argument %q %s", name, problem))
}

// arguments are those that have no use yet.
type arguments map[string]*argument

// take returns the argument for an input; nil: it is not given.
func (given arguments) take(input string) *argument {
	a := given[input]
	delete(given, input)
	return a
}

// Request returns the request to the API for the inputs of an invocation, an object of valid JSON that matches the schemas of the descriptor.
// caller has the headers of the invocation, of which the request gets the credential of the operation, traceparent and the idempotency key.
// The URL has no host. A failure is one of an argument, and names it.
func (o *Operation) Request(ctx context.Context, inputs jsontext.Value, caller http.Header) (*http.Request, *run.Failure) {
	given := make(arguments)
	var twice *argument
	for name, value := range jsonrpc.Members(inputs) {
		a := &argument{string(jsonrpc.Unquote(name)), value, len(given)}
		twice = cmp.Or(twice, given.take(a.name))
		given[a.name] = a
	}
	if twice != nil {
		return nil, twice.fault(run.Ambiguous, "is given twice")
	}
	to, query, cookies, header := o.Path, fields{}, fields{}, http.Header{}
	var inPath *argument
	for i := range o.Parameters {
		p := &o.Parameters[i]
		a := given.take(p.Name)
		switch {
		case a == nil && p.In == "path":
			return nil, (&argument{name: p.Name}).fault(run.Required, "is required: it is a part of the path")
		case a == nil || jsonrpc.IsNull(a.value) && p.In != "path":
			continue
		}
		parts := p.parts(a.value)
		if problem := o.flaw(p, parts); problem != "" {
			return nil, a.fault(run.WrongSchema, problem)
		}
		switch p.In {
		case "path":
			to = strings.ReplaceAll(to, "{"+p.Name+"}", joined(parts, ",", p.Explode, escapeURL)) // what replaces it has no braces
			if inPath = a; dotted(to) {
				return nil, a.fault(run.WrongSchema, "must not have . or .. as a segment: it is a part of the path")
			}
		case "query":
			query.add(p.fields(a.value, escapeURL))
		case "header":
			if name := http.CanonicalHeaderKey(p.Name); len(parts) > 0 && !slices.Contains(o.Credentials, name) {
				header.Set(name, joined(parts, ",", p.Explode, strings.TrimSpace))
			}
		case "cookie":
			cookies.add(p.fields(a.value, cookie.Replace))
		}
		if query.size+cookies.size > maxSent {
			return nil, a.fault(run.WrongSchema, tooLarge)
		}
	}
	if inPath != nil && o.strays(to) {
		return nil, inPath.fault(run.WrongSchema, "must not make the path that of an operation that is not published")
	}
	body, mediaType, failure := o.Body.encode(given)
	if failure != nil {
		return nil, failure
	}
	if len(given) > 0 {
		return nil, given[slices.Min(slices.Collect(maps.Keys(given)))].fault(run.NotFound, "is no input of the skill")
	}
	header.Set("Accept", cmp.Or(strings.Join(o.Accept, ", "), "*/*"))
	if mediaType != "" {
		header.Set("Content-Type", mediaType)
	}
	for _, name := range []string{"Traceparent", "Idempotency-Key"} {
		if values := caller[name]; values != nil && header[name] == nil {
			header[name] = slices.Clone(values)
		}
	}
	maps.Copy(header, o.Credential(caller))
	if cookies.texts != nil {
		header["Cookie"] = []string{strings.Join(append(header["Cookie"], cookies.texts...), "; ")}
	}
	decoded, _ := url.PathUnescape(to) // an error is one of the document: then the path is encoded as a whole
	u := &url.URL{Path: cmp.Or(decoded, to), RawPath: to, RawQuery: strings.Trim(o.Query+"&"+strings.Join(query.texts, "&"), "&")}
	request := &http.Request{
		Method: o.Method, URL: u, RequestURI: u.RequestURI(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: http.NoBody, ContentLength: int64(len(body)),
	}
	if len(body) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	return request.WithContext(ctx), nil
}

// Credential returns the headers of an invocation that carry the credential of the operation. Of its cookies, these are keys of the API.
func (o *Operation) Credential(caller http.Header) http.Header {
	own := http.Header{}
	for _, name := range o.Credentials {
		if values := caller[name]; values != nil {
			own[name] = slices.Clone(values)
		}
	}
	var keys []string
	for pair := range strings.SplitSeq(strings.Join(own["Cookie"], ";"), ";") { // net/http drops or quotes values that APIs in use have
		name, _, _ := strings.Cut(pair, "=")
		if slices.Contains(o.Secrets, place("cookie", strings.TrimSpace(name))) {
			keys = append(keys, strings.TrimSpace(pair))
		}
	}
	if delete(own, "Cookie"); keys != nil {
		own["Cookie"] = []string{strings.Join(keys, "; ")}
	}
	return own
}

// flaw returns what is wrong with the value of a parameter; empty: nothing.
func (o *Operation) flaw(p *Parameter, parts []part) string {
	const empty = "must not be empty: it is a part of the path"
	if p.In == "path" && len(parts) == 0 {
		return empty
	}
	for _, v := range parts {
		if v.name != "" && p.Explode && (p.In == "query" && p.Style != "deepObject" || p.In == "cookie") { // the name stands beside those of other parameters
			name, _, _ := strings.Cut(asPHP.Replace(strings.TrimLeft(v.name, " ")), "[") // of which it is a member in the style deepObject
			other := func(q Parameter) bool {
				return q.In == p.In && q.Name != p.Name && (q.Name == v.name || q.Name == name)
			}
			if slices.ContainsFunc(o.Parameters, other) || !Settable(p.In, v.name) || slices.Contains(o.Secrets, place(p.In, v.name)) || slices.Contains(o.Secrets, place(p.In, name)) {
				return notBeside(v.name)
			}
		}
		switch text := v.name + "/" + v.value; {
		case p.In == "query":
		case strings.ContainsFunc(text, unicode.IsControl):
			return "must not have control characters"
		case p.In == "path" && v.value == "":
			return empty
		}
	}
	return ""
}

// asPHP gives the name of a field the characters that PHP reads. It ends at a zero byte.
var asPHP = strings.NewReplacer(".", "_", " ", "_", "\x00", "[")

// notBeside is what is wrong with an object whose members stand beside what other inputs set.
func notBeside(name string) string {
	return fmt.Sprintf("must not have the member %q: this is another parameter, or no name", safetext.Clip(name, jsonvalue.MaxActual))
}

// dotted reports whether a percent-encoded path, decoded as servers do that take an encoded slash for one, has . or .. as a segment.
func dotted(path string) bool {
	decoded, _ := url.PathUnescape(path)
	segments := strings.FieldsFunc(decoded, func(r rune) bool { return r == '/' || r == '\\' })
	return slices.Contains(segments, ".") || slices.Contains(segments, "..")
}

// strays reports whether servers may take a path for that of an operation that is not published: since a value is a word of that path, in whichever case
// and with whichever extension, or has a slash. A path that is like the template of this operation is not meant: it is not more specific.
func (o *Operation) strays(to string) bool {
	plain := func(to string) []string {
		segments := strings.SplitN(to, "/", o.Below+2)
		decoded, _ := url.PathUnescape(segments[len(segments)-1])
		return strings.Split(path.Clean("/"+strings.ReplaceAll(strings.ToLower(decoded), `\`, "/")), "/")
	}
	is := func(to, other []string) bool { // by segments: a pattern of several looks for the next one at each byte of a long value
		return slices.EqualFunc(to, other, func(word, pattern string) bool { matched, _ := path.Match(pattern, word); return matched })
	}
	own, words := plain(o.Path), plain(to)
	bare := slices.Clone(words)
	bare[len(bare)-1] = strings.TrimSuffix(bare[len(bare)-1], path.Ext(bare[len(bare)-1]))
	return slices.ContainsFunc(o.Others, func(other []string) bool { return (is(words, other) || is(bare, other)) && !is(own, other) })
}

// part is an item of an array, a member of an object, or another value alone.
type part struct{ name, value string }

// parts returns the parts of a value as texts. A null is none (RFC 6570, section 2.3).
func (p *Parameter) parts(value jsontext.Value) (parts []part) {
	add := func(name, value jsontext.Value) {
		if !jsonrpc.IsNull(value) {
			parts = append(parts, part{string(jsonrpc.Unquote(name)), textOf(value)})
		}
	}
	unnamed := jsontext.Value(`""`)
	switch kind := value.Kind(); {
	case p.JSON:
		add(unnamed, jsonvalue.Quoted(compact(value)))
	case kind == '{':
		for name, value := range jsonrpc.Members(value) {
			add(name, value)
		}
	case kind == '[':
		for item := range jsonrpc.Items(value) {
			add(unnamed, item)
		}
	default:
		add(unnamed, value)
	}
	return parts
}

// textOf returns the text of a string, and the JSON of another value.
func textOf(value jsontext.Value) string {
	if value.Kind() == '"' {
		return string(jsonrpc.Unquote(value))
	}
	return compact(value)
}

// compact returns valid JSON without white space.
func compact(value jsontext.Value) string {
	value = value.Clone()
	_ = value.Compact()
	return string(value)
}

// separators are those of values by the style of a parameter; of other styles, it is a comma.
var separators = map[string]string{"spaceDelimited": "%20", "tabDelimited": "%09", "pipeDelimited": "%7C"}

// joined returns parts as one text: the values of an array, and of an object its names as well, with an equals sign if equals is true.
func joined(parts []part, separator string, equals bool, escape func(string) string) string {
	var texts []string
	for _, p := range parts {
		switch value := escape(p.value); {
		case p.name == "":
			texts = append(texts, value)
		case equals:
			texts = append(texts, escape(p.name)+"="+value)
		default:
			texts = append(texts, escape(p.name), value)
		}
	}
	return strings.Join(texts, separator)
}

// maxSent bounds a query with cookies, and a form, in bytes: the values of an array take more there than in the request of the caller.
const (
	maxSent  = 4 << 20
	tooLarge = "makes the request to the API larger than 4 MiB"
)

// fields are those of a query or form, or cookies. What makes them larger than maxSent is left out.
type fields struct {
	texts []string
	size  int
}

func (f *fields) add(all iter.Seq[string]) {
	for text := range all {
		if f.size += len(text) + 1; f.size > maxSent {
			return
		}
		f.texts = append(f.texts, text)
	}
}

// fields returns the fields for a value in a query, cookie or form, each with an equals sign.
func (p *Parameter) fields(value jsontext.Value, escape func(string) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if p.Style == "deepObject" && p.In != "cookie" {
			name := []byte(p.Name)
			deepFields(&name, value, escape, yield)
			return
		}
		parts := p.parts(value)
		if !p.Explode && len(parts) > 0 {
			yield(escape(p.Name) + "=" + joined(parts, cmp.Or(separators[p.Style], ","), false, escape))
			return
		}
		for _, v := range parts {
			if !yield(escape(cmp.Or(v.name, p.Name)) + "=" + escape(v.value)) {
				return
			}
		}
	}
}

// deepFields yields the fields of a value in the style deepObject: a[b]=c. What this means for arrays, OpenAPI does not say; servers in use read
// a[]=b and, for objects in arrays, a[0][b]=c. The name of the value grows in place: many values without fields may have a long one in common.
func deepFields(name *[]byte, value jsontext.Value, escape func(string) string, yield func(string) bool) (more bool) {
	outer := len(*name)
	within := func(part []byte, value jsontext.Value) bool {
		*name = append(append(append((*name)[:outer], '['), part...), ']')
		return deepFields(name, value, escape, yield)
	}
	switch value.Kind() {
	case '{':
		for member, value := range jsonrpc.Members(value) {
			if !within(jsonrpc.Unquote(member), value) {
				return false
			}
		}
	case '[':
		i := 0
		for item := range jsonrpc.Items(value) {
			var index []byte
			if item.Kind() == '{' || item.Kind() == '[' {
				index = strconv.AppendInt(nil, int64(i), 10)
			}
			if i++; !within(index, item) {
				return false
			}
		}
	case 'n':
	default:
		return yield(escape(string(*name)) + "=" + escape(textOf(value)))
	}
	return true
}

// escapeURL percent-encodes all but the unreserved characters of RFC 3986, section 2.3.
func escapeURL(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// cookie percent-encodes what must not stand in a cookie (RFC 6265, section 4.1.1), and the percent sign.
var cookie = strings.NewReplacer(" ", "%20", `"`, "%22", "%", "%25", ",", "%2C", ";", "%3B", `\`, "%5C")
