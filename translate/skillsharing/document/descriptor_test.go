package document_test

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func quote(s string) string { return strconv.Quote(s) }

func problem(tb testing.TB, err error) *run.Failure {
	tb.Helper()
	e, ok := errors.AsType[*run.Failure](err)
	if !ok {
		tb.Fatalf("got %v, want an *Error", err)
	}
	return e
}

func TestParseDescriptor(t *testing.T) {
	d, err := document.ParseDescriptor(edited(t, forecast, `/tags=["weather"]`, `/inputs/0/default=null`, `/endpoint/timeout_ms=1500.5`, `/x_new={"b":[1, 2]}`, `/endpoint/x=1`))
	if err != nil {
		t.Fatal(err)
	}
	want := &document.Descriptor{
		Protocol:       document.ProtocolVersion{Version: "1.0.0", ChangelogURL: "https://example.com/changelog"},
		ID:             "acme/forecast",
		Name:           "Forecast",
		Version:        "2.1.0",
		CapabilityType: document.API,
		Description:    "Tells the weather.",
		Provider:       document.Provider{Name: "Acme Weather", URL: "https://acme.example", Contact: "ops@acme.example"},
		Endpoint: document.Endpoint{
			URL: "https://api.acme.example/forecast", Method: "POST", ContentType: "application/json",
			StatusURL: "https://api.acme.example/status/{execution_id}", ResultURL: "https://api.acme.example/result/{execution_id}",
			TimeoutMS: 1500.5,
		},
		Inputs: []document.Parameter{
			{Name: "location", Type: "string", Description: "A city.", Required: true, Default: jsontext.Value("null")},
			{Name: "days", Type: "number", Description: "How many.", Default: jsontext.Value("7")},
		},
		Output: document.Output{ContentType: "application/json"},
		Auth:   document.Auth{Type: document.AuthNone},
		Access: document.Public,
		Tags:   []string{"weather"},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got  %+v\nwant %+v", d, want)
	}
}

func TestParseDescriptorJudgesTheVersionFirst(t *testing.T) {
	for _, c := range []struct {
		name, doc, version string // no version: VALIDATION_ERROR
	}{
		{"newer", string(edited(t, forecast, `/protocol/version="2.0.0"`)), "2.0.0"},
		{"newer and otherwise invalid", string(edited(t, forecast, `/protocol/version="2.0.0"`, `/capability_type="agent"`, `/endpoint=null`)), "2.0.0"},
		{"nothing but a version", `{"protocol":{"version":"3.1.4"}}`, "3.1.4"},
		{"a member twice", `{"a":1,"a":2,"protocol":{"version":"2.0.0"}}`, "2.0.0"},
		{"after a byte order mark", "\ufeff" + `{"protocol":{"version":"2.0.0"}}`, "2.0.0"},
		{"pre-release", `{"protocol":{"version":"2.0.0-alpha"}}`, "2.0.0-alpha"},
		{"beyond 64 bits", `{"protocol":{"version":"18446744073709551617.0.0"}}`, "18446744073709551617.0.0"},
		{"escaped", `{"protocol":{"version":"\u0032.0.0"}}`, "2.0.0"},
		{"no SemVer", string(edited(t, forecast, `/protocol/version="2.0"`)), ""},
		{"v", string(edited(t, forecast, `/protocol/version="v2.0.0"`)), ""},
		{"empty", string(edited(t, forecast, `/protocol/version=""`)), ""},
		{"a word", string(edited(t, forecast, `/protocol/version="abc"`)), ""},
		{"a number", string(edited(t, forecast, `/protocol/version=2`)), ""},
		{"not in an object", `{"protocol":"2.0.0"}`, ""},
		{"in another case", `{"Protocol":{"version":"2.0.0"}}`, ""},
		{"in an array", `[{"protocol":{"version":"2.0.0"}}]`, ""},
		{"cut off", `{"protocol":{"version":"2.0.0"},`, ""},
		{"the same MAJOR", string(edited(t, forecast, `/protocol/version="1.9.0"`, `-/id`)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := document.ParseDescriptor([]byte(c.doc))
			e := problem(t, err)
			if e.Phase != run.PhaseDescriptor || e.By != run.Bridge || e.Executed != run.ExecutedNo {
				t.Errorf("got %+v", e)
			}
			if c.version == "" {
				if e.Kind != run.InvalidDocument {
					t.Errorf("got %v", e)
				}
				return
			}
			want := `{"descriptor_version":"` + c.version + `","consumer_version":"1.0.0","supported_major":1,"supported_range":">=0.0.0 <2.0.0"}`
			if e.Kind != run.VersionIncompatible || string(front.Details(e)) != want {
				t.Errorf("got %v, details %s", e, front.Details(e))
			}
			if want := "Protocol version " + c.version + " is not compatible with consumer version 1.0.0"; e.Message != want {
				t.Errorf("message %q, want %q", e.Message, want)
			}
		})
	}
	if _, err := document.ParseDescriptor(edited(t, forecast, `/protocol/version="0.3.0"`)); err != nil {
		t.Errorf("older MAJOR: %v", err)
	}
}

func TestParseErrorListsTheViolations(t *testing.T) {
	_, err := document.ParseDescriptor(edited(t, forecast, `/access="x"`, `-/name`, `-/id`))
	e := problem(t, err)
	if want := "Invalid SkillDescriptor document: /access must be equal to one of the allowed values (and 2 more violations)"; e.Message != want {
		t.Errorf("message %q, want %q", e.Message, want)
	}
	if want := `[{"path":"/access","message":"must be equal to one of the allowed values","expected":["public","restricted","private"],"actual":"x"},` +
		`{"path":"/id","message":"is required","expected":"required","actual":"missing"},{"path":"/name","message":"is required","expected":"required","actual":"missing"}]`; string(front.Details(e)) != want {
		t.Errorf("details %s, want %s", front.Details(e), want)
	}

	_, err = document.ParseDescriptor([]byte("<html>"))
	if e := problem(t, err); !strings.HasPrefix(e.Message, "Invalid SkillDescriptor document: the document is not JSON: ") {
		t.Errorf("message %q", e.Message)
	}
}
