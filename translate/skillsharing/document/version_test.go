package document_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// A document of a newer MAJOR version is refused, and only that.
func TestIsNewer(t *testing.T) {
	for version, want := range map[string]bool{
		"0.9.0": false, "1.0.0": false, "1.2.3": false, "1.18446744073709551617.0": false, "1.0.0-rc.1": false,
		"2.0.0": true, "2.0.0-alpha": true, "9.9.9": true, "10.0.0": true, "18446744073709551617.0.0": true,
		"": false, "2": false, "2.0": false, "two": false, "02.0.0": false, "v2.0.0": false,
	} {
		if got := document.IsNewer(version); got != want {
			t.Errorf("%q is newer: %t", version, got)
		}
	}
}

// The same strings must be versions to the code and to the schema.
func TestVersionGrammar(t *testing.T) {
	versions := map[string]bool{
		"0.0.0": true, "1.2.3": true, "1.0.0-alpha": true, "1.0.0-alpha.1": true, "1.0.0-0.3.7": true, "1.0.0-x-y-z.--": true,
		"1.0.0+001": true, "1.0.0-beta+exp.sha.5114f85": true, "1.0.0+21AF26D3----117B344092BD": true, "1.0.0-0A.is.legal": true, "99999999999999999999999.0.0": true,
		"1.0.0--1": true, "1.0.0+a-b": true,

		"": false, "1": false, "1.2": false, "1.2.3.4": false, "v1.2.3": false, "01.2.3": false, "1.02.3": false, "1.2.03": false, "1..3": false, "1.2.": false,
		"1.2.3-": false, "1.2.3-01": false, "1.2.3-a..b": false, "1.2.3+": false, "1.2.3+a+b": false, "1.2.3+a..b": false, "1.2.3-ä": false, "1.2.3 ": false,
		"-1.2.3": false, "+1.2.3": false, "1.2.x": false, "１.2.3": false, "1.2.3\n": false,
	}
	for version, want := range versions {
		if got := document.IsVersion(version); got != want {
			t.Errorf("code: %q is a version: %t", version, got)
		}
		if got := document.Validate("SkillDescriptor", edited(t, forecast, "/version="+quote(version))) == nil; got != want {
			t.Errorf("schema: %q is a version: %t", version, got)
		}
	}
}
