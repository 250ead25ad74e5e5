package document

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

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
	f := Unusable(run.PhaseDescriptor, fmt.Sprintf("Protocol version %s is not compatible with consumer version %s", document, ConsumerVersion), run.Violation{
		Path: "/protocol/version", Message: "must be one that this consumer can use",
		Expected: jsonvalue.Quoted(fmt.Sprintf(">=0.0.0 <%d.0.0", ConsumerMajor+1)), Actual: jsonvalue.Quoted(document),
	})
	f.Kind = run.VersionIncompatible
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
