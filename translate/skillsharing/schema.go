package skillsharing

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Definition names one of the definitions of the protocol's JSON Schema.
type Definition string

// The definitions of section 9.1.
const (
	DefSkillDescriptor     Definition = "SkillDescriptor"
	DefSkillIndex          Definition = "SkillIndex"
	DefSkillIndexEntry     Definition = "SkillIndexEntry"
	DefInvocationRequest   Definition = "InvocationRequest"
	DefInvocationResponse  Definition = "InvocationResponse"
	DefProtocolVersion     Definition = "ProtocolVersion"
	DefCapabilityType      Definition = "CapabilityType"
	DefAccessPolicy        Definition = "AccessPolicy"
	DefAuthType            Definition = "AuthType"
	DefExecutionStatus     Definition = "ExecutionStatus"
	DefParameterDefinition Definition = "ParameterDefinition"
	DefAuthConfig          Definition = "AuthConfig"
	DefInvocationEndpoint  Definition = "InvocationEndpoint"
	DefOutputDefinition    Definition = "OutputDefinition"
)

var definitions = []Definition{
	DefSkillDescriptor, DefSkillIndex, DefSkillIndexEntry, DefInvocationRequest, DefInvocationResponse,
	DefProtocolVersion, DefCapabilityType, DefAccessPolicy, DefAuthType, DefExecutionStatus,
	DefParameterDefinition, DefAuthConfig, DefInvocationEndpoint, DefOutputDefinition,
}

// protocolSchema is the protocol's JSON Schema (Draft 2020-12), written from the
// tables of the specification. No object in it is closed: unknown members are
// legal everywhere.
//
//go:embed schema.json
var protocolSchema []byte

const protocolSchemaURL = "https://skill-sharing.org/schema/draft/schema.json"

// schemas returns the compiled definitions. They are compiled once, when first needed.
var schemas = sync.OnceValue(func() map[Definition]*jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(protocolSchema))
	if err != nil {
		panic(fmt.Sprintf("embedded schema.json: %v", err))
	}
	compiler := newCompiler()
	compiler.UseRegexpEngine(func(expression string) (jsonschema.Regexp, error) {
		re, err := regexp.Compile(expression)
		return shortText{re}, err
	})
	if err := compiler.AddResource(protocolSchemaURL, document); err != nil {
		panic(fmt.Sprintf("embedded schema.json: %v", err))
	}
	compiled := make(map[Definition]*jsonschema.Schema, len(definitions))
	for _, d := range definitions {
		compiled[d] = compiler.MustCompile(protocolSchemaURL + "#/$defs/" + string(d))
	}
	return compiled
})

// shortText is an expression that matches no long text: of all that documents say,
// only versions are to match one.
type shortText struct{ *regexp.Regexp }

func (r shortText) MatchString(s string) bool { return len(s) <= maxVersion && r.Regexp.MatchString(s) }

// maxVersion is the longest version, in bytes.
const maxVersion = 256

// versionPattern is the schema's expression for versions.
func versionPattern() string {
	return schemas()[DefProtocolVersion].Properties["version"].Ref.Pattern.String()
}

// newCompiler returns a compiler for Draft 2020-12 that can't be led to read
// files or to fetch anything.
func newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	return c
}

// noLoader loads nothing. The library's default opens file URLs.
type noLoader struct{}

var errNotLoaded = errors.New("schemas are not loaded from elsewhere")

func (noLoader) Load(string) (any, error) { return nil, errNotLoaded }
