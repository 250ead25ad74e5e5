package skillsharing

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ParseDescriptor validates and reads a descriptor (section 9.3, parse). Its
// error is an [*Error]: VERSION_INCOMPATIBLE if the document follows a newer
// MAJOR of the protocol, whatever else may be wrong with it by the rules of this
// one (section 6.4), else VALIDATION_ERROR with the violations as details.
func ParseDescriptor(doc []byte) (*Descriptor, error) { return standard.parseDescriptor(doc) }

func (l *Limits) parseDescriptor(doc []byte) (*Descriptor, error) {
	doc = withoutBOM(doc)
	if version := declaredVersion(doc); isNewer(version) {
		return nil, versionError(version)
	}
	if found := l.validate(DefSkillDescriptor, doc); found != nil {
		return nil, documentError(PhaseDescriptor, string(DefSkillDescriptor), found)
	}
	descriptor := new(Descriptor)
	if err := read(doc, descriptor); err != nil {
		return nil, unreadable(PhaseDescriptor, string(DefSkillDescriptor), err)
	}
	return descriptor, nil
}

// ParseIndex validates and reads an index. Its error is an [*Error] with the
// code VALIDATION_ERROR and the violations as details: one bad entry makes the
// index invalid, as one id given twice does (section 4.3.4). The version of an
// index is not judged: only descriptors are invoked.
func ParseIndex(doc []byte) (*Index, error) { return standard.parseIndex(doc) }

func (l *Limits) parseIndex(doc []byte) (*Index, error) {
	doc = withoutBOM(doc)
	if found := l.validate(DefSkillIndex, doc); found != nil {
		return nil, documentError(PhaseDiscovery, string(DefSkillIndex), found)
	}
	index := new(Index)
	if err := read(doc, index); err != nil {
		return nil, unreadable(PhaseDiscovery, string(DefSkillIndex), err)
	}
	return index, nil
}

// ParseRegistry reads the answer of a registry, whose form section 4.2 leaves
// open: an object with an array "skills", whatever else it has, or such an array
// itself. Its elements are judged as those of an index are, and its error is
// like that of [ParseIndex]. Of the index returned only Skills is set.
func ParseRegistry(doc []byte) (*Index, error) { return standard.parseRegistry(doc) }

func (l *Limits) parseRegistry(doc []byte) (*Index, error) {
	const what = "registry"
	doc = withoutBOM(doc)
	bounds := l.documentBounds(DefSkillIndex)
	if jsontext.Value(doc).Kind() == '[' {
		bounds.list.path = ""
	}
	value, flaw := readJSON(doc, bounds)
	if flaw != nil {
		return nil, documentError(PhaseDiscovery, what, []Violation{*flaw})
	}
	path := ""
	list, isList := value.([]any)
	if object, ok := value.(map[string]any); ok {
		path = "/skills"
		list, isList = object["skills"].([]any)
		value = object["skills"]
	}
	if !isList {
		var found violations
		found.add(path, "must be an array of index entries", "array", value)
		return nil, documentError(PhaseDiscovery, what, found)
	}
	if found := l.validateEntries(list, path); found != nil {
		return nil, documentError(PhaseDiscovery, what, found)
	}

	index := new(Index)
	var err error
	if path == "" {
		err = read(doc, &index.Skills)
	} else {
		var answer struct {
			Skills []IndexEntry `json:"skills"`
		}
		err = read(doc, &answer)
		index.Skills = answer.Skills
	}
	if err != nil {
		return nil, unreadable(PhaseDiscovery, what, err)
	}
	return index, nil
}

func (l *Limits) validateEntries(entries []any, path string) []Violation {
	schema := schemas()[DefSkillIndexEntry]
	var found violations
	for i, entry := range entries {
		if len(found) >= maxViolations {
			break
		}
		found = append(found, violationsOf(schema.Validate(entry), entry, path+"/"+strconv.Itoa(i))...)
	}
	entriesRules(l, &found, entries, path)
	return found.tidy()
}

// Serialize returns the descriptor as pretty-printed JSON, indented by two spaces
// (section 9.3, serialize), unknown members included. [ParseDescriptor] reads an
// equal descriptor from it.
func (d *Descriptor) Serialize() ([]byte, error) {
	text, err := json.Marshal(d, jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true), json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("serialize descriptor %q: %w", clip(d.ID, maxActual), err)
	}
	return text, nil
}

// read decodes a valid document. It is made compact first, so that the raw
// values kept of it do not depend on how it was laid out.
func read(doc []byte, into any) error {
	compact := jsontext.Value(slices.Clone(doc))
	if err := compact.Compact(); err != nil {
		return err
	}
	return json.Unmarshal(compact, into)
}

// declaredVersion returns protocol.version of a JSON document that may be invalid
// in any other respect. It is empty where there is none.
func declaredVersion(doc []byte) string {
	lenient := jsontext.AllowDuplicateNames(true)
	if !jsontext.Value(doc).IsValid(lenient) {
		return ""
	}
	var declared struct {
		Protocol jsontext.Value `json:"protocol"`
	}
	if err := json.Unmarshal(doc, &declared, lenient); err != nil {
		return ""
	}
	var protocol struct {
		Version jsontext.Value `json:"version"`
	}
	if err := json.Unmarshal(declared.Protocol, &protocol, lenient); err != nil {
		return ""
	}
	var version string
	if err := json.Unmarshal(protocol.Version, &version); err != nil {
		return ""
	}
	return version
}

// isNewer reports whether a version is one, and too new for this consumer.
func isNewer(version string) bool {
	_, ok := majorOf(version)
	return ok && !CompatibleVersion(version, ConsumerVersion)
}

// documentError is the answer to an invalid document (section 8.3.1).
func documentError(phase Phase, what string, found []Violation) *Error {
	place := found[0].Path
	if place == "" {
		place = "the document"
	}
	message := fmt.Sprintf("Invalid %s document: %s %s", what, place, found[0].Message)
	switch more := len(found) - 1; {
	case more == 1:
		message += " (and 1 more violation)"
	case more > 1:
		message += fmt.Sprintf(" (and %d more violations)", more)
	}
	return &Error{
		Code:     ValidationError,
		Message:  message,
		Phase:    phase,
		Source:   SourceBridge,
		Executed: ExecutedNo,
		Details:  mustMarshal(found),
		Hint:     HintDocument,
	}
}

// unreadable is for documents that are valid but do not fit the types that they
// are read into, which only a mistake in one of the two can cause.
func unreadable(phase Phase, what string, err error) *Error {
	e := documentError(phase, what, []Violation{{Message: clip("can't be read: "+err.Error(), maxMessage)}})
	e.Cause = err
	return e
}
