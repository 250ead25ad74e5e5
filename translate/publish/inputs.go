package publish

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// inputs returns the inputs of an operation, and completes what it becomes of them: required ones first, then by name.
func (t *translation) inputs(o *selection, operation *Operation) ([]document.Parameter, error) {
	parameters, err := t.parameters(o)
	if err != nil {
		return nil, err
	}
	body, err := t.object(o.operation["requestBody"])
	if err != nil {
		return nil, err
	}
	if t.swagger {
		body = t.bodyOf(o, parameters)
	}
	var all []document.Parameter
	add := func(name string, required bool, description, value any) error {
		if slices.ContainsFunc(all, func(p document.Parameter) bool { return p.Name == name }) {
			return fmt.Errorf("two of its parameters have the name %s", name)
		}
		p, err := t.input(name, required, description, value)
		all = append(all, p)
		return err
	}
	for _, p := range parameters {
		name, in := text(p["name"]), text(p["in"])
		inPath := in == "path" && strings.Contains(o.path, "{"+name+"}")
		if !inPath && in != "query" && in != "header" && in != "cookie" || !Settable(in, name) || in == "header" && slices.Contains(operation.Credentials, http.CanonicalHeaderKey(name)) {
			continue
		}
		own := Parameter{Input: name, Name: name, In: in, Style: text(p["style"]), AllowReserved: p["allowReserved"] == true}
		own.Style = cmp.Or(own.Style, map[bool]string{true: "form", false: "simple"}[in == "query" || in == "cookie"])
		explode, stated := p["explode"].(bool)
		own.Explode = explode || !stated && own.Style == "form"
		value, hasSchema := p["schema"]
		if t.swagger {
			value, hasSchema = p, true
			format := text(p["collectionFormat"])
			own.Explode = format == "multi"
			own.Style = cmp.Or(map[string]string{"ssv": "spaceDelimited", "pipes": "pipeDelimited"}[format], own.Style)
		}
		if _, media := choose(p["content"]); !hasSchema && media != nil {
			value, own.JSON = media["schema"], true
		}
		if err := add(name, inPath || p["required"] == true, p["description"], value); err != nil {
			return nil, err
		}
		operation.Parameters = append(operation.Parameters, own)
	}
	for _, found := range placeholder.FindAllStringSubmatch(o.path, -1) {
		isKnown := func(p Parameter) bool { return p.In == "path" && p.Name == found[1] }
		if name := found[1]; !slices.ContainsFunc(operation.Parameters, isKnown) {
			if odd.MatchString(name) || name == "" {
				return nil, fmt.Errorf("its path has {%s}, which is none of its parameters", name)
			}
			if err := add(name, true, nil, map[string]any{"type": "string"}); err != nil {
				return nil, err
			}
			operation.Parameters = append(operation.Parameters, Parameter{Input: name, Name: name, In: "path", Style: "simple"})
		}
	}
	of, err := t.body(body, all, operation)
	all = append(all, of...)
	slices.SortFunc(all, func(a, b document.Parameter) int {
		if a.Required != b.Required {
			return map[bool]int{true: -1, false: 1}[a.Required]
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return all, err
}

// parameters returns the parameters of an operation, those of its path included.
func (t *translation) parameters(o *selection) (all []map[string]any, err error) {
	for _, around := range []map[string]any{o.around, o.operation} {
		value, err := t.docs.follow(around["parameters"])
		if err != nil {
			return nil, err
		}
		list, _ := value.([]any)
		for _, item := range list {
			p, err := t.object(item)
			if err != nil {
				return nil, err
			}
			all = slices.DeleteFunc(all, func(q map[string]any) bool { return q["in"] == p["in"] && text(q["name"]) == text(p["name"]) })
			all = append(all, p)
		}
	}
	return all, nil
}

// input returns the input with a schema.
func (t *translation) input(name string, required bool, description, value any) (document.Parameter, error) {
	schemas := t.schemas("readOnly")
	schema, kind, err := schemas.root(value)
	if err != nil {
		return document.Parameter{}, fmt.Errorf("its input %s: %w", name, err)
	}
	referred, _ := schemas.defs[strings.TrimPrefix(text(schema["$ref"]), defs)].(map[string]any)
	p := document.Parameter{Name: name, Type: kind, Required: required}
	p.Description = cmp.Or(lines(description), text(schema["description"]), text(referred["description"]), text(schema["title"]), text(referred["title"]), "The "+name+".")
	delete(schema, "description")
	if _, isOne := schema["type"].(string); !isOne || len(schema) > 1 {
		p.Schema = jsonvalue.Marshal(schema)
	}
	return p, nil
}

// Media types that have a meaning of their own here.
const (
	formType      = "application/x-www-form-urlencoded"
	multipartType = "multipart/form-data"
)

// choose returns the media type in a content that is taken, and what the content says about it: JSON, then forms, then text.
func choose(content any) (mediaType string, media map[string]any) {
	all, _ := content.(map[string]any)
	best := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if rank := rankOf(name); mediaType == "" || rank < best {
			mediaType, best = name, rank
			media, _ = all[name].(map[string]any)
		}
	}
	return mediaType, media
}

// rankOf returns the place of a media type among others. Those below formRank are JSON, and those from textRank on are one value.
func rankOf(mediaType string) int {
	essence, _, err := mime.ParseMediaType(mediaType)
	switch {
	case essence == "application/json":
		return 0
	case err == nil && strings.HasSuffix(essence, "+json") && essence != "application/json-patch+json" || essence == "text/json":
		return 1
	case essence == "*/*" || essence == "application/*":
		return 2
	case essence == "application/json-patch+json":
		return 3
	case essence == formType:
		return formRank
	case essence == multipartType:
		return formRank + 1
	case strings.HasPrefix(essence, "text/") || strings.HasSuffix(essence, "xml") || strings.HasSuffix(essence, "yaml"):
		return textRank
	}
	return textRank + 1
}

const formRank, textRank = 4, 6

// body returns the inputs of a request body, and says in the operation what becomes of them. others are the other inputs.
func (t *translation) body(body map[string]any, others []document.Parameter, operation *Operation) ([]document.Parameter, error) {
	mediaType, media := choose(body["content"])
	if mediaType == "" {
		return nil, nil
	}
	rank := rankOf(mediaType)
	if strings.Contains(mediaType, "*") {
		mediaType = map[bool]string{true: "application/json", false: "application/octet-stream"}[rank < formRank]
	}
	own := &Body{MediaType: mediaType, Required: body["required"] == true}
	operation.Body = own
	properties, required, err := t.members(media["schema"], 0)
	if err != nil {
		return nil, err
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(others, func(p document.Parameter) bool { return p.Name == name })
	}
	names := slices.Sorted(maps.Keys(properties))
	if rank < textRank && len(names) > 0 && !slices.ContainsFunc(names, taken) {
		var all []document.Parameter
		encoding, _ := media["encoding"].(map[string]any)
		for _, name := range names {
			how, _ := encoding[name].(map[string]any)
			member := Member{Input: name, Name: name, Required: slices.Contains(required, name), Style: text(how["style"])}
			member.Explode = how["explode"] == true || how["explode"] == nil && member.Style == "form"
			p, err := t.input(name, own.Required && member.Required, nil, properties[name])
			if err != nil {
				return nil, err
			}
			if rank == formRank+1 {
				t.file(&member, &p, how)
			}
			own.Members, all = append(own.Members, member), append(all, p)
		}
		return all, nil
	}
	for _, own.Whole = range []string{"body", "request_body"} {
		if !taken(own.Whole) {
			break
		}
	}
	value := media["schema"]
	switch {
	case rank >= formRank && rank < textRank:
		return nil, fmt.Errorf("its body is a form (%s) that is no object, or has a field with the name of a parameter", mediaType)
	case rank >= textRank:
		own.Base64 = rank > textRank
		value = map[string]any{"type": "string", "contentMediaType": mediaType}
		if own.Base64 {
			value = map[string]any{"type": "string", "contentEncoding": "base64", "contentMediaType": mediaType}
		}
	}
	p, err := t.input(own.Whole, own.Required, body["description"], value)
	return []document.Parameter{p}, err
}

// members returns the properties of an object, those of its parts included, and which are required; none: the schema is not only one of an object.
func (t *translation) members(v any, depth int) (properties map[string]any, required []string, err error) {
	schema, err := t.object(v)
	kinds, _ := schema["type"].([]any)
	if kind := schema["type"]; err != nil || depth > maxReferences || kind != nil && kind != "object" && !slices.Contains(kinds, any("object")) {
		return nil, nil, err
	}
	properties = map[string]any{}
	own, _ := schema["properties"].(map[string]any)
	s := t.schemas("readOnly")
	for name, property := range own {
		if !s.omitted(property) {
			properties[name] = property
		}
	}
	names, _ := schema["required"].([]any)
	parts, _ := schema["allOf"].([]any)
	for _, part := range parts {
		others, also, err := t.members(part, depth+1)
		if err != nil {
			return nil, nil, err
		}
		for name, property := range others {
			if properties[name] == nil {
				properties[name] = property
			}
		}
		for _, name := range also {
			names = append(slices.Clip(names), name)
		}
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		parts, _ := schema[word].([]any)
		for _, part := range parts {
			others, _, err := t.members(part, depth+1)
			for name := range others {
				if properties[name] == nil {
					return nil, nil, err
				}
			}
			if err != nil || len(properties) == 0 {
				return nil, nil, err
			}
		}
	}
	for _, name := range names {
		if properties[text(name)] != nil {
			required = append(required, text(name))
		}
	}
	return properties, required, cmp.Or(s.err, err)
}

// file makes a field of a multipart body a file, if it is one.
func (t *translation) file(member *Member, p *document.Parameter, encoding map[string]any) {
	value, _ := jsonvalue.Read(p.Schema, jsonvalue.Bounds{Depth: maxLevels, Values: maxVisits})
	schema, _ := value.(map[string]any)
	one := schema
	if items, isObject := schema["items"].(map[string]any); isObject {
		one = items
	}
	mediaType, _, _ := strings.Cut(text(encoding["contentType"]), ",")
	mediaType = cmp.Or(mediaType, text(one["contentMediaType"]))
	if one["type"] != "string" || one["contentEncoding"] != nil || one["format"] != "binary" && (mediaType == "" || rankOf(mediaType) <= textRank) {
		return
	}
	if strings.Contains(mediaType, "*") {
		mediaType = ""
	}
	member.File, member.MediaType = true, strings.TrimSpace(mediaType)
	delete(one, "format")
	one["contentEncoding"], one["contentMediaType"] = "base64", cmp.Or(member.MediaType, "application/octet-stream")
	p.Schema = jsonvalue.Marshal(schema)
}

// bodyOf returns the request body of Swagger 2.0, as OpenAPI 3.0 has it.
func (t *translation) bodyOf(o *selection, parameters []map[string]any) map[string]any {
	types := t.mediaTypes(o, "consumes")
	body, properties, required := map[string]any{}, map[string]any{}, []any{}
	isFile := false
	for _, p := range parameters {
		switch p["in"] {
		case "body":
			body["required"], body["description"] = p["required"], p["description"]
			body["content"] = content(types, p["schema"])
		case "formData":
			field := maps.Clone(p)
			if delete(field, "required"); p["required"] == true {
				required = append(required, p["name"])
			}
			if p["type"] == "file" {
				field["type"], field["format"], isFile = "string", "binary", true
			}
			properties[text(p["name"])] = field
		}
	}
	if len(properties) > 0 {
		if types = slices.DeleteFunc(types, func(s string) bool { return rankOf(s) < formRank || rankOf(s) >= textRank }); isFile || len(types) == 0 {
			types = []string{map[bool]string{true: multipartType, false: formType}[isFile]}
		}
		body["required"] = len(required) > 0
		body["content"] = content(types, map[string]any{"type": "object", "properties": properties, "required": required})
	}
	return body
}

// mediaTypes returns what Swagger 2.0 consumes or produces.
func (t *translation) mediaTypes(o *selection, word string) []string {
	list, isList := o.operation[word].([]any)
	if !isList {
		list, _ = t.root[word].([]any)
	}
	var all []string
	for _, item := range list {
		all = append(all, text(item))
	}
	if all == nil {
		return []string{"application/json"}
	}
	return all
}

// content returns the content of OpenAPI 3.0 for media types with one schema.
func content(mediaTypes []string, schema any) map[string]any {
	all := map[string]any{}
	for _, mediaType := range mediaTypes {
		all[mediaType] = map[string]any{"schema": schema}
	}
	return all
}

// output returns the output of an operation: that of the first answer that is a success.
func (t *translation) output(o *selection, operation *Operation) (document.Output, error) {
	output := document.Output{ContentType: "application/json"}
	answers, err := t.object(o.operation["responses"])
	if err != nil {
		return output, err
	}
	var answer map[string]any
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		if strings.HasPrefix(status, "2") || status == "default" {
			if answer, err = t.object(answers[status]); err != nil {
				return output, err
			}
			break
		}
	}
	types := answer["content"]
	if t.swagger && answer["schema"] != nil {
		types = content(t.mediaTypes(o, "produces"), answer["schema"])
	}
	all, _ := types.(map[string]any)
	mediaType, media := choose(types)
	if _, streams := all["text/event-stream"]; streams && len(all) == 1 {
		return output, errors.New("it answers only with text/event-stream")
	}
	rank := rankOf(mediaType)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if rankOf(name) < formRank == (rank < formRank) && name != "text/event-stream" {
			operation.Accept = append(operation.Accept, name)
		}
	}
	output.Description = lines(answer["description"])
	if rank >= formRank && mediaType != "" {
		if essence, _, err := mime.ParseMediaType(mediaType); err == nil && !strings.Contains(essence, "*") {
			output.ContentType = essence
		}
	} else if media["schema"] != nil && !t.options.NoOutputSchema {
		if schema, _, err := t.schemas("writeOnly").root(media["schema"]); err == nil {
			output.Schema = jsonvalue.Marshal(schema)
		}
	}
	return output, nil
}
