package publish

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// A Skill is published: an operation of an API, or a descriptor that was written by hand. It is immutable.
type Skill struct {
	ID     string
	Access document.AccessPolicy
	Type   document.CapabilityType
	// Operation is what an invocation becomes; nil: the descriptor was written by hand, and its endpoint is elsewhere.
	Operation *Operation
	// Inputs checks the arguments of invocations; nil if Operation is nil.
	Inputs *inputs.Inputs

	entry    document.IndexEntry // without the URL of the descriptor
	endpoint document.Endpoint   // without URLs
	// before and after are the descriptor around the endpoint. All is in before if it was written by hand.
	before, after jsontext.Value
}

// Entry returns the entry in the index. base is where the skills are served, such as https://api.example.com/skill-sharing.
func (s *Skill) Entry(base string) document.IndexEntry {
	entry := s.entry
	entry.DescriptorURL = s.at(base) + ".json"
	return entry
}

// Descriptor returns the descriptor as JSON. The endpoint of an operation is the skill's id below base.
func (s *Skill) Descriptor(base string) []byte {
	if s.Operation == nil {
		return s.before
	}
	endpoint := s.endpoint
	endpoint.URL, endpoint.StatusURL = s.at(base), base+"/runs/{execution_id}"
	return slices.Concat(s.before, jsonvalue.Marshal(endpoint), s.after)
}

// at returns the URL of the skill.
func (s *Skill) at(base string) string {
	return base + (&url.URL{Path: "/" + s.ID}).EscapedPath()
}

// origin stands for where a skill is served when its descriptor is validated.
const origin = "https://skills.invalid/skill-sharing"

// newSkill returns the skill of an operation with a descriptor, if the reader of bridges takes it. The schema of the output is left out if it
// does not without.
func newSkill(d *document.Descriptor, operation *Operation) (*Skill, error) {
	s := &Skill{ID: d.ID, Access: d.Access, Type: d.CapabilityType, Operation: operation, endpoint: d.Endpoint, entry: entryOf(d)}
	output := d.Output.Schema
	if value, flaw := jsonvalue.Read(output, schema.ArgumentBounds); output != nil {
		d.Output.Schema = nil
		if flaw == nil {
			if _, flaws := inputs.New(&document.Standard, []document.Parameter{{Name: "output", Schema: output}}, []any{value}); flaws == nil {
				d.Output.Schema = output
			}
		}
	}
	for {
		text := jsonvalue.Marshal(d)
		mark := jsonvalue.Marshal(d.Endpoint)
		before, after, _ := bytes.Cut(text, slices.Concat([]byte(`"endpoint":`), mark))
		s.before, s.after = slices.Concat(before, []byte(`"endpoint":`)), after
		_, err := document.Standard.ReadDescriptor(s.Descriptor(origin), func(params []document.Parameter, schemas []any) (found jsonvalue.Violations) {
			s.Inputs, found = inputs.New(&document.Standard, params, schemas)
			return found
		})
		switch {
		case err == nil:
			return s, nil
		case d.Output.Schema == nil:
			return nil, invalid(err)
		}
		d.Output.Schema = nil
	}
}

// invalid returns the error of a descriptor that can't be read.
func invalid(err error) error {
	if failure, ok := errors.AsType[*run.Failure](err); ok && len(failure.Violations) > 0 {
		err = errors.New(failure.Violations[0].Path + " " + failure.Violations[0].Message)
	}
	return fmt.Errorf("bridges don't take its descriptor: %w", err)
}

func entryOf(d *document.Descriptor) document.IndexEntry {
	return document.IndexEntry{ID: d.ID, Name: d.Name, CapabilityType: d.CapabilityType, Description: d.Description, Access: d.Access, Version: d.Version}
}
