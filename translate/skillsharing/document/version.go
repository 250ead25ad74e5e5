package document

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// compatibleVersion reports whether a consumer of protocol version consumer can use a document of version
// document: whether the MAJOR number of the document is not greater (section 6.3). The numbers may be of
// any size, which the libraries for versions do not allow. A text that is not a version (Semantic
// Versioning 2.0.0) is not compatible.
func compatibleVersion(document, consumer string) bool {
	d, ok := majorOf(document)
	if !ok {
		return false
	}
	c, ok := majorOf(consumer)
	return ok && compareDecimal(d, c) <= 0
}

// majorOf returns the digits of the MAJOR number of a version, if the text is a
// version of Semantic Versioning 2.0.0. Its numbers may be of any size.
func majorOf(text string) (string, bool) {
	major, _, _ := strings.Cut(text, ".")
	pattern := schemas()[defProtocolVersion].Properties["version"].Ref.Pattern.(version)
	return major, pattern.Regexp.MatchString(text)
}

// compareDecimal compares two numbers without leading zeros.
func compareDecimal(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// versionError returns the failure of a document of a newer MAJOR version (section 8.3.7).
func versionError(document string) *run.Failure {
	document = safetext.Clip(document, jsonvalue.MaxActual)
	return &run.Failure{
		Kind:     run.VersionIncompatible,
		Message:  fmt.Sprintf("Protocol version %s is not compatible with consumer version %s", document, ConsumerVersion),
		Phase:    run.PhaseDescriptor,
		By:       run.Bridge,
		Executed: run.ExecutedNo,
		Violations: []run.Violation{{
			Path: "/protocol/version", Message: "must be one that this consumer can use",
			Expected: jsonvalue.Quoted(fmt.Sprintf(">=0.0.0 <%d.0.0", ConsumerMajor+1)), Actual: jsonvalue.Quoted(document),
		}},
	}
}

// declaredVersion returns protocol.version of a JSON document, even if the
// document is invalid; empty: there is none.
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

// isNewer reports whether a text is a version that is too new for this consumer.
func isNewer(version string) bool {
	_, ok := majorOf(version)
	return ok && !compatibleVersion(version, ConsumerVersion)
}
