package cli

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli/lint"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// Kind is the kind of a document.
type Kind string

// The kinds of documents (Skill Sharing Protocol, sections 3 and 4.3.2).
const (
	Index      Kind = "index"
	Descriptor Kind = "descriptor"
	SiteIndex  Kind = "index of Agent Skills" // of a site that publishes them
)

// validation is the result of validating a document.
type validation struct {
	Valid    bool    `json:"valid"`
	Kind     Kind    `json:"kind"`
	Faults   []fault `json:"faults"`
	Warnings []fault `json:"warnings,omitzero"`
	// More says that there may be further faults.
	More bool `json:"more,omitzero"`
	// Descriptors are those that the index lists, in its order, if they were read.
	Descriptors []listedDescriptor `json:"descriptors,omitzero"`
}

// listedDescriptor is the result of validating a descriptor that an index lists.
type listedDescriptor struct {
	ID       string  `json:"id"`
	URL      string  `json:"url"`
	Valid    bool    `json:"valid"`
	Faults   []fault `json:"faults"`
	Warnings []fault `json:"warnings,omitzero"`
	// Error says why the descriptor could not be read.
	Error string `json:"error,omitzero"`
}

// Validator validates documents.
type Validator struct {
	// Kind of the document; empty: it is recognized.
	Kind Kind
	// Strict lets warnings count as faults.
	Strict bool
	// URL is where the document was read; empty: from a file.
	URL string
	// Allowed is what there are no warnings about.
	Allowed lint.Allowed
	// Fetch reads the descriptors that an index lists; nil: they are not read.
	Fetch func(ctx context.Context, url string) ([]byte, http.Header, error)
}

// maxFaults is the maximum number of faults of a document that are reported.
const maxFaults = 50

// ValidateFile validates a file, or standard input for "-", and returns the exit status.
func (s *Screen) ValidateFile(ctx context.Context, name string, v Validator) int {
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
	return s.Validate(ctx, document, nil, v)
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
	accepted := document.Bytes(largest)
	document, err := io.ReadAll(io.LimitReader(file, largest+1))
	if err == nil && int64(len(document)) > largest {
		err = fmt.Errorf("the document is larger than the %s that are accepted", accepted)
	}
	return document, err
}

// Validate validates a document by the rules of the bridge, writes its faults and warnings, and returns the
// exit status. The header is the response's; nil: the document was read from a file.
func (s *Screen) Validate(ctx context.Context, document []byte, header http.Header, by Validator) int {
	v := by.validate(ctx, document, header)
	if ctx.Err() != nil {
		return s.Interrupted()
	}
	s.Show(v, func() { fmt.Fprint(s.Out, v.text()) })
	return Verdict(v.Valid)
}

// text describes the result for people.
func (v *validation) text() string {
	var b strings.Builder
	if len(v.Faults) == 0 {
		fmt.Fprintf(&b, "valid %s\n", v.Kind)
	} else {
		fmt.Fprintf(&b, "invalid %s: %s\n%s", v.Kind, counted(len(v.Faults), "fault"), faultLines(v.Faults))
	}
	if v.More {
		fmt.Fprintf(&b, "  and perhaps more: only %d are shown; correct these and validate again\n", maxFaults)
	}
	if len(v.Warnings) > 0 {
		fmt.Fprintf(&b, "%s\n%s", counted(len(v.Warnings), "warning"), faultLines(v.Warnings))
	}
	good := 0
	for i := range v.Descriptors {
		d := &v.Descriptors[i]
		if d.Valid {
			good++
		}
		switch {
		case d.Error != "":
			fmt.Fprintf(&b, "%s can't be read: %s\n  %s\n", printable(d.ID), printable(d.Error), printable(d.URL))
		case len(d.Faults) > 0:
			fmt.Fprintf(&b, "%s is invalid: %s\n  %s\n%s", printable(d.ID), counted(len(d.Faults), "fault"), printable(d.URL), faultLines(d.Faults))
		}
		if len(d.Warnings) > 0 {
			fmt.Fprintf(&b, "%s has %s\n%s", printable(d.ID), counted(len(d.Warnings), "warning"), faultLines(d.Warnings))
		}
	}
	if len(v.Descriptors) > 0 {
		fmt.Fprintf(&b, "%d of %s valid\n", good, counted(len(v.Descriptors), "descriptor"))
	}
	return b.String()
}

