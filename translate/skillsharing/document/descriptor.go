package document

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
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
		return nil, invalidDocument(run.PhaseDescriptor, string(def), found)
	}
	if most := 2 * l.OfSchemas().BytesOfAll(); len(doc) > most {
		return invalid([]run.Violation{{Message: fmt.Sprintf("must have at most %d bytes (limits schema_size)", most), Actual: jsonvalue.Marshal(len(doc))}})
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
