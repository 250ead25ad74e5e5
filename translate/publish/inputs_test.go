package publish_test

import (
	"strings"
	"testing"
)

// TestInputs: each parameter, and each member of an object body, is an input: required ones first, then by name.
func TestInputs(t *testing.T) {
	ok := `responses: {"200": {description: OK}}`
	body := func(schema, more string) string {
		return `{requestBody: {` + more + ` content: {application/json: {schema: ` + schema + `}}}, ` + ok + `}`
	}
	for _, c := range []struct{ name, document, inputs, parameters, body string }{
		{
			"parameters", operation(v30, "GET /pets/{id}", `{parameters: [
				{name: q, in: query, schema: {type: string, title: A query}}, {name: id, in: path, required: true, description: An id., schema: {type: integer}},
				{name: X-Trace, in: header, schema: {type: string, description: A trace.}}, {name: c, in: cookie, schema: {type: boolean}}], `+ok+`}`),
			`[{"name":"id","type":"integer","description":"An id.","required":true},
			  {"name":"X-Trace","type":"string","description":"A trace.","required":false},
			  {"name":"c","type":"boolean","description":"The c.","required":false},
			  {"name":"q","type":"string","description":"A query","required":false,"schema":{"type":"string","title":"A query"}}]`,
			`[["q","query","form",true],["id","path","simple",false],["X-Trace","header","simple",false],["c","cookie","form",true]]`, "",
		},
		{
			"styles", operation(v30, "GET /pets", `{parameters: [
				{name: a, in: query, style: deepObject, explode: true, schema: {type: object}}, {name: b, in: query, explode: false, schema: {type: array, items: {type: string}}},
				{name: d, in: query, content: {application/json: {schema: {type: object}}}}, {name: e, in: header, content: {text/plain: {schema: {type: string}}}}], `+ok+`}`),
			"", `[["a","query","deepObject",true],["b","query","form",false],["d","query","form",true,"JSON"],["e","header","simple",false]]`, "",
		},
		{
			"headers that are no inputs", operation(v30, "GET /pets", `{parameters: [
				{name: Authorization, in: header, required: true, schema: {type: string}}, {name: accept, in: header, schema: {type: string}}, {name: Content-Type, in: header, schema: {type: string}},
				{name: Host, in: header, schema: {type: string}}, {name: Cookie, in: header, schema: {type: string}}, {name: Proxy-Authorization, in: header, schema: {type: string}},
				{name: Transfer-Encoding, in: header, schema: {type: string}}, {name: x-key, in: header, schema: {type: string}}], security: [{key: []}], `+ok+`}`,
				`components: {securitySchemes: {key: {type: apiKey, in: header, name: X-Key}}}`),
			`[]`, `[]`, "",
		},
		{
			"keys of any security", operation(v30, "GET /pets", `{parameters: [{name: X_Key, in: header, schema: {type: string}}, {name: sid, in: cookie, schema: {type: string}},
				{name: token, in: query, schema: {type: string}}, {name: sid, in: query, schema: {type: string}}, {name: SID, in: cookie, schema: {type: string}}], security: [{}, {key: []}], `+ok+`}`,
				`components: {securitySchemes: {key: {type: apiKey, in: header, name: x-key}, token: {type: apiKey, in: query, name: token}, session: {$ref: '#/components/x'}}, x: {type: apiKey, in: cookie, name: sid}}`),
			"", `[["sid","query","form",true],["SID","cookie","form",true]]`, "",
		},
		{
			"a body of Swagger 2.0 with an empty list of media types", operation(v2, "POST /pets", `{consumes: [], parameters: [{name: pet, in: body, schema: {type: object, properties: {name: {type: string}}}}], `+ok+`}`, `consumes: [application/json]`),
			`[{"name":"name","type":"string","description":"The name.","required":false}]`, `[]`, `{"MediaType":"application/json","Whole":"","Base64":false,"Required":false,"Members":["name"]}`,
		},
		{
			"a parameter of the path that is not defined", operation(v30, "GET /pets/{id}/{other}", `{`+ok+`}`),
			`[{"name":"id","type":"string","description":"The id.","required":true},{"name":"other","type":"string","description":"The other.","required":true}]`,
			`[["id","path","simple",false],["other","path","simple",false]]`, "",
		},
		{
			"references among the parameters of the path", `openapi: 3.0.3
info: {title: Pets, version: "1"}
paths:
  /pets/{id}:
    parameters: [{$ref: '#/components/parameters/id'}, {name: q, in: query, schema: {type: string}}]
    get: {parameters: [{name: q, in: query, schema: {type: integer}}], responses: {"200": {description: OK}}}
components: {parameters: {id: {name: id, in: path, required: true, description: An id., schema: {$ref: '#/components/schemas/id'}}}, schemas: {id: {type: string, format: uuid}}}
`,
			`[{"name":"id","type":"string","description":"An id.","required":true,"schema":{"type":"string","format":"uuid"}},{"name":"q","type":"integer","description":"The q.","required":false}]`, "", "",
		},
		{
			"an object", operation(v30, "POST /pets", body(`{required: [name, kind, id], properties: {name: {type: string}, kind: {type: string, default: cat}, id: {type: integer, readOnly: true}}}`, "required: true,")),
			`[{"name":"kind","type":"string","description":"The kind.","required":true,"schema":{"type":"string","default":"cat"}},{"name":"name","type":"string","description":"The name.","required":true}]`,
			"", `{"MediaType":"application/json","Whole":"","Base64":false,"Required":true,"Members":["kind required","name required"]}`,
		},
		{
			"an object that is not required", operation(v30, "POST /pets", body(`{type: object, required: [name], properties: {name: {type: string}, kind: {type: string}}}`, "")),
			`[{"name":"kind","type":"string","description":"The kind.","required":false},{"name":"name","type":"string","description":"The name.","required":false}]`,
			"", `{"MediaType":"application/json","Whole":"","Base64":false,"Required":false,"Members":["kind","name required"]}`,
		},
		{
			"parts of an object", operation(v30, "POST /pets", body(`{allOf: [{$ref: '#/components/schemas/Base'}, {required: [kind], properties: {kind: {type: string}}}], anyOf: [{required: [id]}, {required: [kind]}]}`, "required: true,"),
				`components: {schemas: {Base: {type: object, required: [id], properties: {id: {type: integer}}}}}`),
			`[{"name":"id","type":"integer","description":"The id.","required":true},{"name":"kind","type":"string","description":"The kind.","required":true}]`, "", "",
		},
		{
			"what others inherit from", operation(v30, "POST /pets", body(`{$ref: '#/components/schemas/Pet'}`, ""), `components: {schemas: {Pet: {type: object, discriminator: {propertyName: kind}, properties: {kind: {type: string}}}}}`),
			`[{"name":"body","type":"object","description":"The body.","required":false,"schema":{"type":"object","properties":{"kind":{"type":"string"}}}}]`,
			"", `{"MediaType":"application/json","Whole":"body","Base64":false,"Required":false,"Members":[]}`,
		},
		{
			"what inherits from others", operation(v30, "POST /pets", body(`{allOf: [{$ref: '#/components/schemas/Pet'}, {properties: {claws: {type: integer}}}]}`, ""), `components: {schemas: {Pet: {type: object, discriminator: {propertyName: kind}, properties: {kind: {type: string}}}}}`),
			"", "", `{"MediaType":"application/json","Whole":"","Base64":false,"Required":false,"Members":["claws","kind"]}`,
		},
		{
			"a header by two names", `openapi: 3.0.3
info: {title: Pets, version: "1"}
paths: {/pets: {parameters: [{name: X-Trace, in: header, schema: {type: string}}], get: {parameters: [{name: x-trace, in: header, schema: {type: integer}}], responses: {"200": {description: OK}}}}}
`,
			`[{"name":"x-trace","type":"integer","description":"The x-trace.","required":false}]`, "", "",
		},
		{
			"what is no object only", operation(v30, "POST /pets", body(`{oneOf: [{type: object, properties: {a: {type: string}}}, {type: string}]}`, "required: true, description: A pet.,")),
			`[{"name":"body","type":"object","description":"A pet.","required":true,"schema":{"type":["string","object"],"oneOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"string"}]}}]`,
			"", `{"MediaType":"application/json","Whole":"body","Base64":false,"Required":true,"Members":[]}`,
		},
		{
			"an array", operation(v30, "POST /pets", body(`{type: array, items: {type: integer}}`, "")),
			`[{"name":"body","type":"array","description":"The body.","required":false,"schema":{"type":"array","items":{"type":"integer"}}}]`, "", "",
		},
		{
			"names that collide with parameters", operation(v30, "POST /pets/{id}", body(`{type: object, properties: {id: {type: integer}}}`, "")),
			`[{"name":"id","type":"string","description":"The id.","required":true},{"name":"body","type":"object","description":"The body.","required":false,"schema":{"type":"object","properties":{"id":{"type":"integer"}}}}]`,
			"", `{"MediaType":"application/json","Whole":"body","Base64":false,"Required":false,"Members":[]}`,
		},
		{
			"a form without fields", operation(v30, "POST /pets", `{requestBody: {content: {multipart/form-data: {schema: {}}}}, `+ok+`}`),
			`[{"name":"body","type":"object","description":"The body.","required":false}]`, "", `{"MediaType":"multipart/form-data","Whole":"body","Base64":false,"Required":false,"Members":[]}`,
		},
		{
			"a field with the name of a parameter", operation(v30, "POST /pets/{id}", `{parameters: [{name: body, in: query, schema: {type: string}}], requestBody: {required: true, content: {application/x-www-form-urlencoded: {schema: {type: object, properties: {id: {type: string}}}}}}, `+ok+`}`),
			`[{"name":"id","type":"string","description":"The id.","required":true},{"name":"request_body","type":"object","description":"The request_body.","required":true,"schema":{"type":"object","properties":{"id":{"type":"string"}}}},
			  {"name":"body","type":"string","description":"The body.","required":false}]`, "", `{"MediaType":"application/x-www-form-urlencoded","Whole":"request_body","Base64":false,"Required":true,"Members":[]}`,
		},
		{
			"JSON before forms", operation(v30, "POST /pets", `{requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object, properties: {f: {type: string}}}}, application/vnd.pet+json: {schema: {type: object, properties: {j: {type: string}}}}}}, `+ok+`}`),
			`[{"name":"j","type":"string","description":"The j.","required":false}]`, "", `{"MediaType":"application/vnd.pet+json","Whole":"","Base64":false,"Required":false,"Members":["j"]}`,
		},
		{
			"any media type", operation(v30, "POST /pets", `{requestBody: {content: {"*/*": {schema: {type: object, properties: {j: {type: string}}}}}}, `+ok+`}`),
			"", "", `{"MediaType":"application/json","Whole":"","Base64":false,"Required":false,"Members":["j"]}`,
		},
		{
			"a form", operation(v30, "POST /pets", `{requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object, properties: {a: {type: object}, b: {type: string}}}, encoding: {a: {style: deepObject, explode: true}, b: {explode: false}}}}}, `+ok+`}`),
			"", "", `{"MediaType":"application/x-www-form-urlencoded","Whole":"","Base64":false,"Required":false,"Members":["a deepObject explode","b form"]}`,
		},
		{
			"files", operation(v30, "POST /pets", `{requestBody: {content: {multipart/form-data: {schema: {type: object, properties: {a: {type: string, format: binary}, b: {type: array, items: {type: string, format: binary}}, c: {type: string}, d: {type: object}, e: {type: object}}}, encoding: {a: {contentType: "image/png, image/jpeg"}, d: {contentType: application/xml}, e: {contentType: "*/*"}}}}}, `+ok+`}`),
			`[{"name":"a","type":"string","description":"The a.","required":false,"schema":{"type":"string","contentEncoding":"base64","contentMediaType":"image/png"}},
			  {"name":"b","type":"array","description":"The b.","required":false,"schema":{"type":"array","items":{"type":"string","contentEncoding":"base64","contentMediaType":"application/octet-stream"}}},
			  {"name":"c","type":"string","description":"The c.","required":false},{"name":"d","type":"object","description":"The d.","required":false},{"name":"e","type":"object","description":"The e.","required":false}]`,
			"", `{"MediaType":"multipart/form-data","Whole":"","Base64":false,"Required":false,"Members":["a file image/png","b file","c","d application/xml","e"]}`,
		},
		{
			"files as OpenAPI 3.1 has them", operation(v31, "POST /pets", `{requestBody: {content: {multipart/form-data: {schema: {type: object, properties: {a: {contentMediaType: image/png}, b: {type: array, items: {contentMediaType: application/octet-stream}}, c: {}, d: {contentMediaType: text/csv}}}}}}, `+ok+`}`),
			"", "", `{"MediaType":"multipart/form-data","Whole":"","Base64":false,"Required":false,"Members":["a file image/png","b file application/octet-stream","c","d"]}`,
		},
		{
			"a text", operation(v30, "POST /pets", `{requestBody: {content: {text/plain: {schema: {type: string}}}}, `+ok+`}`),
			`[{"name":"body","type":"string","description":"The body.","required":false,"schema":{"type":"string","contentMediaType":"text/plain"}}]`, "",
			`{"MediaType":"text/plain","Whole":"body","Base64":false,"Required":false,"Members":[]}`,
		},
		{
			"any text", operation(v30, "POST /pets", `{requestBody: {content: {text/*: {schema: {type: string}}}}, `+ok+`}`),
			`[{"name":"body","type":"string","description":"The body.","required":false,"schema":{"type":"string","contentMediaType":"text/plain"}}]`, "",
			`{"MediaType":"text/plain","Whole":"body","Base64":false,"Required":false,"Members":[]}`,
		},
		{
			"bytes", operation(v31, "PUT /pets", `{requestBody: {required: true, content: {image/png: {}}}, `+ok+`}`),
			`[{"name":"body","type":"string","description":"The body.","required":true,"schema":{"type":"string","contentEncoding":"base64","contentMediaType":"image/png"}}]`, "",
			`{"MediaType":"image/png","Whole":"body","Base64":true,"Required":true,"Members":[]}`,
		},
		{
			"Swagger's body", operation(v2, "POST /pets", `{consumes: [application/json], parameters: [{name: pet, in: body, required: true, schema: {$ref: '#/definitions/Pet'}}, {name: q, in: query, type: array, items: {type: string}, collectionFormat: csv}], `+ok+`}`,
				`definitions: {Pet: {type: object, required: [name], properties: {name: {type: string}}}}`),
			`[{"name":"name","type":"string","description":"The name.","required":true},{"name":"q","type":"array","description":"The q.","required":false,"schema":{"type":"array","items":{"type":"string"}}}]`,
			`[["q","query","form",false]]`, `{"MediaType":"application/json","Whole":"","Base64":false,"Required":true,"Members":["name required"]}`,
		},
		{
			"Swagger's form", operation(v2, "POST /pets", `{parameters: [{name: a, in: formData, required: true, type: file, description: A file.}, {name: b, in: formData, type: integer, maximum: 3}], `+ok+`}`),
			`[{"name":"a","type":"string","description":"A file.","required":true,"schema":{"type":"string","contentEncoding":"base64","contentMediaType":"application/octet-stream"}},{"name":"b","type":"integer","description":"The b.","required":false,"schema":{"type":"integer","maximum":3}}]`,
			"", `{"MediaType":"multipart/form-data","Whole":"","Base64":false,"Required":true,"Members":["a required file","b"]}`,
		},
		{
			"Swagger's collections", operation(v2, "POST /pets", `{consumes: [application/x-www-form-urlencoded], parameters: [{name: a, in: query, type: array, items: {type: string}}, {name: b, in: query, type: array, items: {type: string}, collectionFormat: multi},
				{name: c, in: query, type: array, items: {type: string}, collectionFormat: pipes}, {name: d, in: formData, type: array, items: {type: string}}, {name: e, in: formData, type: array, items: {type: string}, collectionFormat: multi}, {name: f, in: formData, type: array, items: {type: string}, collectionFormat: tsv}], `+ok+`}`),
			"", `[["a","query","form",false],["b","query","form",true],["c","query","pipeDelimited",false]]`,
			`{"MediaType":"application/x-www-form-urlencoded","Whole":"","Base64":false,"Required":false,"Members":["d form","e form explode","f tabDelimited"]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			skill, d := only(t, translated(t, c.document, all()))
			if c.inputs != "" {
				same(t, "inputs", d.Inputs, c.inputs)
			}
			if c.parameters != "" {
				list := [][]any{}
				for _, p := range skill.Operation.Parameters {
					list = append(list, []any{p.Name, p.In, p.Style, p.Explode})
					if p.JSON {
						list[len(list)-1] = append(list[len(list)-1], "JSON")
					}
				}
				same(t, "parameters", list, c.parameters)
			}
			if c.body != "" {
				b := skill.Operation.Body
				members := []string{}
				for _, m := range b.Members {
					words := []string{m.Name}
					if m.Required {
						words = append(words, "required")
					}
					if m.File {
						words = append(words, "file")
					}
					if m.MediaType != "" || m.Style != "" {
						words = append(words, m.MediaType+m.Style)
					}
					if m.Explode {
						words = append(words, "explode")
					}
					members = append(members, strings.Join(words, " "))
				}
				same(t, "body", map[string]any{"MediaType": b.MediaType, "Whole": b.Whole, "Base64": b.Base64, "Required": b.Required, "Members": members}, c.body)
			}
		})
	}
}
