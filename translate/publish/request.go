package publish

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
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

// plainHeaders can't have a credential, but are inputs of some APIs.
var plainHeaders = []string{
	"Accept-Language", "Cache-Control", "Content-Language", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", "User-Agent",
}

// argument is an input that the caller gave.
type argument struct {
	name  string
	value jsontext.Value
	used  bool
}

// fault returns the failure of an argument.
func (a *argument) fault(reason run.Reason, problem string) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidArguments, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo,
		Message: fmt.Sprintf("argument %q %s", safetext.Clip(a.name, jsonvalue.MaxActual), problem),
		Argument: &run.Argument{
			Field: run.FieldInput, Name: safetext.Clip(a.name, jsonvalue.MaxActual), Reason: reason,
			Pointer: safetext.Clip(jsonvalue.Pointer([]string{a.name}), jsonvalue.MaxPath),
		},
	}
}

type arguments []*argument

// take returns the argument for an input; nil: it is not given.
func (given arguments) take(input string) *argument {
	for _, a := range given {
		if a.name == input && !a.used {
			a.used = true
			return a
		}
	}
	return nil
}

// Request returns the request to the API for the inputs of an invocation, an object of valid JSON that matches the schemas of the descriptor.
// caller has the headers of the invocation, of which the request gets the credential of the operation, traceparent and the idempotency key.
// The URL has no host. A failure is one of an argument, and names it.
func (o *Operation) Request(ctx context.Context, inputs jsontext.Value, caller http.Header) (*http.Request, *run.Failure) {
	var given arguments
	jsonrpc.EachMember(inputs, func(name, value jsontext.Value) bool {
		given = append(given, &argument{name: string(jsonrpc.Unquote(name)), value: value})
		return true
	})
	path, query, cookies, header := o.Path, []string(nil), []string(nil), http.Header{}
	for i := range o.Parameters {
		p := &o.Parameters[i]
		a := given.take(p.Input)
		if a == nil && p.In == "path" {
			return nil, (&argument{name: p.Input}).fault(run.Required, "is required: it is a part of the path")
		}
		if a == nil || jsonrpc.IsNull(a.value) && p.In != "path" {
			continue
		}
		value := a.value
		if p.JSON {
			value = jsonvalue.Quoted(compact(value))
		}
		parts := partsOf(value)
		if problem := o.flaw(p, parts); problem != "" {
			return nil, a.fault(run.WrongSchema, problem)
		}
		switch p.In {
		case "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", p.inPath(value, parts)) // what replaces it has no braces
		case "query":
			escape := escapeURL
			if p.AllowReserved {
				escape = func(s string) string { return reserved.Replace(escapeURL(s)) }
			}
			query = append(query, p.fields(value, escape)...)
		case "header":
			if name := http.CanonicalHeaderKey(p.Name); len(parts) > 0 && !slices.Contains(o.Credentials, name) {
				header.Set(name, joined(parts, p.Explode, ",", func(s string) string { return s }))
			}
		case "cookie":
			cookies = append(cookies, p.fields(value, escapeCookie)...)
		}
	}
	body, mediaType, failure := o.Body.encode(given)
	if failure != nil {
		return nil, failure
	}
	for _, a := range given {
		if !a.used {
			return nil, a.fault(run.NotFound, "is no input of the skill, or is given twice")
		}
	}
	header.Set("Accept", cmp.Or(strings.Join(o.Accept, ", "), "*/*"))
	if mediaType != "" {
		header.Set("Content-Type", mediaType)
	}
	for _, name := range append([]string{"Traceparent", "Idempotency-Key"}, o.Credentials...) {
		if values := caller[name]; values != nil && header[name] == nil {
			header[name] = slices.Clone(values)
		}
	}
	if cookies != nil {
		header["Cookie"] = []string{strings.Join(append(header["Cookie"], cookies...), "; ")}
	}
	decoded, _ := url.PathUnescape(path) // an error is one of the document: then the path is encoded as a whole
	to := &url.URL{Path: cmp.Or(decoded, path), RawPath: path, RawQuery: strings.Join(query, "&")}
	request := &http.Request{
		Method: o.Method, URL: to, RequestURI: to.RequestURI(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: http.NoBody, ContentLength: int64(len(body)),
	}
	if len(body) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	return request.WithContext(ctx), nil
}

