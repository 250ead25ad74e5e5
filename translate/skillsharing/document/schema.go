package document

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// definition names one of the definitions of the protocol's JSON Schema.
type definition string

// The definitions of section 9.1 that the code uses.
const (
	defSkillDescriptor definition = "SkillDescriptor"
	defSkillIndex      definition = "SkillIndex"
	defSkillIndexEntry definition = "SkillIndexEntry"
	defProtocolVersion definition = "ProtocolVersion"
)

// protocolSchema is the protocol's JSON Schema (Draft 2020-12), written from the
// tables of the specification. It allows unknown members in all objects.
//
//go:embed schema.json
var protocolSchema []byte

const protocolSchemaURL = "https://skill-sharing.org/schema/draft/schema.json"

// schemas returns the compiled definitions. They are compiled once, when first needed.
var schemas = sync.OnceValue(func() map[definition]*jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(protocolSchema))
	if err != nil {
		panic(fmt.Sprintf("embedded schema.json: %v", err))
	}
	compiler := schema.NewLibraryCompiler()
	compiler.UseRegexpEngine(func(expression string) (jsonschema.Regexp, error) {
		re, err := regexp.Compile(expression)
		return version{re}, err
	})
	if err := compiler.AddResource(protocolSchemaURL, document); err != nil {
		panic(fmt.Sprintf("embedded schema.json: %v", err))
	}
	definitions, _ := document.(map[string]any)["$defs"].(map[string]any)
	compiled := make(map[definition]*jsonschema.Schema, len(definitions))
	for name := range definitions {
		compiled[definition(name)] = compiler.MustCompile(protocolSchemaURL + "#/$defs/" + name)
	}
	return compiled
})

// version is the regular expression of a version (Semantic Versioning 2.0.0). The schema
// has no other expression.
type version struct{ *regexp.Regexp }

// maxVersion is the longest version, in bytes.
const maxVersion = 256

// MatchString implements [jsonschema.Regexp].
func (v version) MatchString(s string) bool { return len(s) <= maxVersion && v.Regexp.MatchString(s) }

// String implements [jsonschema.Regexp].
func (version) String() string { return schema.VersionForm }