// counted returns a number with a noun.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// validate validates a document, and the descriptors that it lists.
func (by *Validator) validate(ctx context.Context, text []byte, header http.Header) validation {
	kind := by.Kind
	if kind == "" {
		kind = kindOf(text)
		if skillsite.IsIndex(text, by.URL) {
			kind = SiteIndex
		}
	}
	v := validation{Kind: kind}
	var index *document.Index
	switch kind {
	case Index:
		index, v.Faults, v.Warnings = by.index(text, header)
	case SiteIndex:
		found, faults, unknown := skillsite.Inspect(text, by.URL)
		index, v.Faults, v.Warnings = found, faultsWith(faults, skillsite.MeaningOf), faultsWith(unknown, skillsite.MeaningOf)
	default:
		_, v.Faults, v.Warnings = by.descriptor(ctx, text, header)
	}
	v.More = len(v.Faults) >= maxFaults
	v.Valid = len(v.Faults) == 0 && (!by.Strict || len(v.Warnings) == 0)
	if index == nil || by.Fetch == nil {
		return v
	}
	read := by.listed
	if kind == SiteIndex {
		read = by.artifact
	}
	v.Descriptors = by.follow(ctx, index, read)
	v.Valid = v.Valid && !slices.ContainsFunc(v.Descriptors, func(d listedDescriptor) bool { return !d.Valid })
	return v
}

// fetchedAtOnce is how many descriptors are read at a time.
const fetchedAtOnce = 8

// follow validates the descriptors, or files, that an index lists.
func (by *Validator) follow(ctx context.Context, index *document.Index, read func(context.Context, *document.IndexEntry, *listedDescriptor) error) []listedDescriptor {
	all := make([]listedDescriptor, len(index.Skills))
	var g errgroup.Group
	g.SetLimit(fetchedAtOnce)
	for i := range index.Skills {
		g.Go(func() error {
			e, l := &index.Skills[i], &all[i]
			*l = listedDescriptor{ID: e.ID, URL: e.DescriptorURL}
			if ctx.Err() != nil {
				return nil
			}
			if err := read(ctx, e, l); err != nil {
				l.Error = err.Error()
				if f, ok := errors.AsType[*run.Failure](err); ok {
					l.Error = f.OperatorText()
				}
			}
			l.Valid = l.Error == "" && len(l.Faults) == 0 && (!by.Strict || len(l.Warnings) == 0)
			return nil
		})
	}
	_ = g.Wait() // there are no errors
	return all
}

// listed validates the descriptor of an entry of an index.
func (by *Validator) listed(ctx context.Context, e *document.IndexEntry, l *listedDescriptor) error {
	text, header, err := by.Fetch(ctx, l.URL)
	if err != nil {
		return err
	}
	var skill *discovery.Skill
	if skill, l.Faults, l.Warnings = by.descriptor(ctx, text, header); skill == nil {
		return nil
	}
	if skill.ID != e.ID {
		l.Faults = append(l.Faults, differs("/id", "differs from the id in the index, so that the skill can't be called", e.ID, skill.ID))
	}
	for _, m := range []struct{ path, here, there string }{
		{"/version", skill.Version, e.Version},
		{"/access", string(skill.Access), string(e.Access)},
		{"/capability_type", string(skill.CapabilityType), string(e.CapabilityType)},
	} {
		if m.here != m.there {
			l.Warnings = append(l.Warnings, differs(m.path, "differs from the index", m.there, m.here))
		}
	}
	return nil
}

// artifact validates the file of a skill in an index of Agent Skills.
func (by *Validator) artifact(ctx context.Context, e *document.IndexEntry, l *listedDescriptor) error {
	l.URL = skillsite.URLOf(e)
	text, _, err := by.Fetch(ctx, l.URL)
	if err == nil {
		l.Faults = faultsWith(skillsite.InspectArtifact(e, text), nil)
	}
	return err
}

// differs returns the fault of a descriptor that has another value than the index.
func differs(path, message, there, here string) fault {
	return fault{Violation: run.Violation{Path: path, Message: message, Expected: jsonvalue.Quoted(there), Actual: jsonvalue.Quoted(here)}}
}

