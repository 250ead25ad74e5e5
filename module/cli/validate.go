package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Kind is the kind of a document.
type Kind string

// The kinds of documents (Skill Sharing Protocol, sections 3 and 4.3.2).
const (
	Index      Kind = "index"
	Descriptor Kind = "descriptor"
)

// validation is the result of validating a document.
type validation struct {
	Valid  bool            `json:"valid"`
	Kind   Kind            `json:"kind"`
	Faults []run.Violation `json:"faults"`
	// More says that there may be further faults.
	More bool `json:"more,omitzero"`
}

// maxFaults is the maximum number of faults of a document that are reported.
const maxFaults = 50

// ValidateFile validates a file, or standard input for "-", and returns the exit status.
func (s *Screen) ValidateFile(ctx context.Context, name string, kind Kind) int {
	// Opening or reading a pipe may block forever, and no context interrupts it.
	finished := context.AfterFunc(ctx, func() { os.Exit(s.Interrupted()) })
	document, err := readFile(name)
	finished()
	failed, ok := errors.AsType[*fs.PathError](err)
	switch {
	case ok && failed.Op == "open":
		return s.Fail(err, "check the name of the file; a URL begins with https://")
	case err != nil:
		return s.Fail(err, "")
	}
	return s.Validate(document, kind, nil)
}

// readFile reads a file, or standard input for "-". It fails if the file exceeds the size limit
// of documents.
func readFile(name string) ([]byte, error) {
	file := os.Stdin
	if name != "-" {
		var err error
		if file, err = os.Open(name); err != nil {
			return nil, err
		}
		defer file.Close()
	}
	largest := document.DefaultLimits().DocumentSize
	document, err := io.ReadAll(io.LimitReader(file, largest+1))
	if err == nil && int64(len(document)) > largest {
		err = fmt.Errorf("the document is larger than the %d bytes that are accepted", largest)
	}
	return document, err
}

// Validate validates a document by the rules of the bridge, writes its faults, and returns the
// exit status. The header is the response's; nil: the document was read from a file.
func (s *Screen) Validate(document []byte, kind Kind, header http.Header) int {
	v := validate(document, kind, header)
	switch {
	case s.AsJSON:
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
			fmt.Fprintf(s.Out, "  and perhaps more: only %d are shown; correct these and validate again\n", maxFaults)
		}
	}
	if v.Valid {
		return OK
	}
	return Invalid
}

func validate(document []byte, kind Kind, header http.Header) validation {
	if kind == "" {
		kind = kindOf(document)
	}
	v := validation{Kind: kind}
	checkType, parse := discovery.CheckDescriptorType, parseDescriptor
	if kind == Index {
		checkType, parse = discovery.CheckIndexType, parseIndex
	}
	if header != nil {
		if f := checkType(header); f != nil {
			v.Faults = faults(f)
		}
	}
	err := parse(document)
	if f, ok := errors.AsType[*run.Failure](err); ok {
		v.Faults = append(v.Faults, faults(f)...)
	}
	v.Valid, v.More = err == nil && len(v.Faults) == 0, len(v.Faults) >= maxFaults
	return v
}

func parseIndex(text []byte) error {
	_, err := document.ParseIndex(text)
	return err
}

func parseDescriptor(text []byte) error {
	_, err := discovery.NewSkill(text, nil)
	return err
}

// kindOf returns Index for a document with the member skills, else Descriptor.
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

// faults returns the violations of a document.
func faults(f *run.Failure) []run.Violation {
	if f.Kind != run.VersionIncompatible {
		return f.Violations
	}
	list := slices.Clone(f.Violations)
	for i := range list {
		list[i].Message = f.Message // these violations have no message
	}
	return list
}

// faultLines formats violations for people.
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
