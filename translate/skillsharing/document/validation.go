package document

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"mime"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/modern"
)

// CheckResponse returns what the protocol's JSON Schema says against an InvocationResponse (section 5.4); nil: nothing. Runs are
// followed by less: see [Response].
func CheckResponse(body []byte) []run.Violation { return check("InvocationResponse", body) }

// CheckRequest returns what is wrong with an InvocationRequest (section 5.3); nil: nothing is.
func CheckRequest(body []byte) []run.Violation { return check("InvocationRequest", body) }

func check(def definition, body []byte) []run.Violation {
	_, found := Standard.valueOf(def, WithoutBOM(body))
	return found.Tidy()
}

// valueOf reads a document and validates it, except for the schemas of inputs. The
// value is nil if the document can't be read.
func (l *Limits) valueOf(def definition, doc []byte) (any, jsonvalue.Violations) {
	value, flaw := jsonvalue.Read(doc, l.documentBounds())
	if flaw = cmp.Or(flaw, jsonvalue.TooMany("/inputs", schemasOf(value), maxParameters)); flaw != nil {
		return nil, jsonvalue.Violations{*flaw}
	}
	found := schema.ViolationsOf(schemas()[def].Validate(value), value, "")
	if object, _ := value.(map[string]any); def == defSkillDescriptor {
		descriptorRules(&found, object) // which ignore members of a wrong type, since the schema reports these
	}
	return value, found
}

// WithoutBOM returns a text without a leading byte order mark.
func WithoutBOM(doc []byte) []byte { return bytes.TrimPrefix(doc, []byte("\ufeff")) }

func descriptorRules(found *jsonvalue.Violations, descriptor map[string]any) {
	idRule(found, descriptor, "")
	endpoint, _ := descriptor["endpoint"].(map[string]any)
	for _, member := range []string{"url", "status_url", "result_url"} {
		urlRule(found, endpoint, member, "/endpoint")
	}
	if contentType, ok := endpoint["content_type"].(string); ok && mediaTypeOf(contentType) == "" {
		found.Add("/endpoint/content_type", "must be a media type", "application/json", contentType)
	}
	auth, _ := descriptor["auth"].(map[string]any)
	if header, ok := auth["header"].(string); ok && ForbiddenHeader(header) {
		message := "must not name a header that belongs to the connection, the body or routing"
		if !fieldName(header) {
			message = "must be the name of an HTTP header"
		}
		found.Add("/auth/header", message, "a header for credentials, such as X-API-Key", header)
	}
	oauth2, _ := auth["oauth2"].(map[string]any)
	urlRule(found, oauth2, "authorization_url", "/auth/oauth2")
	urlRule(found, oauth2, "token_url", "/auth/oauth2")
	inputs, _ := descriptor["inputs"].([]any)
	unique(found, inputs, "name", "/inputs")
}

func entryRules(found *jsonvalue.Violations, value any, path string) {
	entry, _ := value.(map[string]any)
	idRule(found, entry, path)
	urlRule(found, entry, "descriptor_url", path)
}

// maxID is the longest id of a skill, in bytes. Ids become names, which agents
// send and logs show.
const maxID = 512

func idRule(found *jsonvalue.Violations, object map[string]any, path string) {
	if id, ok := object["id"].(string); ok && len(id) > maxID {
		found.Add(path+"/id", fmt.Sprintf("must have at most %d bytes", maxID), fmt.Sprintf("at most %d bytes", maxID), id)
	}
}

// schemaRules compiles the schemas of a descriptor's inputs. It stops when
// there are more violations than are reported.
func (l *Limits) schemaRules(found *jsonvalue.Violations, schemas []any) {
	compiler := schema.NewCompiler(l.OfSchemas())
	for i, own := range schemas {
		object, ok := own.(map[string]any)
		if !ok || len(*found) > jsonvalue.MaxViolations {
			continue
		}
		var text jsontext.Value // nil: nothing is kept
		_, flaws := modern.Compile(compiler, &text, &object, "", "/inputs/"+strconv.Itoa(i)+"/schema")
		*found = append(*found, flaws...)
	}
}

// schemasOf returns the schema of each input of a descriptor that [jsonvalue.Read] returned; nil for an input without a schema.
func schemasOf(value any) []any {
	descriptor, _ := value.(map[string]any)
	inputs, _ := descriptor["inputs"].([]any)
	schemas := make([]any, len(inputs))
	for i, input := range inputs {
		parameter, _ := input.(map[string]any)
		schemas[i] = parameter["schema"]
	}
	return schemas
}