// index returns the index if it is valid, its faults, and what is probably a mistake.
func (by *Validator) index(text []byte, header http.Header) (*document.Index, []fault, []fault) {
	found := mediaFaults(run.PhaseDiscovery, header)
	index, err := document.ParseIndex(text)
	if f, ok := errors.AsType[*run.Failure](err); ok {
		return nil, append(found, faultsOf(f)...), faultsWith(lint.Index(text, nil, by.Allowed), nil)
	}
	for i := range index.Skills {
		id := index.Skills[i].ID
		if why := document.UnlistedID(id); why != "" && len(found) < maxFaults {
			v := run.Violation{Path: fmt.Sprintf("/skills/%d/id", i), Message: "bridges don't list the skill: " + why, Actual: jsonvalue.Shown(id)}
			found = append(found, faultsWith([]run.Violation{v}, document.MeaningInIndex)...)
		}
	}
	return index, found, faultsWith(lint.Index(text, index, by.Allowed), nil)
}

// descriptor is index for a descriptor.
func (by *Validator) descriptor(ctx context.Context, text []byte, header http.Header) (*discovery.Skill, []fault, []fault) {
	found := mediaFaults(run.PhaseDescriptor, header)
	skill, err := discovery.NewSkill(text, nil)
	if f, ok := errors.AsType[*run.Failure](err); ok {
		skill, found = nil, append(found, faultsOf(f)...)
	}
	return skill, found, faultsWith(lint.Descriptor(ctx, text, skill, by.Allowed), nil)
}

// mediaFaults returns the faults of the header of a document; none for that of a file, which is nil.
func mediaFaults(phase run.Phase, header http.Header) []fault {
	if header == nil {
		return nil
	}
	if f := discovery.CheckMediaType(phase, header); f != nil {
		return faultsOf(f)
	}
	return nil
}

// kindOf returns Index for a document with the member skills, else Descriptor.
func kindOf(text []byte) Kind {
	decoder := jsontext.NewDecoder(bytes.NewReader(document.WithoutBOM(text)), jsontext.AllowDuplicateNames(true))
	if t, err := decoder.ReadToken(); err != nil || t.Kind() != '{' {
		return Descriptor
	}
	kind := Descriptor
	for err := error(nil); err == nil && decoder.PeekKind() == '"'; err = decoder.SkipValue() {
		name, _ := decoder.ReadToken()
		switch name.String() {
		case "skills":
			kind = Index
		case "endpoint", "inputs":
			return Descriptor
		}
	}
	return kind
}

// The documents of a minimal provider with one skill.
var (
	//go:embed example.index.json
	exampleIndex string
	//go:embed example.descriptor.json
	exampleDescriptor string
)

// Examples are what replaces parts of the documents of a minimal provider, by the kind of the example.
var Examples = map[string]*strings.Replacer{
	"": strings.NewReplacer(),
	"async": strings.NewReplacer(`"method": "POST"}`, `"method": "POST", "timeout_ms": 600000,
    "status_url": "https://skills.example.com/runs/{execution_id}", "result_url": "https://skills.example.com/runs/{execution_id}/result"}`),
	"api_key": strings.NewReplacer(`"public"`, `"restricted"`,
		`{"type": "none"}`, `{"type": "api_key", "header": "X-API-Key", "description": "Create a key at https://skills.example.com/keys."}`),
	"oauth2": strings.NewReplacer(`"public"`, `"restricted"`, `{"type": "none"}`, `{"type": "oauth2", "description": "Log in with your account.", "oauth2": {
    "authorization_url": "https://auth.example.com/authorize", "token_url": "https://auth.example.com/token",
    "scopes": {"text:write": "Write texts"}}}`),
}

// Example writes a minimal index and the descriptor that it lists, and says on standard error where they belong.
func (s *Screen) Example(of *strings.Replacer) int {
	s.note("The index, for https://skills.example.com/.well-known/skill-sharing, and the descriptor, for https://skills.example.com/shout.json, as application/json:")
	fmt.Fprint(s.Out, of.Replace(exampleIndex+exampleDescriptor))
	return OK
}
