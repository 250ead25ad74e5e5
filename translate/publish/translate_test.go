package publish_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const ok = `responses: {"200": {description: OK}}`

// TestDescriptor: what stands in the descriptor of an operation.
func TestDescriptor(t *testing.T) {
	options := all()
	options.TimeoutMS = 5000
	skill, d := only(t, translated(t, operation(v30, "GET /pets/{petId}", `{operationId: getPetByID, summary: Get a pet, description: Returns a pet., tags: [pets, "", animals],
		externalDocs: {url: "https://example.com/docs"}, `+ok+`}`), options))
	same(t, "descriptor", d, `{"protocol":{"version":"1.0.0"},"id":"example.com/get-pet-by-id","name":"Get a pet","version":"1.2.0","capability_type":"api","description":"Returns a pet.",
		"provider":{"name":"Pets"},"endpoint":{"url":"https://api.example.com/skill-sharing/example.com/get-pet-by-id","method":"POST",
		"status_url":"https://api.example.com/skill-sharing/runs/{execution_id}","timeout_ms":5000},
		"inputs":[{"name":"petId","type":"string","description":"The petId.","required":true}],"output":{"content_type":"application/json","description":"OK"},
		"auth":{"type":"none"},"access":"public","tags":["pets","animals"],"documentation_url":"https://example.com/docs"}`)
	if o := skill.Operation; o.Method != http.MethodGet || o.Path != "/pets/{petId}" || o.Credentials != nil || o.Demand.Type != "" {
		t.Errorf("%+v", o)
	}
	entry := skill.Entry(base)
	same(t, "entry", &entry, `{"id":"example.com/get-pet-by-id","name":"Get a pet","capability_type":"api","description":"Returns a pet.",
		"descriptor_url":"https://api.example.com/skill-sharing/example.com/get-pet-by-id.json","access":"public","version":"1.2.0"}`)
	if fault := skill.Inputs.Check(t.Context(), share.Line{}, jsonrpc.Object{Text: jsontext.Value(`{"petId":1}`)}, nil); fault == nil || fault.Argument.Name != "petId" {
		t.Errorf("%+v", fault)
	}
	again, _ := only(t, translated(t, operation(v30, "GET /pets/{petId}", `{operationId: getPetByID, description: '"endpoint":{"method":"POST"}', `+ok+`}`), all()))
	if text := string(again.Descriptor("https://b.example.com", "Pets")); !strings.Contains(text, `"url":"https://b.example.com/example.com/get-pet-by-id"`) {
		t.Error(text)
	}
}

// TestNames: ids, names, descriptions and versions, for what documents have.
func TestNames(t *testing.T) {
	for _, c := range []struct{ operation, id, name, description string }{
		{`operationId: listPets`, "list-pets", "list pets", "GET /pets/{id}"},
		{`operationId: repos/list-for-org, summary: List`, "repos-list-for-org", "List", "List"},
		{`operationId: HTTPServer_get2FAStatus`, "http-server-get2-fa-status", "http server get2 fa status", "GET /pets/{id}"},
		{`operationId: 宠物`, "get-pets-by-id", "GET /pets/{id}", "GET /pets/{id}"},
		{`description: "  "`, "get-pets-by-id", "GET /pets/{id}", "GET /pets/{id}"},
		{`description: "A\e[31m\u200B pet.\nRed.", summary: "A\npet"`, "get-pets-by-id", "A pet", "A [31m pet.\nRed."},
		{`operationId: 7, summary: 8`, "7", "8", "8"},
	} {
		_, d := only(t, translated(t, operation(v30, "GET /pets/{id}", `{`+c.operation+`, `+ok+`}`), all()))
		if d.ID != "example.com/"+c.id || d.Name != c.name || d.Description != c.description {
			t.Errorf("%s: %q %q %q", c.operation, d.ID, d.Name, d.Description)
		}
	}
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "v1": "1.0.0", "1.0": "1.0.0", "1.10": "1.10.0", `"2022-11-28"`: "2022.11.28", "2022-11-28": "2022.11.28", "1.0.0-beta.1": "1.0.0-beta.1", `""`: "0.0.0", "latest": "0.0.0", "[]": "0.0.0", "01.2": "1.2.0",
	} {
		_, d := only(t, translated(t, "openapi: 3.0.0\ninfo: {title: T, version: "+version+"}\npaths: {/a: {get: {"+ok+"}}}", all()))
		if d.Version != want {
			t.Errorf("%s is %s, not %s", version, d.Version, want)
		}
	}
}

// TestSelection: only what an include names is published, by operationId or METHOD and path, with globs.
func TestSelection(t *testing.T) {
	const pets = `openapi: 3.0.0
info: {title: Pets, version: "1"}
paths:
  /pets: {get: {operationId: listPets, responses: {}}, post: {operationId: createPet, responses: {}}, trace: {operationId: tracePets, responses: {}}}
  /pets/{id}: {get: {operationId: getPet, responses: {}}, delete: {responses: {}}}
`
	for _, c := range []struct {
		include, exclude []string
		ids, left        []string
	}{
		{[]string{"*"}, nil, []string{"create-pet", "delete-pets-by-id", "get-pet", "list-pets"}, nil},
		{[]string{"listPets"}, nil, []string{"list-pets"}, nil},
		{[]string{"GET *"}, nil, []string{"get-pet", "list-pets"}, nil},
		{[]string{"*Pet", "listPets"}, []string{"create*"}, []string{"get-pet", "list-pets"}, nil},
		{[]string{"* /pets"}, []string{"POST /pets"}, []string{"list-pets"}, nil},
		{[]string{"DELETE /pets/{id}"}, nil, []string{"delete-pets-by-id"}, nil},
		{[]string{"listpets", "get /pets", "/pets", "list", "istPets", "listPets ", "listPets\n", "tracePets", ""}, nil, nil, []string{"listpets", "get /pets", "/pets", "list", "istPets", "listPets ", "listPets\n", "tracePets", ""}},
		{[]string{"getPet", "*"}, []string{"*"}, nil, nil},
		{[]string{"getPet"}, []string{"listPets"}, []string{"get-pet"}, nil},
	} {
		options := all()
		options.Include, options.Exclude = c.include, c.exclude
		api := translated(t, pets, options)
		var ids, left []string
		for _, s := range api.Skills {
			ids = append(ids, strings.TrimPrefix(s.ID, "example.com/"))
		}
		for _, l := range api.LeftOut {
			left = append(left, l.Operation)
		}
		if !slices.Equal(ids, c.ids) || !slices.Equal(left, c.left) {
			t.Errorf("%q without %q: %q, left out %v", c.include, c.exclude, ids, api.LeftOut)
		}
	}
	options := all()
	options.Include = nil
	if _, err := publish.Read(t.Context(), nil, fileURL(files(t, map[string]string{"a.yaml": pets}), "a.yaml"), options); err == nil || err.Error() != "no operation is included" {
		t.Error(err)
	}
	for _, pattern := range []string{"listPet", "delete*", "get /pets"} {
		options = all()
		options.Exclude = []string{"listPets", pattern}
		if _, err := publish.Read(t.Context(), nil, fileURL(files(t, map[string]string{"a.yaml": pets}), "a.yaml"), options); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no operation is named %q", pattern)) {
			t.Errorf("exclude %s: %v", pattern, err)
		}
	}
	options = all()
	options.Rename = map[string]string{"getPett": "pets/one", "get*": "pets/all"}
	if api := translated(t, pets, options); len(api.Skills) != 4 || len(api.LeftOut) != 2 || api.LeftOut[1] != (publish.LeftOut{Operation: "getPett", Reason: "no operation is named so, so that none is renamed", Mistake: true}) {
		t.Errorf("%+v", api)
	}
	options = all()
	options.Rename, options.Exclude = map[string]string{"getPet": "pets/one", "DELETE /pets/{id}": "pets/gone"}, []string{"POST *", "listPets"}
	options.Access, options.Provider = document.Private, document.Provider{Name: "Me", URL: "https://example.com", Contact: "me@example.com"}
	api := translated(t, pets, options)
	if len(api.Skills) != 2 || api.Skills[0].ID != "pets/gone" || api.Skills[1].ID != "pets/one" || api.Skills[0].Access != document.Private {
		t.Errorf("%+v", api)
	}
	if text := string(api.Skills[0].Descriptor(base, "Pets")); !strings.Contains(text, `"provider":{"name":"Me","url":"https://example.com","contact":"me@example.com"}`) {
		t.Error(text)
	}
}

