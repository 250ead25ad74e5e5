package publish

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"mime"
	"reflect"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// maxInputs bounds the inputs of an operation. Descriptors have no more.
const maxInputs = 500

var errManyInputs = fmt.Errorf("bridges don't take its descriptor: /inputs must have at most %d entries", maxInputs)

// inputs returns the inputs of an operation, required ones first, then by name. It says in operation how calls send them.
func (t *translation) inputs(o *selection, operation *Operation) ([]document.Parameter, error) {
	parameters, err1 := t.parameters(o)
	body, err2 := t.object(o.operation["requestBody"])
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	if t.swagger {
		body = t.bodyOf(o, parameters)
	}
	var all []document.Parameter
	for _, found := range placeholder.FindAllStringSubmatch(o.path, maxInputs+1) { // those that no parameter defines are texts
		isDefined := func(p map[string]any) bool { return p["in"] == "path" && p["name"] == found[1] }
		if !slices.ContainsFunc(parameters, isDefined) {
			parameters = append(parameters, map[string]any{"in": "path", "name": found[1], "schema": map[string]any{"type": "string"}, "type": "string"})
		}
	}
	if len(parameters) > maxInputs {
		return nil, errManyInputs
	}
	for _, p := range parameters {
		name, in := text(p["name"]), text(p["in"])
		switch {
		case name == "":
			continue
		case in == "path" && strings.Contains(o.path, "{"+name+"}"):
		case slices.Contains([]string{"query", "header", "cookie"}, in) && Settable(in, name) && !slices.Contains(operation.Secrets, place(in, name)):
		default:
			continue
		}
		own := Parameter{Name: name, In: in, Style: cmp.Or(text(p["style"]), map[string]string{"query": "form", "cookie": "form"}[in], "simple")}
		explode, stated := p["explode"].(bool)
		own.Explode = explode || !stated && own.Style == "form"
		schema, hasSchema := p["schema"]
		if t.swagger {
			schema, hasSchema, own.Explode = p, true, p["collectionFormat"] == "multi"
			own.Style = cmp.Or(collections[text(p["collectionFormat"])], own.Style)
		}
		if !slices.Contains([]string{"simple", "form", "deepObject"}, own.Style) && (in != "query" || separators[own.Style] == "") {
			return nil, fmt.Errorf("its parameter %s has the style %s, which is not sent", line(name), line(own.Style))
		}
		if mediaType, media := choose(p["content"]); !hasSchema && media != nil {
			schema, own.JSON = media["schema"], isJSON(mediaType)
		}
		input, err := t.input(name, in == "path" || p["required"] == true, p["description"], schema)
		if slices.ContainsFunc(all, named(name)) {
			err = fmt.Errorf("two of its parameters have the name %s", name)
		}
		if err != nil {
			return nil, err
		}
		all, operation.Parameters = append(all, input), append(operation.Parameters, own)
	}
	of, err := t.body(body, all, operation)
	all = append(all, of...)
	order := map[bool]int{true: -1}
	slices.SortFunc(all, func(a, b document.Parameter) int {
		return cmp.Or(order[a.Required]-order[b.Required], cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// collections are the styles for what Swagger 2.0 calls collection formats, besides csv and multi.
var collections = map[string]string{"ssv": "spaceDelimited", "tsv": "tabDelimited", "pipes": "pipeDelimited"}

func named(name string) func(document.Parameter) bool {
	return func(p document.Parameter) bool { return p.Name == name }
}

// parameters returns the parameters of an operation, those of its path included.
func (t *translation) parameters(o *selection) (all []map[string]any, err error) {
	for _, around := range []map[string]any{o.around, o.operation} {
		for _, item := range listIn(around["parameters"]) {
			p, err := t.object(item)
			if err != nil {
				return nil, err
			}
			all = slices.DeleteFunc(all, func(q map[string]any) bool {
				return place(text(q["in"]), text(q["name"])) == place(text(p["in"]), text(p["name"]))
			})
			if all = append(all, p); len(all) > maxInputs {
				return nil, errManyInputs
			}
		}
	}
	return all, nil
}

// input returns the input with a schema.
func (t *translation) input(name string, required bool, description, of any) (document.Parameter, error) {
	s := &schemas{docs: t.docs, old: t.old, omit: "readOnly"}
	schema, kind, err := s.root(of)
	if t.size += jsonvalue.SizeOf(schema).Bytes; t.size > 2*document.Standard.OfSchemas().BytesOfAll() {
		err = cmp.Or(err, errTooLarge)
	}
	if err = cmp.Or(err, t.docs.ctx.Err()); err != nil {
		return document.Parameter{}, fmt.Errorf("its input %s: %w", name, err)
	}
	target := s.defined(schema)
	p := document.Parameter{Name: name, Type: kind, Required: required}
	p.Description = cmp.Or(lines(description), text(schema["description"]), text(target["description"]), text(target["title"]), "The "+name+".")
	if delete(schema, "description"); len(schema) > 1 || schema["type"] != kind {
		p.Schema = jsonvalue.Marshal(schema)
	}
	return p, nil
}

// Media types by how calls send them, in the order in which they are taken.
const (
	jsonBody = iota
	otherJSON
	patchJSON
	formBody
	multipartBody
	textBody
	bytesBody
)

func formOf(mediaType string) int {
	switch essence := front.Essence(mediaType); {
	case essence == "application/json":
		return jsonBody
	case essence == "application/json-patch+json": // a list, beside types of objects
		return patchJSON
	case strings.HasSuffix(essence, "+json"), strings.HasSuffix(essence, "/x-json"), essence == "text/json", essence == "*/*", essence == "application/*":
		return otherJSON
	case essence == "application/x-www-form-urlencoded":
		return formBody
	case essence == "multipart/form-data":
		return multipartBody
	case strings.HasPrefix(essence, "text/"), strings.HasSuffix(essence, "xml"), strings.HasSuffix(essence, "yaml"):
		return textBody
	}
	return bytesBody
}

// isJSON reports whether a media type is one of JSON.
func isJSON(mediaType string) bool { return formOf(mediaType) < formBody }

// choose returns the media type in a content that is taken, and what the content says about it.
func choose(content any) (mediaType string, media map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(objectIn(content))) {
		if mediaType == "" || formOf(name) < formOf(mediaType) {
			mediaType, media = name, objectIn(objectIn(content)[name])
		}
	}
	return mediaType, media
}

// body returns the inputs of a request body, and says in operation how calls send them. others are the other inputs.
func (t *translation) body(body map[string]any, others []document.Parameter, operation *Operation) (all []document.Parameter, err error) {
	mediaType, media := choose(body["content"])
	if mediaType == "" {
		return nil, nil
	}
	form := formOf(mediaType)
	if strings.Contains(mediaType, "*") {
		mediaType = cmp.Or(map[int]string{otherJSON: "application/json", textBody: "text/plain"}[form], "application/octet-stream")
	}
	own := &Body{MediaType: mediaType, Required: body["required"] == true}
	operation.Body = own
	s := schemas{docs: t.docs, omit: "readOnly", left: maxVisits}
	properties, required := s.members(media["schema"])
	if root, _ := t.object(media["schema"]); root["discriminator"] != nil { // what inherits from it may have more members
		properties = nil
	}
	names := slices.Sorted(maps.Keys(properties))
	taken := func(name string) bool { return slices.ContainsFunc(others, named(name)) }
	if form < textBody && len(names) > maxInputs {
		return nil, errManyInputs
	}
	if form < textBody && len(names) > 0 && !slices.ContainsFunc(names, taken) {
		for _, name := range names {
			encoding := objectIn(objectIn(media["encoding"])[name])
			mediaType, _, _ := strings.Cut(line(encoding["contentType"]), ",") // of several, the first
			schema, member := properties[name], Member{Style: text(encoding["style"])}
			if file, as := t.file(schema, mediaType); file != nil && form == multipartBody {
				schema, member = file, as
			} else if !strings.Contains(mediaType, "*") {
				member.MediaType = mediaType
			}
			member.Name, member.Required = name, slices.Contains(required, name)
			if encoding["explode"] != nil {
				member.Style = cmp.Or(member.Style, "form")
			}
			member.Explode = encoding["explode"] == true || encoding["explode"] == nil && member.Style == "form"
			p, err := t.input(name, own.Required && member.Required, nil, schema)
			if err != nil {
				return nil, err
			}
			own.Members, all = append(own.Members, member), append(all, p)
		}
		return all, nil
	}
	if own.Whole = "body"; taken("body") {
		own.Whole = "request_body"
	}
	schema := media["schema"]
	switch own.Base64 = form == bytesBody; {
	case own.Base64:
		schema = map[string]any{"type": "string", "contentEncoding": "base64", "contentMediaType": mediaType}
	case form == textBody:
		schema = map[string]any{"type": "string", "contentMediaType": mediaType}
	case len(names) == 0 && form >= formBody:
		schema = map[string]any{"type": "object"}
	}
	p, err := t.input(own.Whole, own.Required, body["description"], schema)
	return []document.Parameter{p}, err
}

// members returns the properties of an object, those of its parts included, and which are required. properties is nil if the schema is not one of
// an object only, or if a part of it can't be found, which may have more.
func (s *schemas) members(v any) (properties map[string]any, required []string) {
	found := s.docs.part(v)
	schema := objectIn(found)
	object := jsonvalue.TypesNamed("object") | jsonvalue.TypesNamed("null")
	if s.left -= 1 + len(objectIn(schema["properties"])) + len(listIn(schema["required"])); s.left < 0 || found == nil || schema["type"] != nil && jsonvalue.TypesOf(schema["type"])|object != object {
		return nil, nil
	}
	properties = map[string]any{}
	for _, word := range []string{"allOf", "oneOf", "anyOf"} {
		for _, part := range listIn(schema[word]) {
			others, also := s.members(part)
			if s.left -= len(others) + len(also); s.left < 0 || others == nil || word != "allOf" && len(others) > 0 {
				return nil, nil
			}
			if maps.Copy(properties, others); word == "allOf" {
				required = append(required, also...)
			}
		}
	}
	own := objectIn(schema["properties"])
	for _, name := range slices.Sorted(maps.Keys(own)) { // so that what is missing has an order
		if !s.omitted(own[name]) {
			properties[name] = own[name]
		}
	}
	for _, name := range listIn(schema["required"]) {
		required = append(required, text(name))
	}
	return properties, required
}

// file returns the schema of a field of a multipart body that is a file, or an array of files, in base64; nil: it is none.
func (t *translation) file(v any, mediaType string) (schema map[string]any, member Member) {
	field, _ := t.object(v)
	one := field
	if field["type"] == "array" {
		one, _ = t.object(field["items"])
	}
	mediaType = cmp.Or(mediaType, text(one["contentMediaType"]))
	if one["type"] != nil && one["type"] != "string" || one["contentEncoding"] != nil || one["format"] != "binary" && (mediaType == "" || formOf(mediaType) != bytesBody) {
		return nil, member
	}
	if strings.Contains(mediaType, "*") {
		mediaType = ""
	}
	schema = map[string]any{"type": "string", "contentEncoding": "base64", "contentMediaType": cmp.Or(mediaType, "application/octet-stream")}
	if field["type"] == "array" {
		schema = map[string]any{"type": "array", "items": schema}
	}
	schema["title"], schema["description"] = field["title"], field["description"]
	return schema, Member{File: true, MediaType: mediaType}
}

// bodyOf returns the request body of Swagger 2.0, as OpenAPI 3.0 has it.
func (t *translation) bodyOf(o *selection, parameters []map[string]any) map[string]any {
	types := t.mediaTypes(o, "consumes")
	properties, required, encoding := map[string]any{}, []any{}, map[string]any{}
	form := "application/x-www-form-urlencoded"
	for _, p := range parameters {
		if p["in"] == "body" {
			return map[string]any{"required": p["required"], "description": p["description"], "content": content(types, p["schema"])}
		}
		if p["in"] != "formData" {
			continue
		}
		field := maps.Clone(p)
		if delete(field, "required"); p["required"] == true {
			required = append(required, p["name"])
		}
		if p["type"] == "file" {
			field["type"], field["format"] = "string", "binary"
		}
		if properties[text(p["name"])] = field; p["type"] == "file" || slices.Contains(types, any("multipart/form-data")) {
			form = "multipart/form-data"
		}
		if format := text(p["collectionFormat"]); p["type"] == "array" {
			encoding[text(p["name"])] = map[string]any{"style": cmp.Or(collections[format], "form"), "explode": format == "multi"}
		}
	}
	if len(properties) == 0 {
		return nil
	}
	schema := map[string]any{"type": "object", "properties": properties, "required": required}
	return map[string]any{"required": len(required) > 0, "content": map[string]any{form: map[string]any{"schema": schema, "encoding": encoding}}}
}

// mediaTypes returns what an operation of Swagger 2.0 consumes or produces. Generators write empty lists for operations that have bodies.
func (t *translation) mediaTypes(o *selection, word string) []any {
	for _, list := range [][]any{listIn(o.operation[word]), listIn(t.root[word])} {
		if len(list) > 0 {
			return list
		}
	}
	return []any{"application/json"}
}

// content returns a content of OpenAPI 3.0 with one schema.
func content(mediaTypes []any, schema any) map[string]any {
	all := map[string]any{}
	for _, mediaType := range mediaTypes {
		all[text(mediaType)] = map[string]any{"schema": schema}
	}
	return all
}

// output returns the output of an operation: that of the first answer that is a success. Its schema takes what the others have, too.
func (t *translation) output(o *selection, operation *Operation) (document.Output, error) {
	output := document.Output{ContentType: "application/json"}
	answers, err := t.object(o.operation["responses"])
	var all map[string]any // the content of the first one
	var bodies []any       // the schemas of all; nil: it is not known
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		if !strings.HasPrefix(status, "2") && (status != "default" || bodies != nil) {
			continue
		}
		answer := objectIn(t.docs.part(answers[status]))
		own := objectIn(answer["content"])
		if t.swagger && answer["schema"] != nil {
			own = content(t.mediaTypes(o, "produces"), answer["schema"])
		}
		var body any
		if mediaType, media := choose(own); len(own) == 0 || o.method == "HEAD" {
			body = map[string]any{"type": "null"}
		} else if isJSON(mediaType) {
			body = media["schema"]
		}
		if bodies == nil {
			output.Description, all = lines(answer["description"]), own
		}
		bodies = append(bodies, body)
	}
	if err != nil || len(all) == 0 {
		return output, err
	}
	mediaType, _ := choose(all)
	if len(all) == 1 && strings.HasPrefix(mediaType, "text/event-stream") {
		return output, errors.New("it answers only with text/event-stream")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if isJSON(name) == isJSON(mediaType) && name != "text/event-stream" {
			operation.Accept = append(operation.Accept, name)
		}
	}
	if essence, _, err := mime.ParseMediaType(mediaType); !isJSON(mediaType) && err == nil && !strings.Contains(essence, "*") {
		output.ContentType = essence
	}
	if bodies = slices.CompactFunc(bodies, reflect.DeepEqual); !slices.Contains(bodies, nil) && !t.options.NoOutputSchema {
		of, s := bodies[0], schemas{docs: t.docs, old: t.old, omit: "writeOnly"}
		if len(bodies) > 1 {
			of = map[string]any{"anyOf": bodies}
		}
		if schema, _, err := s.root(of); err == nil {
			output.Schema = jsonvalue.Marshal(schema)
		}
	}
	return output, nil
}
