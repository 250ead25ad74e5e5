package catalog

import (
	"fmt"
	"net/http"
	"net/url"
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
		l := &Listed{Section: new(Section), ID: fmt.Sprintf("acme/%04d-%s", n, strings.Repeat("x", 200))}
		f.note(l, &run.Failure{
			Kind: run.PermissionDenied, Message: strings.Repeat("no ", 1000), HTTPStatus: http.StatusForbidden,
			Provider: &run.ProviderError{Details: jsontext.Value(`"` + strings.Repeat("b", 900) + `"`)},
		})
	}
	if known := f.order.Len(); known < 300 || known == skills || known != len(f.known) || f.size > maxFaults {
		t.Errorf("%d faults in %d bytes", known, f.size)
	}
	f.prune(&nameTable{}, nil)
	if known := f.order.Len(); known+f.size != 0 {
		t.Errorf("%d faults in %d bytes of skills that are gone", known, f.size)
	}
}

// A failure of a run of an earlier skill of a descriptor is not stored for the skill that the
// descriptor has now.
func TestFaultsOfRuns(t *testing.T) {
	c := catalogOf(t, &indexProvider{namespace: "forecast"})
	s := c.sections[0]
	s.Kind, s.URL = SkillSource, &url.URL{Scheme: "https", Host: "forecast.example", Path: "/d"}
	for n := range 10 {
		l, failure := c.ByRef(t.Context(), run.Ref{Source: "forecast", SkillID: fmt.Sprintf("acme/old%d", n)})
		if failure != nil {
			t.Fatal(failure)
		}
		if _, failure = c.Read(t.Context(), l, ""); failure == nil || !IsSkillFault(failure) {
			t.Fatalf("%v", failure)
		}
	}
	if known := s.Faults.order.Len(); known != 0 {
		t.Errorf("%d faults", known)
	}
}
