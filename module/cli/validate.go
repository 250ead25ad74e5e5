package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Kind is that of a document.
type Kind string

// The kinds of documents (Skill Sharing Protocol, sections 3 and 4.3.2).
const (
	Index      Kind = "index"
	Descriptor Kind = "descriptor"
)

// Verdict says whether a document is valid, and if not, why.
type Verdict struct {
	Valid  bool            `json:"valid"`
	Kind   Kind            `json:"kind"`
	Faults []run.Violation `json:"faults"`
	// More tells that there may be further faults.
	More bool `json:"more,omitzero"`
}

// maxFaults is how many faults of one document are written.
const maxFaults = 50

// Judge validates a document as the bridge does before it uses one. The header is
// what it was served with; nil if it was not.
func Judge(document []byte, kind Kind, header http.Header) Verdict {
	if kind == "" {
		kind = kindOf(document)
	}
	v := Verdict{Kind: kind}
	check := skillsharing.CheckDescriptorType
	if kind == Index {
		check = skillsharing.CheckIndexType
	}
	if header != nil {
		if e := check(header); e != nil {
			v.Faults = append(v.Faults, Faults(e)...)
		}
	}
	var err error
	if kind == Index {
		_, err = skillsharing.ParseIndex(document)
	} else {
		_, err = skillsharing.NewSkill(document, nil)
	}
	if e, ok := errors.AsType[*run.Failure](err); ok {
		v.Faults = append(v.Faults, Faults(e)...)
	}
	v.Valid, v.More = err == nil && len(v.Faults) == 0, len(v.Faults) >= maxFaults
	return v
}

// kindOf tells an index by its skills, of which a descriptor has none.
func kindOf(document []byte) Kind {
	decoder := jsontext.NewDecoder(bytes.NewReader(bytes.TrimPrefix(document, []byte("\ufeff"))), jsontext.AllowDuplicateNames(true))
	if t, err := decoder.ReadToken(); err != nil || t.Kind() != '{' {
		return Descriptor
	}
	kind := Descriptor
	for {
		name, err := decoder.ReadToken()
		if err != nil || name.Kind() != '"' {
			return kind
		}
		switch name.String() {
		case "skills":
			kind = Index
		case "endpoint", "inputs":
			return Descriptor
		}
		if decoder.SkipValue() != nil {
			return kind
		}
	}
}

// Faults are the violations that an error tells of; none if it is about something
// else.
func Faults(e *run.Failure) []run.Violation {
	faults := slices.Clone(e.Violations)
	for i := range faults {
		switch {
		case e.Kind == run.VersionIncompatible:
			faults[i].Message = e.Message
		case faults[i].Message == emptyDocument:
			faults[i].Message = "is empty"
		}
	}
	return faults
}

// Tell writes a verdict and returns the exit status.
func (s *Screen) Tell(v Verdict, asJSON bool) int {
	status := OK
	if !v.Valid {
		status = Invalid
	}
	switch {
	case asJSON:
		s.JSON(v)
	case v.Valid:
		fmt.Fprintf(s.Out, "valid %s\n", v.Kind)
	default:
		plural := "s"
		if len(v.Faults) == 1 {
			plural = ""
		}
		fmt.Fprintf(s.Out, "invalid %s: %d fault%s\n%s", v.Kind, len(v.Faults), plural, faultLines(v.Faults))
		if v.More {
			fmt.Fprintf(s.Out, "  and perhaps more: after %d it stops; correct these and validate again\n", maxFaults)
		}
	}
	return status
}

// Unread says why there is nothing to judge or to show, and returns the exit status.
func (s *Screen) Unread(err error, next string, asJSON bool) int {
	s.Complain("%v", err)
	if next != "" {
		s.Advise(next)
	}
	if asJSON {
		s.JSON(failedOutcome{&wholeError{Message: err.Error()}})
	}
	return ProtocolError
}

// faultLines are for people.
func faultLines(faults []run.Violation) string {
	var b strings.Builder
	for _, f := range faults {
		path := f.Path
		if path == "" {
			path = "the document"
		}
		fmt.Fprintf(&b, "  %s: %s\n", printable(path), printable(f.Message))
		if f.Expected != nil {
			fmt.Fprintf(&b, "      expected: %s\n", printable(string(f.Expected)))
		}
		if f.Actual != nil {
			fmt.Fprintf(&b, "      actual:   %s\n", printable(string(f.Actual)))
		}
	}
	return b.String()
}