// flaw returns what is wrong with the value of a parameter; empty: nothing.
func (o *Operation) flaw(p *Parameter, parts []part) string {
	const empty = "must not be empty: it is a part of the path"
	if p.In == "path" && len(parts) == 0 {
		return empty
	}
	isDots := func(segment string) bool { return segment == "." || segment == ".." }
	for _, v := range parts {
		if v.name != "" && p.Explode && p.Style != "deepObject" && (p.In == "query" || p.In == "cookie") { // the name stands beside those of other parameters
			other := func(q Parameter) bool { return q.In == p.In && q.Name == v.name && q.Input != p.Input }
			if slices.ContainsFunc(o.Parameters, other) || !Settable(p.In, v.name) {
				return fmt.Sprintf("must not have the member %q: this is another parameter, or no name", safetext.Clip(v.name, jsonvalue.MaxActual))
			}
		}
		switch text := v.name + "/" + v.value; {
		case p.In == "query":
		case strings.ContainsFunc(text, unicode.IsControl):
			return "must not have control characters"
		case p.In == "path" && v.value == "":
			return empty
		case p.In == "path" && slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }), isDots):
			return "must not have . or .. as a segment: it is a part of the path"
		}
	}
	return ""
}

// part is an item of an array, a member of an object, or another value alone.
type part struct{ name, value string }

// partsOf returns the parts of a value as texts. A null is none (RFC 6570, section 2.3).
func partsOf(value jsontext.Value) (parts []part) {
	add := func(name, value jsontext.Value) bool {
		if !jsonrpc.IsNull(value) {
			parts = append(parts, part{string(jsonrpc.Unquote(name)), textOf(value)})
		}
		return true
	}
	unnamed := jsontext.Value(`""`)
	switch value.Kind() {
	case '{':
		jsonrpc.EachMember(value, add)
	case '[':
		jsonrpc.EachItem(value, func(item jsontext.Value) bool { return add(unnamed, item) })
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

// joined returns parts as one text: the values of an array, and of an object its names as well, with an equals sign if equals is true.
func joined(parts []part, equals bool, separator string, escape func(string) string) string {
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

// inPath returns what stands in a path for the parameter.
func (p *Parameter) inPath(value jsontext.Value, parts []part) string {
	switch {
	case p.Style == "matrix":
		return ";" + strings.Join(p.fields(value, escapeURL), ";")
	case p.Style == "label" && p.Explode:
		return "." + joined(parts, true, ".", escapeURL)
	case p.Style == "label":
		return "." + joined(parts, false, ",", escapeURL)
	}
	return joined(parts, p.Explode, ",", escapeURL)
}

// delimiters separate the values of one field, by the style.
var delimiters = map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}

// fields returns the fields for a value in a query, cookie or form, each with an equals sign.
func (p *Parameter) fields(value jsontext.Value, escape func(string) string) (fields []string) {
	if p.Style == "deepObject" && p.In != "cookie" {
		return deepFields(nil, p.Name, value, escape)
	}
	parts := partsOf(value)
	if !p.Explode && len(parts) > 0 {
		return []string{escape(p.Name) + "=" + joined(parts, false, cmp.Or(delimiters[p.Style], ","), escape)}
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
		jsonrpc.EachMember(value, func(member, value jsontext.Value) bool {
			fields = deepFields(fields, name+"["+string(jsonrpc.Unquote(member))+"]", value, escape)
			return true
		})
	case '[':
		for i, item := range jsonrpc.Items(value) {
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

// reserved decodes the reserved characters that separate nothing in a query.
var reserved = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",")

// escapeCookie percent-encodes what must not stand in the value of a cookie (RFC 6265, section 4.1.1), and the percent sign.
func escapeCookie(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c > ' ' && c < 0x7f && strings.IndexByte(`",;\%`, c) < 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
