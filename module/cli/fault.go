package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// fault is a violation of the rules for documents, or a warning, with the meaning of the member.
type fault struct {
	run.Violation
	// About says what the member is for.
	About string `json:"about,omitzero"`
	// Example is a valid value.
	Example jsontext.Value `json:"example,omitzero"`
}

// faultsOf returns the violations of a document, with the meanings of its members.
func faultsOf(f *run.Failure) []fault {
	found := slices.Clone(f.Violations)
	if f.Kind == run.VersionIncompatible {
		for i := range found {
			found[i].Message = f.Message // these violations have no message
		}
	}
	switch f.Phase {
	case run.PhaseDiscovery:
		return faultsWith(found, document.MeaningInIndex)
	case run.PhaseDescriptor:
		return faultsWith(found, document.MeaningInDescriptor)
	}
	return faultsWith(found, nil)
}

// faultsWith returns the first violations with the meanings of their members; meaning may be nil.
func faultsWith(found []run.Violation, meaning func(pointer string) document.Meaning) (list []fault) {
	for _, v := range found[:min(len(found), maxFaults)] {
		f := fault{Violation: v}
		if meaning != nil {
			m := meaning(v.Path)
			f.About, f.Example = m.About, m.Example
		}
		list = append(list, f)
	}
	return list
}

// faultLines formats faults for people.
func faultLines(faults []fault) string {
	var b strings.Builder
	for i := range faults {
		f := &faults[i]
		path := cmp.Or(f.Path, "the document")
		if string(f.Actual) == `"missing"` && string(f.Expected) == `"required"` && f.About != "" {
			fmt.Fprintf(&b, "  %s is missing: %s, for example %s\n", printable(path), clause(f.About), f.Example)
			continue
		}
		fmt.Fprintf(&b, "  %s: %s\n", printable(path), printable(f.Message))
		if f.About != "" && f.Path != "" {
			fmt.Fprintf(&b, "      about:    %s, for example %s\n", clause(f.About), f.Example)
		}
		if f.Expected != nil {
			fmt.Fprintf(&b, "      expected: %s\n", printable(string(f.Expected)))
		}
		if f.Actual != nil {
			fmt.Fprintf(&b, "      actual:   %s\n", printable(string(f.Actual)))
		}
	}
	return b.String()
}

// clause returns a sentence as a part of another one.
func clause(sentence string) string {
	first, size := utf8.DecodeRuneInString(sentence)
	return string(unicode.ToLower(first)) + strings.TrimSuffix(sentence[size:], ".")
}

// wholeError is a failure as JSON. Unknown members are left out.
type wholeError struct {
	Code       document.ErrorCode `json:"code,omitzero"`
	Message    string             `json:"message"`
	Phase      run.Phase          `json:"phase,omitzero"`
	Source     run.Party          `json:"source,omitzero"`
	HTTPStatus int                `json:"http_status,omitzero"`
	Executed   run.Executed       `json:"executed,omitzero"`
	Next       run.Next           `json:"next,omitzero"`
	Details    jsontext.Value     `json:"details,omitzero"`
	Retry      jsontext.Value     `json:"retry,omitzero"`
	URL        string             `json:"url,omitzero"`
}

func newWholeError(f *run.Failure) *wholeError {
	return &wholeError{
		document.CodeOf(f), f.OperatorMessage(), f.Phase, f.By, f.HTTPStatus, f.Executed, f.Next(), front.Details(f), front.Retry(f), f.URL,
	}
}

// failedOutcome is the JSON result of a command that failed.
type failedOutcome struct {
	Error *wholeError `json:"error"`
}
