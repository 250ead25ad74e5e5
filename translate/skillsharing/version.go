package skillsharing

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// CompatibleVersion reports whether a consumer of protocol version consumer can
// use a document of version document: whether the MAJOR number of the document
// is not the greater one (section 6.3), of whatever size the two are. Anything
// but a SemVer version is compatible with nothing.
func CompatibleVersion(document, consumer string) bool {
	d, ok := majorOf(document)
	if !ok {
		return false
	}
	c, ok := majorOf(consumer)
	return ok && compareDecimal(d, c) <= 0
}

// majorOf returns the digits of the MAJOR number of a version, if the version
// is one as of Semantic Versioning 2.0.0.
func majorOf(version string) (string, bool) {
	version, build, hasBuild := strings.Cut(version, "+")
	core, pre, hasPre := strings.Cut(version, "-")
	numbers := strings.Split(core, ".")
	if len(numbers) != 3 {
		return "", false
	}
	for _, n := range numbers {
		if !isDecimal(n) || hasLeadingZero(n) {
			return "", false
		}
	}
	if hasPre {
		for id := range strings.SplitSeq(pre, ".") {
			if !isVersionIdentifier(id) || isDecimal(id) && hasLeadingZero(id) {
				return "", false
			}
		}
	}
	if hasBuild {
		for id := range strings.SplitSeq(build, ".") {
			if !isVersionIdentifier(id) {
				return "", false
			}
		}
	}
	return numbers[0], true
}

func isDecimal(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func hasLeadingZero(s string) bool { return len(s) > 1 && s[0] == '0' }

func isVersionIdentifier(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// compareDecimal compares two numbers without leading zeros.
func compareDecimal(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// versionError is the answer to a document of a newer MAJOR (section 8.3.7).
func versionError(document string) *run.Failure {
	document = clip(document, maxActual)
	return &run.Failure{
		Kind:     run.VersionIncompatible,
		Message:  fmt.Sprintf("Protocol version %s is not compatible with consumer version %s", document, ConsumerVersion),
		Phase:    run.PhaseDescriptor,
		By:       run.Bridge,
		Executed: run.ExecutedNo,
		Violations: []run.Violation{{
			Path: "/protocol/version", Message: "must be one that this consumer can use",
			Expected: quoted(fmt.Sprintf(">=0.0.0 <%d.0.0", ConsumerMajor+1)), Actual: quoted(document),
		}},
	}
}
