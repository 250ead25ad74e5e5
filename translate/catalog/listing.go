package catalog

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// Entry is a skill as its source lists it. Entries can be compared: two that are equal describe the same skill with the
// same documents.
type Entry struct {
	Name string // for calls
	// Tool is the name for language models: at most 64 letters, digits, hyphens and underscores. It is unique, and a
	// name for calls, too. Only pages and results of searches have it. Empty: there is none, or the skill has none.
	Tool           string
	Title          string // for people
	Namespace      string
	Version        string
	Description    string
	CapabilityType document.CapabilityType
	Access         document.AccessPolicy
	// Hidden says that lists for anonymous callers do not have the skill.
	Hidden bool
	// Connects says that calls ask the user of the principal to connect an account first. It belongs to the principal.
	Connects bool
	// Descriptor is set by [ReadDescriptors]; nil: it was not read, or can't be read.
	Descriptor *document.Descriptor
	Files      *skillsite.Files // of a skill that can only be read, with the Descriptor; only SKILL.md has its content

	listed *Listed
	skill  *discovery.Skill // with the Descriptor; nil: the skill can only be read
}

// OutputSchema returns the JSON Schema of the output; nil: the descriptor was not read, or has none that the bridge can apply.
func (e *Entry) OutputSchema() jsontext.Value { return e.skill.OutputSchema() }

// Document returns the descriptor as published; nil: it was not read, or the skill can only be read.
func (e *Entry) Document() jsontext.Value {
	if e.skill == nil {
		return nil
	}
	return e.skill.Document
}

// Own returns the name without an alias. It is a name for calls, too, and no other skill of the source has it.
func (e *Entry) Own() string { return cmp.Or(e.listed.plain, e.Name) }

// Section returns the source that lists the skill.
func (e *Entry) Section() *Section { return e.listed.Section }

// Unavailable is a source of skills that could not be read.
type Unavailable struct {
	Namespace string
	Failure   *run.Failure
}