// TestLeftOut: what is no skill is named with the reason. The others are published.
func TestLeftOut(t *testing.T) {
	for _, c := range []struct{ document, reason string }{
		{operation(v30, "GET /a", `{parameters: [{$ref: '#/components/parameters/none'}], `+ok+`}`), `the reference "#/components/parameters/none" leads nowhere`},
		{operation(v30, "GET /a", `{parameters: [{$ref: '#a'}], `+ok+`}`), `the reference "#a" has no JSON Pointer`},
		{operation(v30, "POST /a", `{requestBody: {$ref: other.yaml}, `+ok+`}`), `the reference "other.yaml" is no file in the folder of the document, or below it`},
		{operation(v30, "GET /a", `{responses: {$ref: '#/components/responses/a'}}`, `components: {responses: {a: {$ref: '#/components/responses/a'}}}`), "references lead to each other in a circle"},
		{operation(v30, "GET /a", `{parameters: [{$ref: '#/components/schemas/A/x'}], `+ok+`}`, `components: {schemas: {A: {$ref: '#/components/schemas/A/x'}}}`), `the reference "#/components/schemas/A/x" is no URL, or leads to itself`},
		{operation(v30, "GET /a/{a}", `{parameters: [{name: a, in: path, schema: {type: string}}, {name: a, in: query, schema: {type: string}}], `+ok+`}`), "two of its parameters have the name a"},
		{operation(v30, "GET /a", `{responses: {"200": {content: {text/event-stream: {}}}}}`), "it answers only with text/event-stream"},
		{operation(v30, "GET /a?b={b}", `{`+ok+`}`), "its path is none"},
		{operation(v30, "GET /a?b=\u0007", `{`+ok+`}`), "its path is none"},
		{operation(v30, "GET a", `{`+ok+`}`), "its path is none"},
		{operation(v30, "GET /50%", `{`+ok+`}`), "its path has a percent sign that begins no escape"},
		{operation(v30, "GET /a", `{security: [{none: []}], `+ok+`}`), "its security none is not defined"},
		{operation(v30, "GET /a", `[]`), "it is no object"},
		{operation(v30, "GET /a/{b}..{c}/../d", `{`+ok+`}`), "its path has . or .. as a segment"},
		{operation(v30, "GET /a/%2e./d", `{`+ok+`}`), "its path has . or .. as a segment"},
		{operation(v30, "GET /a", `{parameters: [{name: c, in: query, style: other, schema: {type: array}}], `+ok+`}`), "its parameter c has the style other, which is not sent"},
		{operation(v2, "GET /a/{c}", `{parameters: [{name: c, in: path, type: array, collectionFormat: pipes}], `+ok+`}`), "its parameter c has the style pipeDelimited, which is not sent"},
		{operation(v30, "GET /a/{c}", `{parameters: [{name: c, in: path, style: matrix, schema: {type: array}}], `+ok+`}`), "its parameter c has the style matrix, which is not sent"},
		{operation(v30, "GET /a", `{parameters: [`+strings.Repeat(`{name: a, in: query, schema: {type: string}}, `, 1)+many(501, `{name: p%d, in: query, schema: {type: string}}`)+`], `+ok+`}`), "bridges don't take its descriptor: /inputs must have at most 500 entries"},
		{"openapi: 3.0.0\ninfo: {title: a}\npaths: {/a: {get: {" + ok + "}}, /a: {get: {" + ok + "}}}", "its path is in the document twice"},
		{`{"openapi": "3.0.0", "paths": {"/a": {"get": {}}, "/a": {"get": {}}}}`, "its path is in the document twice"},
		{"openapi: 3.0.0\npaths: {/a: {$ref: '#/none'}}", `the reference "#/none" leads nowhere`},
		{"openapi: 3.0.0\npaths: {/a: {get: {$ref: '#/none'}}}", `the reference "#/none" leads nowhere`},
		{"openapi: 3.0.0\npaths: {$ref: '#/none'}", `the reference "#/none" leads nowhere`},
	} {
		api := translated(t, c.document, all())
		reasons := api.LeftOut
		if len(api.Skills) > 0 || len(reasons) == 0 || !strings.HasPrefix(reasons[0].Reason, c.reason) {
			t.Errorf("%.200s:\n%v, not %s", c.document, reasons, c.reason)
		} else if reasons[0].Mistake != strings.Contains(c.reason, "reference") {
			t.Errorf("%.200s: a mistake: %v", c.document, reasons[0].Mistake)
		}
	}
	api := translated(t, "openapi: 3.0.0\ninfo: {title: a}\npaths: {/a: {get: {operationId: a-b}}, /b: {get: {operationId: aB}}, /c: {get: {operationId: c}}}", all())
	if len(api.Skills) != 1 || api.Skills[0].ID != "example.com/c" || len(api.LeftOut) != 2 || api.LeftOut[1] != (publish.LeftOut{Operation: "aB", Reason: "2 have the id example.com/a-b: a-b, aB"}) {
		t.Errorf("%+v", api)
	}
	for text, want := range map[string]string{
		"":                                 "the document has no member openapi",
		"a: [":                             "the OpenAPI document can't be read: it is neither JSON nor YAML: line 1",
		`{"openapi": "3.0.0",`:             "the OpenAPI document can't be read: it is neither JSON nor YAML: line 1",
		"{<<: {openapi: 3.0.0}}":           "the OpenAPI document can't be read: it has merge keys (<<)",
		"openapi: 4.0.0":                   "the document has no member openapi with a version 3.x, and no member swagger with the version 2.0",
		"swagger: 1.2":                     "the document has no member openapi",
		strings.Repeat("#", 16<<20) + "\n": "the OpenAPI document can't be read: it makes the documents larger than 16777216 bytes",
	} {
		if _, err := publish.Read(t.Context(), nil, fileURL(files(t, map[string]string{"a": text}), "a"), all()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	if _, err := publish.Read(t.Context(), nil, fileURL(t.TempDir(), "none.yaml"), all()); err == nil || err.Error() != "the OpenAPI document can't be read: it can't be opened: no such file or directory" {
		t.Errorf("a document that does not exist: %v", err)
	}
}

// TestMissingSchemas: an operation is published without what references in its schemas, answers and links do not lead to, and with the names of these. What is
// not known refuses nothing.
func TestMissingSchemas(t *testing.T) {
	const everything, components = `{"type":["null","boolean","number","array","object","string"]}`, `components: {schemas: {
		A: {$ref: '#/components/schemas/B'}, B: {$ref: '#/components/schemas/A'}, S: {$ref: '#/components/schemas/S/x'}, N: {type: object, properties: {deep: {$ref: '#/none'}, name: {type: string}}}}}`
	body := func(schema string) string {
		return `{requestBody: {required: true, content: {application/json: {schema: ` + schema + `}}}, ` + ok + `}`
	}
	for _, c := range []struct{ version, operation, input, want, reason string }{
		{v30, `{parameters: [{name: a, in: query, schema: {$ref: '#/nowhere'}}], ` + ok + `}`, "a", everything, `the reference "#/nowhere" leads nowhere`},
		{v30, `{parameters: [{name: a, in: query, required: true, schema: {$ref: '#a'}}], ` + ok + `}`, "a", everything, `the reference "#a" has no JSON Pointer`},
		{v30, `{parameters: [{name: a, in: query, schema: {$ref: '#/components/schemas/A'}}], ` + ok + `}`, "a", everything, "references lead to each other in a circle"},
		{v30, `{parameters: [{name: a, in: query, schema: {$ref: '#/components/schemas/S'}}], ` + ok + `}`, "a", everything, `the reference "#/components/schemas/S/x" is no URL, or leads to itself`},
		{v2, `{parameters: [{name: b, in: body, schema: {type: object, properties: {a: {type: object, properties: {b: {$ref: '#/definitions/B'}}}}}}], ` + ok + `}`, "a", `{"type":"object","properties":{"b":{}}}`, `the reference "#/definitions/B" leads nowhere`},
		{
			v30, body(`{type: object, required: [a, c], properties: {a: {$ref: '#/components/schemas/N'}, b: {type: array, items: {$ref: 'b.yaml#/x'}}, c: {$ref: '#/none', description: The c of it., maxLength: 1}}}`),
			"a", `{"type":"object","properties":{"deep":{},"name":{"type":"string"}}}`, `the reference "#/none" leads nowhere; the reference "b.yaml#/x" is no file in the folder of the document, or below it`,
		},
		{v30, body(`{$ref: '#/none'}`), "body", everything, `the reference "#/none" leads nowhere`},
		{v30, body(`{type: object, allOf: [{$ref: '#/none'}, {properties: {a: {type: string}}}]}`), "body", `{"type":"object","allOf":[{},{"properties":{"a":{"type":"string"}}}]}`, `the reference "#/none" leads nowhere`},
		{v30, strings.Replace(body(`{allOf: [{$ref: '#/none'}]}`), "application/json", "application/x-www-form-urlencoded", 1), "body", `{"type":"object"}`, `the reference "#/none" leads nowhere`},
		{
			v31, body(`{type: array, oneOf: [{items: {$ref: '#/none'}}, {items: {type: string}}], not: {$ref: '#/none'}, if: {$ref: '#/none'}, then: false, contains: {$ref: '#/none'}, maxContains: 1, unevaluatedItems: false}`),
			"body", `{"type":"array","anyOf":[{"items":{}},{"items":{"type":"string"}}],"then":false,"maxContains":1}`, `the reference "#/none" leads nowhere`,
		},
		{v30, `{externalDocs: {$ref: '#/docs'}, responses: {"200": {$ref: '#/answer'}}}`, "", "", `the reference "#/answer" leads nowhere; the reference "#/docs" leads nowhere`},
		{v30, `{responses: {"200": {content: {application/json: {schema: {$ref: '#/none'}}}}}}`, "", everything, `the reference "#/none" leads nowhere`},
		{v30, body(`{type: object, properties: {` + many(20, `p%d: {$ref: '#/p%[1]d'}`) + `}}`), "p0", everything, `the reference "#/p0" leads nowhere; the reference "#/p1" leads nowhere; `},
	} {
		api := translated(t, operation(c.version, "POST /a", c.operation, components), all())
		if len(api.Skills) != 1 || len(api.LeftOut) != 1 || !api.LeftOut[0].Published || api.LeftOut[0].Mistake || api.LeftOut[0].Operation != "POST /a" ||
			!strings.HasPrefix(api.LeftOut[0].Reason, "anything may be in place of what can't be found: "+c.reason) || strings.Count(api.LeftOut[0].Reason, ";") > 9 {
			t.Errorf("%s: %+v", c.operation, api)
			continue
		}
		d, _ := document.ParseDescriptor(api.Skills[0].Descriptor(base, "Pets"))
		got := d.Output.Schema
		for _, input := range d.Inputs {
			if input.Name == c.input && input.Schema != nil {
				got = input.Schema
			} else if input.Name == c.input {
				got = jsontext.Value(`{"type":"` + input.Type + `"}`)
			}
			if input.Name == "c" && (input.Description != "The c of it." || !input.Required || strings.Contains(string(input.Schema), "maxLength")) {
				t.Errorf("%+v", input)
			}
		}
		if c.want == "" && got == nil {
			continue
		}
		same(t, c.operation, got, c.want)
	}
	colliding := "openapi: 3.0.0\ninfo: {title: a}\npaths: {/a: {get: {operationId: a-b, externalDocs: {$ref: '#/none'}}}, /b: {get: {operationId: aB}}}"
	if api := translated(t, colliding, all()); len(api.LeftOut) != 2 || api.LeftOut[0].Published || api.LeftOut[1].Published {
		t.Errorf("%+v", api)
	}
}

// many returns items of a list in flow style, each from a number.
func many(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(items, ", ")
}

// TestSchemas: schemas of OpenAPI become schemas of JSON Schema 2020-12.
func TestSchemas(t *testing.T) {
	const components = `components: {schemas: {
		Tree: {type: object, properties: {children: {type: array, items: {$ref: '#/components/schemas/Tree'}}}},
		Name: {type: string, maxLength: 10, description: A name.}, Odd name~1: {type: integer, $anchor: odd}}, A: {X: {type: string}}, B: {X: {type: integer}}, C: {X: {type: boolean}}}`
	for _, c := range []struct{ version, schema, want string }{
		{v30, `{type: string, nullable: true}`, `{"type":["null","string"]}`},
		{v30, `{type: string, x-nullable: true}`, `{"type":["null","string"]}`},
		{v30, `{$ref: '#/components/schemas/Name', x-nullable: true}`, `{"type":["null","string"],"maxLength":10}`},
		{v31, `{oneOf: [{type: string, pattern: '^(?=a)'}, {type: string, pattern: '^(?=b)'}]}`, `{"type":"string","anyOf":[{"type":"string"},{"type":"string"}]}`},
		{v30, `{type: string, nullable: true, enum: [a]}`, `{"type":["null","string"],"enum":["a",null]}`},
		{v30, `{nullable: true, allOf: [{$ref: '#/components/schemas/Name'}]}`, `{"type":["null","string"],"anyOf":[{"type":"string","maxLength":10,"description":"A name."},{"type":"null"}]}`},
		{v30, `{type: number, minimum: 1, exclusiveMinimum: true, maximum: 5, exclusiveMaximum: false}`, `{"type":"number","exclusiveMinimum":1,"maximum":5}`},
		{v30, `{type: string, example: cat}`, `{"type":"string","examples":["cat"]}`},
		{v30, `{}`, `{"type":["null","boolean","number","array","object","string"]}`},
		{v30, `{enum: [1, a]}`, `{"type":["null","boolean","number","array","object","string"],"enum":[1,"a"]}`},
		{v30, `{$ref: '#/components/schemas/Name'}`, `{"type":"string","maxLength":10}`},
		{v30, `{$ref: '#/components/schemas/Name', maxLength: 3}`, `{"type":"string","maxLength":10}`},
		{v31, `{$ref: '#/components/schemas/Name', maxLength: 3}`, `{"type":"string","allOf":[{"type":"string","maxLength":10,"description":"A name."},{"maxLength":3}]}`},
		{v30, `{$ref: '#/components/schemas/Tree'}`, `{"type":"object","$ref":"#/$defs/Tree","$defs":{"Tree":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/Tree"}}}}}}`},
		{v30, `{type: array, items: {$ref: '#/components/schemas/Odd name~01'}}`, `{"type":"array","items":{"type":"integer"}}`},
		{v31, `{type: array, items: {$ref: '#odd'}}`, `{"type":"array","items":{"type":"integer"}}`},
		{
			v30, `{type: object, properties: {a: {$ref: '#/components/schemas/Name'}, b: {$ref: '#/components/schemas/Name'}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/Name"},"b":{"$ref":"#/$defs/Name"}},"$defs":{"Name":{"type":"string","maxLength":10,"description":"A name."}}}`,
		},
		{v30, `{type: object, required: [a, b, a], properties: {a: {type: string, readOnly: true}, b: {type: string, writeOnly: true}}}`, `{"type":"object","required":["b"],"properties":{"b":{"type":"string"}}}`},
		{v30, `{type: integer, minimum: -9223372036854775808, maximum: 9007199254740993, enum: [9007199254740993, 1.10]}`, `{"type":"integer","enum":[9007199254740993,1.10]}`},
		{v30, `{type: integer, minimum: 0, maximum: 9007199254740991}`, `{"type":"integer","minimum":0,"maximum":9007199254740991}`},
		{v30, `{type: string, pattern: '^(?=a)', format: byte, x-secret: 1, xml: {name: a}, discriminator: {propertyName: a}, externalDocs: {url: a}, id: a, $schema: b, $id: c}`, `{"type":"string","format":"byte","contentEncoding":"base64"}`},
		{v30, `{type: string, pattern: '^a+$', minLength: 1, default: aa, deprecated: true}`, `{"type":"string","pattern":"^a+$","minLength":1,"default":"aa","deprecated":true}`},
		{v30, `{type: any, required: true, enum: [], minLength: "3", properties: [], items: []}`, `{"type":["null","boolean","number","array","object","string"],"items":true}`},
		{
			v30, `{type: object, properties: {a: {$ref: '#/components/A/X'}, b: {$ref: '#/components/B/X'}, c: {$ref: '#/components/C/X'}, d: {$ref: '#/components/A/X'}, e: {$ref: '#/components/B/X'}, f: {$ref: '#/components/C/X'}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/X"},"b":{"$ref":"#/$defs/X_2"},"c":{"$ref":"#/$defs/X_3"},"d":{"$ref":"#/$defs/X"},"e":{"$ref":"#/$defs/X_2"},"f":{"$ref":"#/$defs/X_3"}},"$defs":{"X":{"type":"string"},"X_2":{"type":"integer"},"X_3":{"type":"boolean"}}}`,
		},
		{v30, `{oneOf: [{type: string}, {type: string, minLength: 1}], discriminator: {propertyName: a}}`, `{"type":"string","anyOf":[{"type":"string"},{"type":"string","minLength":1}]}`},
		{v31, `{type: [string, "null"], examples: [a], const: a}`, `{"type":["null","string"],"examples":["a"],"const":"a"}`},
		{v31, `{anyOf: [{type: integer}, {type: "null"}]}`, `{"type":["null","integer"],"anyOf":[{"type":"integer"},{"type":"null"}]}`},
		{
			v31, `{type: object, patternProperties: {"^x": true, "(?<a>x)\\k<a>": true}, additionalProperties: false, if: {required: [a]}, then: {required: [b]}, unevaluatedProperties: false}`,
			`{"type":"object","patternProperties":{"^x":true},"then":{"required":["b"]}}`,
		},
		{
			v31, `{type: object, patternProperties: {"^x": true}, additionalProperties: false, if: {required: [a]}, then: {required: [b]}, unevaluatedProperties: false}`,
			`{"type":"object","patternProperties":{"^x":true},"additionalProperties":false,"if":{"required":["a"]},"then":{"required":["b"]},"unevaluatedProperties":false}`,
		},
		{v30, `{oneOf: [{type: float}, {type: string}]}`, `{"type":["null","boolean","number","array","object","string"],"anyOf":[{},{"type":"string"}]}`},
		{v30, `{type: integer, not: {minimum: 9223372036854775807}}`, `{"type":"integer"}`},
		{v31, `true`, `{"type":["null","boolean","number","array","object","string"]}`},
	} {
		text := operation(c.version, "GET /a", `{parameters: [{name: a, in: query, schema: `+c.schema+`}], `+ok+`}`, components)
		_, d := only(t, translated(t, text, all()))
		got := d.Inputs[0].Schema
		if got == nil {
			got = jsontext.Value(`{"type":"` + d.Inputs[0].Type + `"}`)
		}
		same(t, c.schema, got, c.want)
		if strings.Contains(c.schema, "9007199254740993, 1.10") && !strings.Contains(string(got), "[9007199254740993,1.10]") {
			t.Errorf("%s: digits are lost", got)
		}
	}
}

// TestAnchorsOfOneName: a reference to one of several schemas with the same anchor is none, however often the document is read.
func TestAnchorsOfOneName(t *testing.T) {
	text := operation(v31, "GET /a", `{parameters: [{name: a, in: query, schema: {$ref: '#a'}}], `+ok+`}`, "components: {schemas: {X: {type: string, $anchor: a}, Y: {type: integer, $anchor: a}, Z: {type: boolean, $anchor: a}}}")
	for range 20 {
		api := translated(t, text, all())
		if len(api.Skills) != 1 || len(api.LeftOut) != 1 || !strings.Contains(api.LeftOut[0].What(), `published, but anything may be in place of what can't be found: the reference "#a"`) {
			t.Fatalf("%d skills, left out: %+v", len(api.Skills), api.LeftOut)
		}
	}
}

// TestLargeSchema: a schema that is too large has no texts.
func TestLargeSchema(t *testing.T) {
	large := translated(t, operation(v30, "POST /a", `{requestBody: {content: {application/json: {schema: {type: array, items: {type: object, properties: {`+
		many(300, "p%d: {type: string, description: "+strings.Repeat("long ", 60)+"}")+`}}}}}}, `+ok+`}`), all())
	if _, d := only(t, large); len(d.Inputs[0].Schema) > 64<<10 || strings.Contains(string(d.Inputs[0].Schema), "long") {
		t.Errorf("%d bytes", len(d.Inputs[0].Schema))
	}
}

// TestOutput: the output is the first answer that is a success.
func TestOutput(t *testing.T) {
	answer := func(content string) string {
		return `{responses: {"400": {description: Bad}, "200": {description: A pet., content: ` + content + `}, "301": {description: Other}}}`
	}
	for _, c := range []struct {
		version, operation, want string
		accept                   []string
	}{
		{
			v30, answer(`{application/json: {schema: {type: object, additionalProperties: false, required: [a, b], properties: {a: {type: string}, b: {type: string, writeOnly: true}, c: {type: string, readOnly: true}}}}}`),
			`{"content_type":"application/json","description":"A pet.","schema":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"c":{"type":"string"}}}}`,
			[]string{"application/json"},
		},
		{
			v31, answer(`{application/json: {schema: {allOf: [{type: object, properties: {a: {type: string, writeOnly: true}}}, {required: [a, b]}], unevaluatedProperties: false}}}`),
			`{"content_type":"application/json","description":"A pet.","schema":{"type":"object","allOf":[{"type":"object","properties":{}},{"required":["b"]}]}}`,
			[]string{"application/json"},
		},
		{
			v30, `{responses: {"200": {description: All, content: {application/json: {schema: {type: array}}}}, "201": {content: {application/json: {schema: {type: array}}}}, "202": {content: {application/json: {schema: {type: object}}}}, "204": {description: None}, default: {description: Bad}}}`,
			`{"content_type":"application/json","description":"All","schema":{"type":["null","array","object"],"anyOf":[{"type":"array"},{"type":"object"},{"type":"null"}]}}`,
			[]string{"application/json"},
		},
		{
			v30, `{responses: {"200": {description: All, content: {application/json: {schema: {type: array}}}}, "206": {content: {text/csv: {}}}}}`,
			`{"content_type":"application/json","description":"All"}`,
			[]string{"application/json"},
		},
		{v30, `{responses: {"200": {description: All}, "201": {content: {application/json: {schema: {type: array}}}}}}`, `{"content_type":"application/json","description":"All"}`, nil},
		{v30, answer(`{text/plain: {schema: {type: string}}}`), `{"content_type":"text/plain","description":"A pet."}`, []string{"text/plain"}},
		{v30, answer(`{image/png: {}, image/jpeg: {}}`), `{"content_type":"image/jpeg","description":"A pet."}`, []string{"image/jpeg", "image/png"}},
		{v30, answer(`{text/html: {}, application/vnd.a+json: {}, application/json: {}, text/event-stream: {}}`), `{"content_type":"application/json","description":"A pet."}`, []string{"application/json", "application/vnd.a+json"}},
		{v30, `{responses: {default: {description: All}, "404": {description: None}}}`, `{"content_type":"application/json","description":"All"}`, nil},
		{v30, `{responses: {2XX: {description: All}}}`, `{"content_type":"application/json","description":"All"}`, nil},
		{v30, `{responses: {"204": {$ref: '#/components/responses/none'}}}`, `{"content_type":"application/json","description":"None"}`, nil},
		{v30, `{}`, `{"content_type":"application/json"}`, nil},
		{
			v2, `{produces: [application/xml, application/json], responses: {"200": {description: A pet., schema: {type: array, items: {type: string}}}}}`,
			`{"content_type":"application/json","description":"A pet.","schema":{"type":"array","items":{"type":"string"}}}`,
			[]string{"application/json"},
		},
		{
			v2, `{produces: [], responses: {"200": {description: A pet., schema: {type: string}}}}`,
			`{"content_type":"application/json","description":"A pet.","schema":{"type":"string"}}`,
			[]string{"application/json"},
		},
	} {
		skill, d := only(t, translated(t, operation(c.version, "GET /a", c.operation, `components: {responses: {none: {description: None}}}`), all()))
		same(t, c.operation, &d.Output, c.want)
		if !slices.Equal(skill.Operation.Accept, c.accept) {
			t.Errorf("%s: %q", c.operation, skill.Operation.Accept)
		}
	}
	skill, d := only(t, translated(t, operation(v30, "HEAD /a", answer(`{application/json: {schema: {type: object}}}`)), all())) // whose answers have no body
	same(t, "HEAD", &d.Output, `{"content_type":"application/json","description":"A pet.","schema":{"type":"null"}}`)
	if r := skill.Operation.Result(200, http.Header{"Content-Type": {"application/json"}}, nil); string(r.Output) != "null" {
		t.Errorf("HEAD: %s", r.Output)
	}
	large := operation(v30, "GET /a", answer(`{application/json: {schema: {type: object, properties: {`+many(5000, "p%d: {type: string}")+`}}}}`))
	for _, off := range []bool{false, true} {
		options := all()
		options.NoOutputSchema = off
		if _, d := only(t, translated(t, large, options)); d.Output.Schema != nil {
			t.Error("an output schema beyond the limits is in the descriptor")
		}
		large = operation(v30, "GET /a", answer(`{application/json: {schema: {type: object}}}`))
	}
}

// TestDeepSchemas: references that are used once stay references where the schema would nest too deep for bridges otherwise. An output without references
// has no schema then.
func TestDeepSchemas(t *testing.T) {
	levels := func(n int, of string) string {
		return strings.Repeat("{type: array, items: ", n) + of + strings.Repeat("}", n)
	}
	text := func(leaf string) string {
		use := `{application/json: {schema: {type: object, properties: {own: ` + levels(10, `{$ref: '#/components/schemas/A'}`) + `}}}}`
		return operation(v30, "POST /a", `{requestBody: {content: `+use+`}, responses: {"200": {content: `+use+`}}}`,
			`components: {schemas: {A: `+levels(15, `{$ref: '#/components/schemas/B'}`)+`, B: `+levels(15, leaf)+`}}`)
	}
	_, d := only(t, translated(t, text("{type: integer, enum: [7]}"), all()))
	for _, schema := range []jsontext.Value{d.Inputs[0].Schema, d.Output.Schema} {
		if !strings.Contains(string(schema), `"enum":[7]`) || !strings.Contains(string(schema), `"$ref":"#/$defs/A"`) {
			t.Errorf("%s", schema)
		}
	}
	_, d = only(t, translated(t, operation(v30, "GET /a", `{responses: {"200": {content: {application/json: {schema: `+levels(40, "{type: string}")+`}}}}}`), all()))
	if d.Output.Schema != nil {
		t.Errorf("an output schema that bridges don't apply is in the descriptor: %s", d.Output.Schema)
	}
}

// TestSecurity: which authentication a descriptor asks for, and the headers that go with a request.
func TestSecurity(t *testing.T) {
	const schemes = `components: {securitySchemes: {
		key: {type: apiKey, in: header, name: X-Key, description: A key.}, bearer: {type: http, scheme: Bearer}, basic: {type: http, scheme: basic}, digest: {type: http, scheme: digest},
		cookie: {type: apiKey, in: cookie, name: sid}, query: {type: apiKey, in: query, name: key}, host: {type: apiKey, in: header, name: Host}, tls: {type: mutualTLS},
		oidc: {type: openIdConnect, openIdConnectUrl: "https://id.example.com/.well-known/openid-configuration"}, ref: {$ref: '#/components/securitySchemes/key'},
		code: {type: oauth2, flows: {implicit: {authorizationUrl: "https://id.example.com/i", scopes: {}}, authorizationCode: {authorizationUrl: "https://id.example.com/a", tokenUrl: "https://id.example.com/t", scopes: {read: Reads., write: Writes.}}}},
		client: {type: oauth2, flows: {clientCredentials: {tokenUrl: "https://id.example.com/t", scopes: {}}}},
		relative: {type: oauth2, flows: {authorizationCode: {authorizationUrl: /a, tokenUrl: /t, scopes: {}}}}}}`
	for _, c := range []struct {
		security, auth string
		credentials    []string
	}{
		{`security: [], `, `{"type":"none"}`, nil},
		{`security: [{code: [read]}, {}], `, `{"type":"none"}`, nil},
		{``, `{"type":"api_key","header":"X-Key","description":"A key."}`, []string{"X-Key"}},
		{`security: [{ref: []}], `, `{"type":"api_key","header":"X-Key","description":"A key."}`, []string{"X-Key"}},
		{`security: [{bearer: []}], `, `{"type":"api_key","header":"Authorization","description":"The value is ` + "`Bearer …`" + `, where … is a token."}`, []string{"Authorization"}},
		{`security: [{basic: []}, {code: [read]}, {key: []}], `, `{"type":"oauth2","oauth2":{"authorization_url":"https://id.example.com/a","token_url":"https://id.example.com/t","scopes":{"read":"Reads."}}}`, []string{"Authorization"}},
		{`security: [{unknown: []}, {key: []}], `, `{"type":"api_key","header":"X-Key","description":"A key."}`, []string{"X-Key"}},
		{`security: [{basic: []}], `, `{"type":"custom","custom":{"instructions":"Each request needs the header Authorization with ` + "`Basic …`" + `, where … is base64 of a user name, a colon and a password.","parameters":[]}}`, []string{"Authorization"}},
		{`security: [{digest: []}], `, `{"type":"custom","custom":{"instructions":"Each request needs the header Authorization as the scheme http digest says.","parameters":[]}}`, []string{"Authorization"}},
		{`security: [{cookie: []}], `, `{"type":"custom","custom":{"instructions":"Each request needs the header Cookie with the cookie sid.","parameters":[]}}`, []string{"Cookie"}},
		{`security: [{query: []}], `, `{"type":"custom","custom":{"instructions":"Each request needs the query parameter key, which the publisher adds: callers can't send it.","parameters":[]}}`, nil},
		{`security: [{tls: []}], `, `{"type":"custom","custom":{"instructions":"Each request needs a client certificate.","parameters":[]}}`, nil},
		{`security: [{oidc: []}], `, `{"type":"custom","custom":{"instructions":"Each request needs the header Authorization with ` + "`Bearer …`" + `, where … is an access token of the issuer that https://id.example.com/.well-known/openid-configuration describes.","parameters":[]}}`, []string{"Authorization"}},
		{`security: [{client: []}], `, `{"type":"custom","custom":{"instructions":"Each request needs the header Authorization with ` + "`Bearer …`" + `, where … is an access token.","parameters":[]}}`, []string{"Authorization"}},
		{`security: [{relative: []}], `, `{"type":"custom","custom":{"instructions":"Each request needs the header Authorization with ` + "`Bearer …`" + `, where … is an access token.","parameters":[]}}`, []string{"Authorization"}},
		{`security: [{key: [], bearer: []}], `, `{"type":"custom","description":"A key.","custom":{"instructions":"Each request needs the header Authorization with ` + "`Bearer …`" + `, where … is a token, and the header X-Key with a key.","parameters":[]}}`, []string{"Authorization", "X-Key"}},
	} {
		skill, d := only(t, translated(t, operation(v31, "GET /a", `{`+c.security+ok+`}`, "security: [{key: []}]", schemes), all()))
		same(t, c.security, &d.Auth, c.auth)
		if !slices.Equal(skill.Operation.Credentials, c.credentials) || skill.Operation.Demand.Type != strings.TrimPrefix(string(d.Auth.Type), "none") || skill.Operation.Demand.Header != d.Auth.Header {
			t.Errorf("%s: %q %+v", c.security, skill.Operation.Credentials, skill.Operation.Demand)
		}
		if want := map[bool]document.AccessPolicy{true: document.Public, false: document.Restricted}[d.Auth.Type == document.AuthNone]; d.Access != want {
			t.Errorf("%s: %s", c.security, d.Access)
		}
	}
	for security, want := range map[string]string{
		`{type: basic}`: "custom", `{type: apiKey, in: header, name: X-Key}`: "api_key", `{type: oauth2, flow: implicit, authorizationUrl: "https://a.example.com", scopes: {}}`: "custom",
		`{type: oauth2, flow: accessCode, authorizationUrl: "https://a.example.com", tokenUrl: "https://t.example.com", scopes: {}}`: "oauth2",
	} {
		_, d := only(t, translated(t, operation(v2, "GET /a", `{security: [{it: []}], `+ok+`}`, "securityDefinitions: {it: "+security+"}"), all()))
		if string(d.Auth.Type) != want {
			t.Errorf("%s is %s", security, d.Auth.Type)
		}
	}
}

// TestServers: the path of an operation is below that of the first server.
func TestServers(t *testing.T) {
	for _, c := range []struct{ version, servers, path string }{
		{v30, ``, "/a/{id}"},
		{v30, `servers: [{url: "https://api.example.com/v1/"}, {url: /v2}]`, "/v1/a/{id}"},
		{v30, `servers: [{url: /v1}]`, "/v1/a/{id}"},
		{v30, `servers: [{url: v1}]`, "/v1/a/{id}"},
		{v30, `servers: [{url: "{scheme}://{region}.example.com:{port}/{base}", variables: {scheme: {default: https}, region: {default: eu}, port: {default: 8443}, base: {default: v1/x}}}]`, "/v1/x/a/{id}"},
		{v30, `servers: [{url: /}]`, "/a/{id}"},
		{v30, `servers: []`, "/a/{id}"},
		{v30, `servers: [{url: ./v1}]`, "/v1/a/{id}"},
		{v30, `servers: [{url: ../v1/.}]`, "/v1/a/{id}"},
		{v30, `servers: [{url: .}]`, "/a/{id}"},
		{v30, `servers: [{url: ""}]`, "/a/{id}"},
		{v30, `servers: [{url: "https://{your-agent-url}/v1"}]`, "/v1/a/{id}"},
		{v30, `servers: [{url: "https://{agent url}", variables: {agent url: {default: "{your-agent-url}"}}}]`, "/a/{id}"},
		{v30, `servers: [{url: "{scheme}://{host}:{port}/v1"}]`, "/v1/a/{id}"},
		{v30, `servers: [{url: //api.example.com/v1}]`, "/v1/a/{id}"},
		{v30, `servers: [{url: "https://api.example.com//other.example.com/v1?x#y"}]`, "/other.example.com/v1/a/{id}"},
		{v2, `basePath: /api/v2`, "/api/v2/a/{id}"},
	} {
		skill, _ := only(t, translated(t, operation(c.version, "GET /a/{id}", `{`+ok+`}`, c.servers), all()))
		if skill.Operation.Path != c.path {
			t.Errorf("%s: %s", c.servers, skill.Operation.Path)
		}
	}
	terminal, d := only(t, translated(t, operation(v31, "GET /abort", `{`+ok+`}`, `servers: [{url: "https://example.com/v1/merchants/{merchant}/x%20y{none}/{device}", variables: {none: {default: ""}}}]`), all()))
	if terminal.Operation.Path != "/v1/merchants/{merchant}/x%20y/{device}/abort" || len(d.Inputs) != 2 || d.Inputs[0].Name != "device" || !d.Inputs[1].Required || d.Name != "GET /abort" {
		t.Errorf("%+v %+v", terminal.Operation, d)
	}
	skill, _ := only(t, translated(t, operation(v30, "GET /ä b/{id}:run", `{servers: [{url: "https://b.example.com/own"}], `+ok+`}`, `servers: [{url: /v1}]`), all()))
	if skill.Operation.Path != "/own/%C3%A4%20b/{id}:run" {
		t.Error(skill.Operation.Path)
	}
	location, _ := url.Parse("https://example.com/api/v2/openapi.yaml?x=y")
	for server, want := range map[string]string{"./": "/api/v2/a", "../v1": "/api/v1/a", "/": "/a", "https://other.example.com/v3": "/v3/a", "": "/a"} {
		api, err := publish.Read(t.Context(), texts{location.String(): operation(v30, "GET /a", `{`+ok+`}`, `servers: [{url: "`+server+`"}]`)}, location, all())
		if err != nil || len(api.Skills) != 1 || api.Skills[0].Operation.Path != want {
			t.Errorf("%s: %+v %v", server, api, err)
		}
	}
}

// TestReferences: documents in several files are one, and those that were read are named.
func TestReferences(t *testing.T) {
	folder := files(t, map[string]string{
		"api/openapi.yaml": `openapi: 3.0.3
info: {title: Pets, version: 1.0}
paths:
  /pets/{id}: {$ref: 'paths/pet.yaml'}
  /pets: {get: {$ref: 'paths/operations.json#/list'}}
components: {parameters: {id: {$ref: './paths/pet.yaml#/parameters/0'}}}
`,
		"api/paths/pet.yaml":        "parameters: [{name: id, in: path, required: true, schema: {$ref: '../schemas.yaml#/Id'}}]\nget: {operationId: getPet, responses: {'200': {content: {application/json: {schema: {$ref: ../schemas.yaml#/Pet}}}}}}\n",
		"api/paths/operations.json": `{"list": {"operationId": "listPets", "responses": {"200": {"description": "Pets", "content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "../schemas.yaml#/Pet"}}}}}}}}`,
		"api/schemas.yaml":          "Id: &id {type: integer}\nPet: {type: object, properties: {id: *id, name: {$ref: '#/Name'}, parent: {$ref: '#/Pet'}}}\nName: {type: string, maxLength: 7}\n",
	})
	link := filepath.Join(t.TempDir(), "linked.yaml")
	if err := os.Symlink(filepath.Join(folder, "api/openapi.yaml"), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(folder, "api/openapi.yaml"), link} {
		api, err := publish.Read(t.Context(), nil, fileURL(path), all())
		if err != nil || len(api.Skills) != 2 || len(api.LeftOut) > 0 {
			t.Fatalf("%+v %v", api, err)
		}
		sound(t, api)
		skills, _ := publish.Merge([]*publish.API{api})
		d, _ := document.ParseDescriptor(skills[0].Descriptor(base, "Pets"))
		same(t, "output", d.Output.Schema, `{"type":"object","$ref":"#/$defs/Pet","$defs":{"Pet":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":7},"parent":{"$ref":"#/$defs/Pet"}}}}}`)
		if d.Inputs[0].Type != "integer" {
			t.Errorf("%+v", d.Inputs)
		}
		var names []string
		for _, file := range api.Files {
			names = append(names, filepath.Base(file))
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		}
		if !slices.Contains(names, filepath.Base(path)) || !slices.Contains(names, "schemas.yaml") || !slices.Contains(names, "operations.json") {
			t.Errorf("%q", names)
		}
	}
}

// TestMissing: a file that is missing is one of those to look at, so that it is read when it is there.
func TestMissing(t *testing.T) {
	folder := files(t, map[string]string{"openapi.yaml": operation(v30, "GET /a", `{parameters: [{$ref: 'sub/p.yaml'}], `+ok+`}`)})
	api, err := publish.Read(t.Context(), nil, fileURL(folder, "openapi.yaml"), all())
	if err != nil || len(api.Files) != 2 || api.Files[1] != filepath.Join(folder, "sub/p.yaml") || !strings.Contains(left(t, api), "is no file") {
		t.Errorf("%+v %v", api, err)
	}
}

// texts is a [publish.Reader] of documents by URL.
type texts map[string]string

func (r texts) Read(_ context.Context, location *url.URL) ([]byte, error) {
	if text, ok := r[location.String()]; ok {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("it was answered with HTTP 404")
}

// TestURL: a document from a URL refers to others of its origin.
func TestURL(t *testing.T) {
	location, _ := url.Parse("https://example.com/api/openapi.yaml")
	api, err := publish.Read(t.Context(), texts{
		location.String():            operation(v30, "GET /a", `{parameters: [{$ref: '../p.yaml#/p'}, {$ref: none.yaml}], `+ok+`}`),
		"https://example.com/p.yaml": "p: {name: q, in: query, schema: {type: string}}",
	}, location, all())
	if err != nil || left(t, api) != `the reference "none.yaml" can't be fetched: it was answered with HTTP 404` || api.Files != nil {
		t.Errorf("%+v %v", api, err)
	}
}

// TestMemory: after the translation, only what is published is kept.
func TestMemory(t *testing.T) {
	var b strings.Builder
	b.WriteString("openapi: 3.0.0\ninfo: {title: a, version: 1.0}\npaths:\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "  /a/%d: {get: {operationId: get%d, description: %s, responses: {}}}\n", i, i, strings.Repeat("long ", 20))
	}
	location := fileURL(files(t, map[string]string{"openapi.yaml": b.String()}), "openapi.yaml")
	options := all()
	options.Include = []string{"get1", "get2"}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	_, _ = publish.Read(t.Context(), nil, location, options) // what is kept once and for all
	before := heap()
	api, err := publish.Read(t.Context(), nil, location, options)
	after := heap()
	if err != nil || len(api.Skills) != 2 {
		t.Fatal(api, err)
	}
	if kept := int64(after) - int64(before); kept > 1<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
	runtime.KeepAlive(api)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if _, err := publish.Read(ctx, nil, location, options); err == nil {
		t.Error("a document was translated after the deadline")
	}
}

// TestDescriptors: descriptors that were written by hand, in JSON and YAML.
func TestDescriptors(t *testing.T) {
	const echo = `{"protocol":{"version":"1.0.0"},"id":"a/ID","name":"Echo","version":"1.0.0","capability_type":"task","description":"Echoes.","provider":{"name":"A"},
		"endpoint":{"url":"https://a.example.com/echo","method":"POST"},"inputs":[],"output":{"content_type":"application/json"},"auth":{"type":"none"},"access":"private","x":"é"}`
	folder := files(t, map[string]string{
		"echo.json": strings.Replace(echo, "ID", "echo", 1), "b.yaml": "# YAML\n" + strings.Replace(echo, "ID", "b c", 1), "c.yml": strings.Replace(echo, "ID", "same", 1), "d.json": strings.Replace(echo, "ID", "same", 1),
		"run.json": strings.Replace(echo, "a/ID", "runs/hand", 1), "skill.json": strings.Replace(echo, "a/ID", "skills/x", 1),
		"invalid.json": "{}", "broken.yaml": "a: [", ".hidden.json": "{}", "README.md": "#", "folder.json/a": "",
	})
	read, err := publish.Descriptors(folder)
	skills, leftOut := publish.Merge([]*publish.API{read})
	if err != nil || len(skills) != 2 || skills[1].ID != "a/echo" || skills[1].Access != document.Private || skills[1].CapabilityType != document.Task || skills[1].Operation != nil {
		t.Fatalf("%+v %v", skills, err)
	}
	if text := string(skills[1].Descriptor(base, "Pets")); text != strings.Replace(echo, "ID", "echo", 1) {
		t.Error(text)
	}
	if e := skills[0].Entry(base); e.DescriptorURL != base+"/a/b%20c.json" || e.Name != "Echo" || !strings.Contains(string(skills[0].Descriptor(base, "Pets")), `"x":"é"`) {
		t.Errorf("%+v", e)
	}
	var names []string
	for _, l := range leftOut {
		names = append(names, l.Operation)
		if l.Reason == "" {
			t.Errorf("%+v", l)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"broken.yaml", "c.yml", "d.json", "folder.json", "invalid.json", "run.json", "skill.json"}) {
		t.Errorf("%v", leftOut)
	}
	if _, err := publish.Descriptors(filepath.Join(folder, "none")); err == nil {
		t.Error("a folder that does not exist was read")
	}
}