// unique adds a violation for each object in a list whose member has the same
// string as that of an earlier object.
func unique(found *jsonvalue.Violations, list []any, member, path string) {
	first := make(map[string]int, len(list))
	for i, item := range list {
		object, _ := item.(map[string]any)
		s, ok := object[member].(string)
		if !ok {
			continue
		}
		if earlier, taken := first[s]; taken {
			message := fmt.Sprintf("must be unique, but %s/%d/%s is the same", path, earlier, member)
			found.Add(path+"/"+strconv.Itoa(i)+"/"+member, message, "a unique "+member, s)
			continue
		}
		first[s] = i
	}
}

func urlRule(found *jsonvalue.Violations, object map[string]any, member, path string) {
	s, ok := object[member].(string)
	if !ok {
		return
	}
	if problem := urlProblem(s); problem != "" {
		found.Add(path+"/"+member, problem, "an absolute http or https URL", s)
	}
}

// maxURL is the longest URL that a document may contain, in bytes.
const maxURL = 2048

// urlProblem returns why a URL, or a template of one (section 5.5), can't be
// requested; empty: it is an absolute http or https URL.
func urlProblem(s string) string {
	u, err := url.Parse(s)
	switch {
	case len(s) > maxURL:
		return fmt.Sprintf("must be a URL of at most %d bytes", maxURL)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return "must not contain spaces or control characters"
	case strings.Contains(schemeAndAuthority(s), executionIDPlaceholder):
		return "must have " + executionIDPlaceholder + " only in its path or query: the execution id must not choose the host"
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "must be an absolute http or https URL with a host"
	case u.User != nil:
		return "must not contain a user name or password"
	case !validPort(u.Port()):
		return "must have a port between 1 and 65535, or none"
	}
	return ""
}

// schemeAndAuthority returns the part of a URL before the path, query or fragment.
func schemeAndAuthority(s string) string {
	start := 0
	if i := strings.Index(s, "//"); i >= 0 {
		start = i + len("//")
	}
	if i := strings.IndexAny(s[start:], "/?#"); i >= 0 {
		return s[:start+i]
	}
	return s
}

func validPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// maxMediaType is the longest media type with its parameters, in bytes.
const maxMediaType = 1024

// mediaTypeOf returns a media type in lower case, without its parameters; empty: the text is none, or is too long.
func mediaTypeOf(contentType string) string {
	if len(contentType) > maxMediaType || strings.ContainsFunc(contentType, unicode.IsControl) {
		return ""
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.Contains(mediaType, "/") {
		return ""
	}
	return mediaType
}

// TakesJSON reports whether requests with JSON in their bodies have the media type that the endpoint asks for, with or without parameters:
// application/json, text/json or one with the suffix +json (RFC 6839, section 3.1).
func (e *Endpoint) TakesJSON() bool {
	if e.ContentType == "" || e.ContentType == "application/json" {
		return true
	}
	mediaType := mediaTypeOf(e.ContentType)
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

// Meaning is what the protocol's JSON Schema says about a member of a document.
type Meaning struct {
	// About is a sentence about what the member is for; empty: the schema does not say so.
	About string
	// Example is a valid value of the member; nil: the schema has none.
	Example jsontext.Value
}

// MeaningInDescriptor returns the meaning of the member of a descriptor at a JSON Pointer.
func MeaningInDescriptor(pointer string) Meaning { return meaningOf(defSkillDescriptor, pointer) }

// MeaningInIndex returns the meaning of the member of an index at a JSON Pointer.
func MeaningInIndex(pointer string) Meaning { return meaningOf(defSkillIndex, pointer) }

func meaningOf(def definition, pointer string) Meaning {
	node := schemas()[def]
	for token := range jsontext.Pointer(pointer).Tokens() {
		for node.Ref != nil {
			node = node.Ref
		}
		if node = cmp.Or(node.Properties[token], node.Items2020); node == nil {
			return Meaning{}
		}
	}
	m := Meaning{About: node.Description}
	if len(node.Examples) > 0 {
		m.Example = jsonvalue.Marshal(node.Examples[0])
	}
	return m
}

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
