package skillsprotocol_test

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// TestDiscover: the OpenRPC document has each method with its params, and each error code.
func TestDiscover(t *testing.T) {
	text := result(t, &fakeBridge{}, "rpc.discover", ``)
	doc := decode[struct {
		OpenRPC string `json:"openrpc"`
		Info    struct{ Title, Version string }
		Methods []struct {
			Name   string `json:"name"`
			Params []struct {
				Name string `json:"name"`
			} `json:"params"`
		} `json:"methods"`
		Components struct {
			Errors map[string]struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"errors"`
		} `json:"components"`
	}](t, strings.NewReplacer(`"title"`, `"Title"`, `"version":"`, `"Version":"`, `"info"`, `"Info"`).Replace(text))
	methods := map[string][]string{}
	for _, m := range doc.Methods {
		methods[m.Name] = []string{}
		for _, p := range m.Params {
			methods[m.Name] = append(methods[m.Name], p.Name)
		}
		slices.Sort(methods[m.Name])
	}
	for method, params := range skillsprotocol.MethodParams() {
		if !slices.Equal(methods[method], params) {
			t.Errorf("%s: %q, want %q", method, methods[method], params)
		}
		delete(methods, method)
	}
	if len(methods) > 0 || doc.OpenRPC != "1.3.2" || doc.Info.Version != "v1.2.3" {
		t.Errorf("%v %+v", methods, doc.Info)
	}
	codes := map[int]string{}
	for _, e := range doc.Components.Errors {
		codes[e.Code] = e.Message
	}
	for code, meaning := range skillsprotocol.Codes() {
		if codes[code] == "" {
			t.Errorf("%d (%s) is missing", code, meaning)
		}
	}
}

// TestMetaSchema: the OpenRPC document is valid by the meta-schema of OpenRPC, and its schemas by that of JSON Schema, draft 7, which the
// former refers to by another name.
func TestMetaSchema(t *testing.T) {
	text, err := os.ReadFile("testdata/openrpc/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	const names = "https://meta.json-schema.tools"
	text = bytes.Replace(text, []byte(`"$schema": "`+names+`/"`), []byte(`"$schema": "http://json-schema.org/draft-07/schema#"`), 1)
	const draft = `{"$ref":"http://json-schema.org/draft-07/schema#","definitions":{"JSONSchemaObject":{"properties":{"$ref":{"type":"string"}}}}}`
	document := result(t, &fakeBridge{}, "rpc.discover", ``)
	validateBy := func(document string) error {
		return validate(t, text, jsontext.Value(document), resource{names, draft}, resource{names + "/", draft})
	}
	if err := validateBy(document); err != nil {
		t.Error(err)
	}
	for _, m := range [][2]string{
		{`"paramStructure":"by-name"`, `"paramStructure":"sideways"`},
		{`"type":"boolean"`, `"type":"truth"`},
		{`"url":"https://skillsprotocol.com/specification"`, `"uri":"x"`},
	} {
		if mutant := strings.Replace(document, m[0], m[1], 1); mutant == document || validateBy(mutant) == nil {
			t.Errorf("%s is valid", m[1])
		}
	}
}

// contract is the OpenRPC document, for [contract.check].
type contract struct {
	Methods []struct {
		Name   string
		Result struct{ Schema answerSchema }
	}
	Components struct {
		Schemas map[string]answerSchema
	}
}

// answerSchema is a schema of the document, as far as it says which members there are.
type answerSchema struct {
	Ref        string `json:"$ref"`
	Properties map[string]answerSchema
	OneOf      []answerSchema
	Items      *answerSchema
}

var readContract = sync.OnceValues(func() (contract, error) {
	text, err := os.ReadFile("openrpc.json")
	if err != nil {
		return contract{}, err
	}
	var c contract
	return c, json.Unmarshal(text, &c, json.MatchCaseInsensitiveNames(true))
})

// checkAnswer: the OpenRPC document names all members that the answers of the other tests have.
func checkAnswer(t *testing.T, method string, result jsontext.Value, fault *jsonrpc.Error) {
	t.Helper()
	c, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	if fault != nil && fault.Data != nil {
		c.check(t, "error.data", fault.Data, answerSchema{Ref: "#/components/schemas/ErrorData"})
	}
	for i := range c.Methods {
		if m := &c.Methods[i]; fault == nil && m.Name == method {
			c.check(t, method, result, m.Result.Schema)
		}
	}
}

func (c *contract) check(t *testing.T, path string, value jsontext.Value, s answerSchema) {
	t.Helper()
	members := c.members(s)
	switch {
	case value.Kind() == '{' && members != nil:
		var object map[string]jsontext.Value
		if err := json.Unmarshal(value, &object, jsontext.AllowDuplicateNames(true)); err != nil { // details are the provider's
			t.Fatal(err)
		}
		for name, v := range object {
			of, ok := members[name]
			if !ok {
				t.Errorf("openrpc.json has no %s.%s", path, name)
			}
			c.check(t, path+"."+name, v, of)
		}
	case value.Kind() == '[' && s.Items != nil:
		for _, v := range decode[[]jsontext.Value](t, string(value)) {
			c.check(t, path+"[]", v, *s.Items)
		}
	}
}

// members returns the members of an object; nil: any.
func (c *contract) members(s answerSchema) map[string]answerSchema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return c.members(c.Components.Schemas[name])
	}
	for _, other := range s.OneOf {
		if s.Properties == nil {
			s.Properties = map[string]answerSchema{}
		}
		maps.Copy(s.Properties, c.members(other))
	}
	return s.Properties
}
