package publish

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
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
	"Accept-Language", "Cache-Control", "Content-Language", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", "User-Agent",
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
	to, query, cookies, header := o.Path, []string(nil), []string(nil), http.Header{}
	for i := range o.Parameters {
		p := &o.Parameters[i]
		a := given.take(p.Input)
		switch {
		case a == nil && p.In == "path":
			return nil, (&argument{name: p.Input}).fault(run.Required, "is required: it is a part of the path")
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
			if dotted(to) {
				return nil, a.fault(run.WrongSchema, "must not have . or .. as a segment: it is a part of the path")
			}
		case "query":
			query = append(query, p.fields(a.value, escapeURL)...)
		case "header":
			if name := http.CanonicalHeaderKey(p.Name); len(parts) > 0 && !slices.Contains(o.Credentials, name) {
				header.Set(name, joined(parts, ",", p.Explode, strings.TrimSpace))
			}
		case "cookie":
			cookies = append(cookies, p.fields(a.value, cookie.Replace)...)
		}
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
	if cookies != nil {
		header["Cookie"] = []string{strings.Join(append(header["Cookie"], cookies...), "; ")}
	}
	decoded, _ := url.PathUnescape(to) // an error is one of the document: then the path is encoded as a whole
	u := &url.URL{Path: cmp.Or(decoded, to), RawPath: to, RawQuery: strings.Join(query, "&")}
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
	cookies := (&http.Request{Header: own}).Cookies()
	delete(own, "Cookie")
	for _, c := range cookies {
		if slices.Contains(o.Secrets, place("cookie", c.Name)) {
			own["Cookie"] = append(own["Cookie"], c.String())
		}
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
			name, _, _ := strings.Cut(v.name, "[") // of which it is a member in the style deepObject
			other := func(q Parameter) bool {
				return q.In == p.In && (q.Name == v.name || q.Name == name) && q.Input != p.Input
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

// fields returns the fields for a value in a query, cookie or form, each with an equals sign.
func (p *Parameter) fields(value jsontext.Value, escape func(string) string) (fields []string) {
	if p.Style == "deepObject" && p.In != "cookie" {
		return deepFields(nil, p.Name, value, escape)
	}
	parts := p.parts(value)
	if !p.Explode && len(parts) > 0 {
		return []string{escape(p.Name) + "=" + joined(parts, cmp.Or(separators[p.Style], ","), false, escape)}
	}
	for _, v := range parts {
		fields = append(fields, escape(cmp.Or(v.name, p.Name))+"="+escape(v.value))
	}
	return fields
}

// deepFields appends the fields of a value in the style deepObject: a[b]=c. What this means for arrays, OpenAPI does not say; servers in use read
// a[]=b and, for objects in arrays, a[0][b]=c.
func deepFields(fields []string, name string, value jsontext.Value, escape func(string) string) []string {
	switch value.Kind() {
	case '{':
		for member, value := range jsonrpc.Members(value) {
			fields = deepFields(fields, name+"["+string(jsonrpc.Unquote(member))+"]", value, escape)
		}
	case '[':
		for i, item := range slices.Collect(jsonrpc.Items(value)) {
			index := ""
			if item.Kind() == '{' || item.Kind() == '[' {
				index = strconv.Itoa(i)
			}
			fields = deepFields(fields, name+"["+index+"]", item, escape)
		}
	case 'n':
	default:
		fields = append(fields, escape(name)+"="+escape(textOf(value)))
	}
	return fields
}

// escapeURL percent-encodes all but the unreserved characters of RFC 3986, section 2.3.
func escapeURL(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// cookie percent-encodes what must not stand in a cookie (RFC 6265, section 4.1.1), and the percent sign.
var cookie = strings.NewReplacer(" ", "%20", `"`, "%22", "%", "%25", ",", "%2C", ";", "%3B", `\`, "%5C")

// field is a member of a body with its argument.
type field struct {
	*Member
	*argument
}

// encode returns the body for the arguments, and its media type; empty: there is none.
func (b *Body) encode(given arguments) (body []byte, mediaType string, failure *run.Failure) {
	if b == nil {
		return nil, "", nil
	}
	isForm, isMultipart := strings.HasPrefix(b.MediaType, "application/x-www-form-urlencoded"), strings.HasPrefix(b.MediaType, "multipart/")
	var fields []field
	if b.Whole == "" {
		if fields, failure = b.given(given); failure != nil || fields == nil && !b.Required {
			return nil, "", failure
		}
	} else {
		a := given.take(b.Whole)
		switch {
		case a == nil:
			return nil, "", nil
		case b.Base64:
			body, failure = a.bytes(a.value)
			return body, b.MediaType, failure
		case isJSON(b.MediaType):
			return a.value, b.MediaType, nil
		case !isForm && !isMultipart || a.value.Kind() != '{':
			return []byte(textOf(a.value)), b.MediaType, nil
		}
		for name, value := range jsonrpc.Members(a.value) {
			fields = append(fields, field{&Member{Name: string(jsonrpc.Unquote(name))}, &argument{name: a.name, value: value}})
		}
	}
	if isMultipart {
		return encodeMultipart(fields)
	}
	var texts []string
	for _, f := range fields {
		if isForm {
			p := Parameter{Name: f.Name, Style: f.Style, Explode: f.Explode || f.Style == "", JSON: f.Style == "" && f.value.Kind() == '{'}
			for _, v := range p.parts(f.value) {
				name, _, _ := strings.Cut(v.name, "[")
				if p.Explode && p.Style == "form" && slices.ContainsFunc(b.Members, func(m Member) bool { return m.Name == v.name || m.Name == name }) {
					return nil, "", f.fault(run.WrongSchema, notBeside(v.name))
				}
			}
			texts = append(texts, p.fields(f.value, url.QueryEscape)...)
		} else {
			texts = append(texts, string(jsonvalue.Quoted(f.Name))+":"+string(f.value))
		}
	}
	if isForm {
		return []byte(strings.Join(texts, "&")), b.MediaType, nil
	}
	return []byte("{" + strings.Join(texts, ",") + "}"), b.MediaType, nil
}

// given returns the members of the body that are given, in the order of the arguments. If one is, the required ones must be, too.
func (b *Body) given(given arguments) (fields []field, failure *run.Failure) {
	missing := ""
	for i := range b.Members {
		m := &b.Members[i]
		if a := given.take(m.Input); a != nil {
			fields = append(fields, field{m, a})
		} else if m.Required {
			missing = cmp.Or(missing, m.Input)
		}
	}
	if missing != "" && (fields != nil || b.Required) {
		return nil, (&argument{name: missing}).fault(run.Required, "is required in a body")
	}
	slices.SortFunc(fields, func(a, b field) int { return a.at - b.at })
	return fields, nil
}

// bytes returns the bytes of a value in base64.
func (a *argument) bytes(value jsontext.Value) ([]byte, *run.Failure) {
	content, err := base64.StdEncoding.DecodeString(textOf(value))
	if err != nil {
		return nil, a.fault(run.WrongSchema, "must be base64")
	}
	return content, nil
}

// encodeMultipart returns a form in multipart/form-data (RFC 7578).
func encodeMultipart(fields []field) (body []byte, mediaType string, failure *run.Failure) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b) // writing to memory does not fail
	for _, f := range fields {
		items := []jsontext.Value{f.value}
		if f.value.Kind() == '[' {
			items = slices.Collect(jsonrpc.Items(f.value))
		}
		for _, item := range items {
			disposition, content := strings.TrimSuffix(multipart.FileContentDisposition(f.Name, ""), `; filename=""`), []byte(textOf(item))
			mediaType = f.MediaType
			switch kind := item.Kind(); {
			case kind == 'n':
				continue
			case f.File:
				if content, failure = f.bytes(item); failure != nil {
					return nil, "", failure
				}
				mediaType = cmp.Or(mediaType, http.DetectContentType(content))
				essence, _, _ := strings.Cut(mediaType, ";")
				disposition = multipart.FileContentDisposition(f.Name, "file."+path.Base(essence)) // some APIs tell formats apart by the extension
			case kind == '{' || kind == '[':
				mediaType = cmp.Or(mediaType, "application/json")
			}
			header := textproto.MIMEHeader{"Content-Disposition": {disposition}}
			if mediaType != "" {
				header.Set("Content-Type", mediaType)
			}
			w, _ := form.CreatePart(header)
			_, _ = w.Write(content)
		}
	}
	_ = form.Close()
	return b.Bytes(), form.FormDataContentType(), nil
}
