package demo_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestInvalidRequests(t *testing.T) {
	s := start(t, runTime)
	const caller = `"caller": {"id": "a", "type": "service"}`
	const skill = `"skill_id": "demo/summarize"`
	const inputs = `"inputs": {"text": "x"}`

	tests := map[string]struct {
		body  string
		paths []string
	}{
		"not JSON":              {`{`, []string{""}},
		"an array":              {`[]`, []string{""}},
		"null":                  {`null`, []string{""}},
		"duplicate member":      {`{"inputs": {}, "inputs": {}}`, []string{""}},
		"trailing data":         {`{} {}`, []string{""}},
		"bad UTF-8":             {"{\"caller\": \"\xff\"}", []string{""}},
		"nothing":               {`{}`, []string{""}},
		"wrong case":            {`{"Caller": {}, ` + skill + `, ` + inputs + `}`, []string{""}},
		"caller a string":       {`{"caller": "a", ` + skill + `, ` + inputs + `}`, []string{"/caller"}},
		"caller without id":     {`{"caller": {"type": ""}, ` + skill + `, ` + inputs + `}`, []string{"/caller", "/caller/type"}},
		"credentials a string":  {`{"caller": {"id": "a", "type": "b", "credentials": "c"}, ` + skill + `, ` + inputs + `}`, []string{"/caller/credentials"}},
		"another skill":         {`{` + caller + `, "skill_id": "demo/diff", ` + inputs + `}`, []string{"/skill_id"}},
		"inputs an array":       {`{` + caller + `, ` + skill + `, "inputs": []}`, []string{"/inputs"}},
		"context null":          {`{` + caller + `, ` + skill + `, ` + inputs + `, "context": null}`, []string{"/context"}},
		"unknown priority":      {`{` + caller + `, ` + skill + `, ` + inputs + `, "context": {"priority": "urgent"}}`, []string{"/context/priority"}},
		"trace id a number":     {`{` + caller + `, ` + skill + `, ` + inputs + `, "context": {"trace_id": 1}}`, []string{"/context/trace_id"}},
		"timeout zero":          {`{` + caller + `, ` + skill + `, ` + inputs + `, "context": {"timeout_ms": 0}}`, []string{"/context/timeout_ms"}},
		"timeout a string":      {`{` + caller + `, ` + skill + `, ` + inputs + `, "context": {"timeout_ms": "1"}}`, []string{"/context/timeout_ms"}},
		"required input absent": {`{` + caller + `, ` + skill + `, "inputs": {}}`, []string{"/inputs"}},
		"input empty":           {`{` + caller + `, ` + skill + `, "inputs": {"text": ""}}`, []string{"/inputs/text"}},
		"input of wrong type":   {`{` + caller + `, ` + skill + `, "inputs": {"text": 1, "sentences": "3"}}`, []string{"/inputs/sentences", "/inputs/text"}},
		"number with fraction":  {`{` + caller + `, ` + skill + `, "inputs": {"text": "x", "sentences": 1.5}}`, []string{"/inputs/sentences"}},
		"number too large":      {`{` + caller + `, ` + skill + `, "inputs": {"text": "x", "sentences": 1e999}}`, []string{""}},
		"text too long":         {invocation("summarize", `{"text": "`+strings.Repeat("é", 50_001)+`"}`), []string{"/inputs/text"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.do(http.MethodPost, "/skills/summarize/executions", test.body)
			faults := decodeValue[[]struct {
				Path    string `json:"path"`
				Message string `json:"message"`
			}](t, wantProblem(t, got, http.StatusBadRequest, "VALIDATION_ERROR"))
			paths := make([]string, len(faults))
			for i, f := range faults {
				paths[i] = f.Path
			}
			if !slices.Equal(paths, test.paths) {
				t.Errorf("paths = %q, want %q in %s", paths, test.paths, got.body)
			}
		})
	}
}

func TestValidRequestsWithOptionalMembers(t *testing.T) {
	s := start(t, runTime)
	for _, body := range []string{
		`{"caller": {"id": "a", "type": "ifay", "credentials": {"api_key": "x"}, "more": 1}, "skill_id": "demo/summarize", "inputs": {"text": "x", "unknown": []}, "more": {}}`,
		`{"caller": {"id": "a", "type": "user"}, "skill_id": "demo/summarize", "inputs": {"text": "x", "sentences": 2.0}, "context": {"trace_id": "t", "priority": "high", "timeout_ms": 1e300}}`,
	} {
		if got := s.do(http.MethodPost, "/skills/summarize/executions", body, "Content-Type", "application/json; charset=utf-8"); got.status != http.StatusAccepted {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

func TestOtherErrors(t *testing.T) {
	s := start(t, runTime)
	if got := s.invoke("nothing", `{}`); got.status != http.StatusNotFound {
		t.Errorf("an unknown skill: %d %s", got.status, got.body)
	}
	if got := s.do(http.MethodDelete, indexPath, ""); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("DELETE: %d %v", got.status, got.header)
	}
	wantProblem(t, s.do(http.MethodGet, "/executions/exec-nothing", ""), http.StatusNotFound, "SKILL_NOT_FOUND")
	wantProblem(t, s.do(http.MethodGet, "/executions/exec-nothing/result", ""), http.StatusNotFound, "SKILL_NOT_FOUND")

	wantProblem(t, s.invoke("markdown", `{"markdown": "x"}`, "Content-Type", "text/plain"), http.StatusUnsupportedMediaType, "VALIDATION_ERROR")

	huge := invocation("markdown", `{"markdown": "`+strings.Repeat("x", 1<<20)+`"}`)
	wantProblem(t, s.do(http.MethodPost, "/skills/markdown/executions", huge), http.StatusRequestEntityTooLarge, "VALIDATION_ERROR")
}
