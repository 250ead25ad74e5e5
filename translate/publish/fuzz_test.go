package publish_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/cost"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// FuzzRead: whatever a document and another to which it refers are, reading them neither panics nor takes long, and bridges take each descriptor.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		operation(v30, "GET /a/{id}", `{parameters: [{$ref: 'other#/p'}, {name: id, in: path, schema: {type: integer, nullable: true}}], `+ok+`}`),
		operation(v31, "POST /a", `{requestBody: {content: {application/json: {schema: {allOf: [{$ref: '#/components/schemas/A'}]}}}}, security: [{k: []}], `+ok+`}`, `components: {schemas: {A: {type: [object, "null"], required: [a], properties: {a: {$ref: '#/components/schemas/A'}}}}, securitySchemes: {k: {type: oauth2, flows: {}}}}`),
		operation(v2, "PUT /a", `{consumes: [multipart/form-data], parameters: [{name: f, in: formData, type: file}], responses: {"200": {schema: {type: file}}}}`, "basePath: /v1"),
		`{"openapi": "3.1.0", "paths": {"/a": {"$ref": "#/paths/~1b"}, "/b": {"get": {"responses": {"200": {"content": {"*/*": {"schema": true}}}}}}}}`,
		"openapi: 3.0.0\npaths: &a {/a: {get: &o {operationId: x, <<: *o}}, /b: *a}", "a: &a [*a]", "{", "",
	} {
		f.Add([]byte(seed), []byte("p: {name: q, in: query, schema: {$ref: 'openapi.yaml#/components/schemas/A'}}"))
	}
	location, _ := url.Parse("https://example.com/openapi.yaml")
	f.Fuzz(func(t *testing.T, text, other []byte) {
		reader := readerFunc(func(_ context.Context, u *url.URL) ([]byte, error) {
			if u.Path == location.Path {
				return text, nil
			}
			return other, nil
		})
		var api *publish.API
		var err error
		cost.Cheap(t, "reading", func() { api, err = publish.Read(t.Context(), reader, location, all()) })
		if err != nil {
			return
		}
		for _, s := range api.Skills {
			if _, err := document.ParseDescriptor(s.Descriptor(base, "Pets")); err != nil {
				t.Errorf("%s: %v", s.Descriptor(base, "Pets"), err)
			}
		}
	})
}
