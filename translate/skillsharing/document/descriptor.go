package document

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// ParseDescriptor validates and reads a descriptor (section 9.3, parse). Its error is
// a [*run.Failure]: [run.VersionIncompatible] if the document follows a newer MAJOR
// version of the protocol, even if it has violations, too (section 6.4); otherwise
// [run.InvalidDocument] with the violations.
func ParseDescriptor(doc []byte) (*Descriptor, error) {
	return Standard.ReadDescriptor(doc, func(_ []Parameter, schemas []any) (found jsonvalue.Violations) {
		Standard.schemaRules(&found, schemas)
		return found
	})
}

// ReadDescriptor validates and reads a descriptor. It does not check the schemas of the inputs, but calls prepare with the
// inputs and the schema of each, which is nil if the input has none. prepare compiles the schemas, and returns the
// violations. So each schema is compiled only once.
func (l *Limits) ReadDescriptor(doc []byte, prepare func(params []Parameter, schemas []any) jsonvalue.Violations) (*Descriptor, error) {
	doc = WithoutBOM(doc)
	const def = defSkillDescriptor
	invalid := func(found []run.Violation) (*Descriptor, error) {
		return nil, Invalid(run.PhaseDescriptor, string(def)+" document", found...)
	}
	if most := 2 * l.OfSchemas().BytesOfAll(); len(doc) > most {
		return invalid([]run.Violation{{Message: fmt.Sprintf("must have at most %s (limits schema_size)", Bytes(int64(most))), Actual: jsonvalue.Marshal(len(doc))}})
	}
	descriptorTurns.Take(context.Background(), l.Owner, share.Line{})
	defer descriptorTurns.End(l.Owner)
	if version := declaredVersion(doc); isNewer(version) {
		return nil, versionError(version)
	}
	value, found := l.valueOf(def, doc)
	if len(found) > 0 {
		l.schemaRules(&found, schemasOf(value))
		return invalid(found.Tidy())
	}
	descriptor := &Descriptor{renderings: renderings{owner: l.Owner}}
	if err := read(doc, descriptor); err != nil {
		return invalid(unreadable(err))
	}
	descriptor.Inputs = slices.Clone(descriptor.Inputs) // without the room for three more that decoding has made
	if flaws := prepare(descriptor.Inputs, schemasOf(value)); len(flaws) > 0 {
		return invalid(flaws.Tidy())
	}
	return descriptor, nil
}

// read decodes a valid document. It removes white space first, so that the raw
// values in the result do not depend on the formatting.
func read(doc []byte, into any) error {
	compact := jsontext.Value(slices.Clone(doc))
	twice := jsontext.AllowDuplicateNames(true) // a valid document has none: the check would cost time
	if err := compact.Compact(twice); err != nil {
		return err
	}
	return json.Unmarshal(compact, into, twice)
}

// descriptorTurns limits how many descriptors are validated at a time. Validating one takes up to some 20 ms of processor
// time, and can't be interrupted.
var descriptorTurns = share.NewQueue(max(1, runtime.GOMAXPROCS(0)/4))

// isVersion reports whether a text is a version of Semantic Versioning 2.0.0. Its numbers may be of any size, which the libraries for versions do not allow.
func isVersion(text string) bool {
	return schemas()[defProtocolVersion].Properties["version"].Ref.Pattern.(version).Regexp.MatchString(text)
}

// isNewer reports whether a text is a version that is too new for this consumer: its MAJOR number is greater than [ConsumerMajor] (section 6.3).
func isNewer(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	return (len(major) > 1 || major > strconv.Itoa(ConsumerMajor)) && isVersion(version)
}

// CheckVersion returns the failure of a document that declares a newer MAJOR version of the protocol; nil: it declares none.
func CheckVersion(doc []byte) *run.Failure {
	if version := declaredVersion(doc); isNewer(version) {
		return versionError(version)
	}
	return nil
}

// versionError returns the failure of a document of a newer MAJOR version (section 8.3.7).
func versionError(document string) *run.Failure {
	document = safetext.Clip(document, jsonvalue.MaxActual)
	f := run.NotExecuted(run.VersionIncompatible, run.PhaseDescriptor, fmt.Sprintf("Protocol version %s is not compatible with consumer version %s", document, ConsumerVersion))
	f.Violations = []run.Violation{{
		Path: "/protocol/version", Message: "must be one that this consumer can use",
		Expected: jsonvalue.Quoted(fmt.Sprintf(">=0.0.0 <%d.0.0", ConsumerMajor+1)), Actual: jsonvalue.Quoted(document),
	}}
	return f
}

// declaredVersion returns protocol.version of a JSON document, even if the
// document is invalid; empty: there is none.
func declaredVersion(doc []byte) string {
	var declared struct {
		Protocol struct {
			Version string `json:"version"`
		} `json:"protocol"`
	}
	if err := json.Unmarshal(doc, &declared, jsontext.AllowDuplicateNames(true)); err != nil {
		return ""
	}
	return declared.Protocol.Version
}

// Bytes returns a number of bytes for people, exactly, and with a unit as options take it if it has one.
func Bytes(n int64) string {
	if n > 0 && n%(1<<20) == 0 {
		return fmt.Sprint(n>>20, "MiB")
	} else if n > 0 && n%(1<<10) == 0 {
		return fmt.Sprint(n>>10, "KiB")
	}
	return fmt.Sprint(n, " bytes")
}
