package catalog

import (
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// State says whether a call of a skill can succeed, as far as it is known without asking the provider.
type State string

// The states.
const (
	Available        State = "available"
	NeedsCredentials State = "needs_credentials" //nolint:gosec // needs credentials that this bridge does not have, may not use there, or that the provider has refused
	Incompatible     State = "incompatible"      // it needs a newer version of the protocol
	Invalid          State = "invalid"           // its descriptor breaks the protocol
	Unreachable      State = "unreachable"       // its descriptor can't be read at the moment
	Unknown          State = "unknown"           // its descriptor was not read yet
)

// StateOf returns the state of a skill by the failure of reading its descriptor or of using it; nil: it is available.
func StateOf(f *run.Failure) State {
	if f == nil {
		return Available
	}
	switch f.Kind {
	case run.AuthRequired, run.PermissionDenied:
		return NeedsCredentials
	case run.InvalidDocument, run.SkillNotFound:
		return Invalid
	case run.VersionIncompatible:
		return Incompatible
	}
	return Unreachable
}

// State returns the state of the skill, and since when it is known; a zero time: it is not known since when.
func (s *SkillStatus) State() (State, time.Time) {
	switch {
	case s.Fault != nil:
		return StateOf(s.Fault), s.Since
	case s.Cached:
		return Available, s.Since
	}
	return Unknown, time.Time{}
}

// Status returns what is known about the skill. It reads nothing from its source.
func (e *Entry) Status(ctx context.Context) SkillStatus {
	if e.listed == nil {
		return SkillStatus{}
	}
	return e.listed.Status(ctx)
}

// Status is [Entry.Status].
func (l *Listed) Status(ctx context.Context) SkillStatus {
	return l.Section.catalog.status(ctx, l, SkillStatus{Name: l.Name, ID: l.ID})
}

// ToolName returns the name for language models, also if the entry is not from a page or a search; empty: the skill has none.
func (e *Entry) ToolName(ctx context.Context) string {
	if e.Tool != "" || e.listed == nil {
		return e.Tool
	}
	return e.listed.Tool(ctx)
}

// NoteCall remembers the failure of a call because of its credential, and forgets it with a nil failure: a call was accepted.
// Other failures change nothing.
func (f *Found) NoteCall(failure *run.Failure) {
	if failure == nil || failure.Kind == run.AuthRequired && failure.Next() == run.NextAskOperator {
		f.Section.refusals.note(f.Listed, failure)
	}
}
