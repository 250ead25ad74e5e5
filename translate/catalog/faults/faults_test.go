package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// The memory of Faults is bounded for any number and size of failures. The failures of skills that
// are not listed any more are removed.
func TestFaultsTakeBoundedMemory(t *testing.T) {
	var f Faults
	const skills = 3000
	for n := range skills {
		f.Note(fmt.Sprintf("acme/%04d-%s", n, strings.Repeat("x", 200)), &run.Failure{
			Kind: run.PermissionDenied, Message: strings.Repeat("no ", 1000), HTTPStatus: http.StatusForbidden,
			Provider: &run.ProviderError{Details: jsontext.Value(`"` + strings.Repeat("b", 900) + `"`)},
		})
	}
	if known := len(f.known); known < 300 || known == skills || f.known[fmt.Sprintf("acme/%04d-%s", skills-1, strings.Repeat("x", 200))] == nil || f.size > maxFaults {
		t.Errorf("%d faults in %d bytes", known, f.size)
	}
	f.Prune(func(string) bool { return false })
	if known := len(f.known); known+f.size != 0 {
		t.Errorf("%d faults in %d bytes of skills that are gone", known, f.size)
	}
}
