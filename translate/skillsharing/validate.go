package skillsharing

import (
	"bytes"
	"cmp"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// What is told of a violation is bounded, in bytes, and so is the number of
// violations of one document.
const (
	maxPath       = 1024
	maxMessage    = 512
	maxActual     = 256
	maxViolations = 50
)

// Validate judges a document against a definition of the protocol's schema, and
// by the rules that a schema can't state, such as unique ids (section 9.3,
// validate). It returns nil if the document is valid, else up to 50 violations
// in the order of their paths. A leading byte order mark is ignored. What is
// larger or more complex than [DefaultLimits] allow is invalid, too.
func Validate(def Definition, doc []byte) []run.Violation { return standard.validate(def, doc) }

func (l *Limits) validate(def Definition, doc []byte) []run.Violation {
	if schemas()[def] == nil {
		return []run.Violation{{Message: fmt.Sprintf("there is no definition %q", clip(string(def), maxActual))}}
	}
	value, found := l.valueOf(def, withoutBOM(doc))
	switch def {
	case DefSkillDescriptor:
		l.inputsRules(&found, value)
	case DefParameterDefinition:
		inputRule(&found, newParameterCompiler(l), value, "")
	}
	return found.tidy()
}

// valueOf reads a document and judges it, but for the schemas of inputs. The value
// is nil if it can't be read.
func (l *Limits) valueOf(def Definition, doc []byte) (any, violations) {
	if flaw := l.tooLarge(def, doc); flaw != nil {
		return nil, violations{*flaw}
	}
	value, flaw := readJSON(doc, l.documentBounds(def))
	if flaw != nil {
		return nil, violations{*flaw}
	}
	if flaw := l.tooMuchBesides(def, value); flaw != nil {
		return nil, violations{*flaw}
	}
	found := violationsOf(schemas()[def].Validate(value), value, "")
	if check, ok := rules[def]; ok {
		check(&found, value, "")
	}
	return value, found
}

func withoutBOM(doc []byte) []byte { return bytes.TrimPrefix(doc, []byte("\ufeff")) }

// violations collects what is wrong with a document.
type violations []run.Violation

func (v *violations) add(path, message, expected string, found any) {
	*v = append(*v, run.Violation{Path: clip(path, maxPath), Message: message, Expected: quoted(expected), Actual: actual(found)})
}

// tidy returns the violations sorted, each once, no more than maxViolations; nil
// if there are none.
func (v *violations) tidy() []run.Violation {
	if len(*v) == 0 {
		return nil
	}
	slices.SortStableFunc(*v, func(a, b run.Violation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	list := slices.CompactFunc(*v, func(a, b run.Violation) bool { return a.Path == b.Path && a.Message == b.Message })
	return list[:min(len(list), maxViolations)]
}

// rules are what the schema can't say. Each one judges only members of the right
// type, since the schema judges the types.
var rules = map[Definition]func(found *violations, value any, path string){
	DefSkillDescriptor:    descriptorRules,
	DefSkillIndex:         indexRules,
	DefSkillIndexEntry:    entryRules,
	DefInvocationEndpoint: endpointRules,
	DefAuthConfig:         authRules,
}

func descriptorRules(found *violations, value any, path string) {
	descriptor, _ := value.(map[string]any)
	idRule(found, descriptor, path)
	endpointRules(found, descriptor["endpoint"], path+"/endpoint")
	authRules(found, descriptor["auth"], path+"/auth")
	inputs, _ := descriptor["inputs"].([]any)
	unique(found, inputs, "name", path+"/inputs")
}

func indexRules(found *violations, value any, path string) {
	index, _ := value.(map[string]any)
	skills, _ := index["skills"].([]any)
	entriesRules(found, skills, path+"/skills")
}

func entriesRules(found *violations, entries []any, path string) {
	for i, entry := range entries {
		entryRules(found, entry, path+"/"+strconv.Itoa(i))
	}
	unique(found, entries, "id", path)
}

func entryRules(found *violations, value any, path string) {
	entry, _ := value.(map[string]any)
	idRule(found, entry, path)
	urlRule(found, entry, "descriptor_url", path)
}

// maxID is the longest id of a skill, in bytes: ids become names, which agents
// repeat and logs show.
const maxID = 512

func idRule(found *violations, object map[string]any, path string) {
	if id, ok := object["id"].(string); ok && len(id) > maxID {
		found.add(path+"/id", fmt.Sprintf("must have at most %d bytes", maxID), fmt.Sprintf("at most %d bytes", maxID), id)
	}
}

func endpointRules(found *violations, value any, path string) {
	endpoint, _ := value.(map[string]any)
	urlRule(found, endpoint, "url", path)
	urlRule(found, endpoint, "status_url", path)
	urlRule(found, endpoint, "result_url", path)
	if contentType, ok := endpoint["content_type"].(string); ok && !isJSONType(contentType) {
		found.add(path+"/content_type", "must be a JSON media type: nothing else can be sent", "application/json", contentType)
	}
}

func authRules(found *violations, value any, path string) {
	auth, _ := value.(map[string]any)
	if header, ok := auth["header"].(string); ok && ForbiddenHeader(header) {
		message := "must not name a header that belongs to the connection, the body or routing"
		if !fieldName(header) {
			message = "must be the name of an HTTP header"
		}
		found.add(path+"/header", message, "a header for credentials, such as X-API-Key", header)
	}
	oauth2, _ := auth["oauth2"].(map[string]any)
	urlRule(found, oauth2, "authorization_url", path+"/oauth2")
	urlRule(found, oauth2, "token_url", path+"/oauth2")
}

// inputsRules judges the schemas of a descriptor's inputs, until there are more
// violations than are reported.
func (l *Limits) inputsRules(found *violations, value any) {
	compiler := newParameterCompiler(l)
	for i, input := range inputsOf(value) {
		if len(*found) > maxViolations {
			return
		}
		inputRule(found, compiler, input, "/inputs/"+strconv.Itoa(i))
	}
}

// inputsOf returns the inputs of a descriptor that readJSON returned.
func inputsOf(value any) []any {
	descriptor, _ := value.(map[string]any)
	inputs, _ := descriptor["inputs"].([]any)
	return inputs
}

func inputRule(found *violations, compiler *parameterCompiler, value any, path string) {
	parameter, _ := value.(map[string]any)
	if schema, ok := parameter["schema"].(map[string]any); ok {
		_, flaws := compiler.compile(nil, schema, path+"/schema")
		*found = append(*found, flaws...)
	}
}

// unique demands that no two objects of a list have the same string in a member.
// The later one is at fault.
func unique(found *violations, list []any, member, path string) {
	first := make(map[string]int, len(list))
	for i, item := range list {
		object, _ := item.(map[string]any)
		s, ok := object[member].(string)
		if !ok {
			continue
		}
		if earlier, taken := first[s]; taken {
			message := fmt.Sprintf("must be unique, but %s/%d/%s is the same", path, earlier, member)
			found.add(path+"/"+strconv.Itoa(i)+"/"+member, message, "a unique "+member, s)
			continue
		}
		first[s] = i
	}
}

func urlRule(found *violations, object map[string]any, member, path string) {
	s, ok := object[member].(string)
	if !ok {
		return
	}
	if problem := urlProblem(s); problem != "" {
		found.add(path+"/"+member, problem, "an absolute http or https URL", s)
	}
}

// maxURL is the longest URL that a document may contain, in bytes.
const maxURL = 2048

// urlProblem tells why a URL, or a template of one (section 5.5), can't be
// requested. It is empty for absolute http and https URLs.
func urlProblem(s string) string {
	if len(s) > maxURL {
		return fmt.Sprintf("must be a URL of at most %d bytes", maxURL)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return "must not contain spaces or control characters"
	}
	if strings.Contains(schemeAndAuthority(s), executionIDPlaceholder) {
		return "must have " + executionIDPlaceholder + " only in its path or query: the execution id must not choose the host"
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "must be an absolute http or https URL with a host"
	case u.User != nil:
		return "must not contain a user name or password"
	case !validPort(u.Port()):
		return "must have a port between 1 and 65535, or none"
	}
	return ""
}

// schemeAndAuthority returns what stands before the path, query or fragment.
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

// isJSONType reports whether a media type, with or without parameters, is JSON:
// application/json, text/json or one with the suffix +json (RFC 6839, section 3.1).
func isJSONType(contentType string) bool {
	if len(contentType) > maxMediaType || strings.ContainsFunc(contentType, unicode.IsControl) {
		return false
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json"))
}
