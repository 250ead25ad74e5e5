package catalog

import (
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// State says whether a call of a skill can succeed, or the skill can be read, as far as it is known without asking the provider.
type State string

// The states.
const (
	Available        State = "available"
	Readable         State = "readable"          // it is instructions to read, and can't be called
	NeedsConsent     State = "needs_consent"     // its calls ask the user of the principal to connect an account first
	NeedsCredentials State = "needs_credentials" //nolint:gosec // needs credentials that this bridge does not have, may not use there, or that the provider has refused
	Incompatible     State = "incompatible"      // it needs a newer version of the protocol
	Unsupported      State = "unsupported"       // it follows the protocol, but asks for what the bridge can't send
	Invalid          State = "invalid"           // its descriptor breaks the protocol
	Unreachable      State = "unreachable"       // its descriptor can't be read at the moment
	Unknown          State = "unknown"           // its descriptor was not read yet
)

// StateOf returns the state of a skill by its descriptor, which may be nil, and the failure of reading or using it; nil: there is none.
func StateOf(skill *discovery.Skill, f *run.Failure) State {
	switch {
	case f == nil && skill != nil && skill.Files != nil:
		return Readable
	case f == nil:
		return Available
	case f.Next() == run.NextConnect:
		return NeedsConsent
	}
	switch f.Kind {
	case run.AuthRequired, run.PermissionDenied:
		return NeedsCredentials
	case run.InvalidDocument:
		return Invalid
	case run.VersionIncompatible:
		return Incompatible
	case run.NotSupported:
		return Unsupported
	}
	return Unreachable
}

// State returns the state of the skill, and since when it is known; a zero time: it is not known since when.
func (s *SkillStatus) State() (State, time.Time) {
	if s.Fault != nil || s.Cached {
		return StateOf(s.Skill, s.Fault), s.Since
	}
	return Unknown, time.Time{}
}

// Status returns what is known about the skill for a principal. It reads nothing from its source.
func (e *Entry) Status(ctx context.Context, principal string) SkillStatus {
	if e.listed == nil {
		return SkillStatus{}
	}
	return e.Section().catalog.status(ctx, e.listed, principal, SkillStatus{Name: e.Name, ID: e.listed.ID})
}

// FaultSince returns since when the descriptor can't be read or used; zero: it is not known.
func (l *Listed) FaultSince() time.Time {
	_, since := l.Section.Faults.Get(l.ID)
	return since
}

// Broken reports whether it is known that no call of the skill can succeed, for any caller: its descriptor could not be used a short time ago.
func (e *Entry) Broken() bool {
	if e.listed == nil || e.listed.Section.Faults.Empty() {
		return false
	}
	f, _ := e.listed.Section.Faults.Recent(e.listed.ID, brokenTTL)
	return f != nil && IsOfDescriptor(f)
}

// brokenTTL is how long a descriptor that could not be used decides about its skill. Lists of skills that work read it again only if they have
// descriptors.
const brokenTTL = 5 * time.Minute

// Usable reports whether calls of the principal can succeed, as far as is known. The Descriptor of the entry must have been read.
func (e *Entry) Usable(ctx context.Context, principal string) bool {
	if e.skill == nil {
		return false
	}
	denied, _ := e.listed.denied(ctx, e.skill, principal)
	return denied == nil
}

// NoteConsent sets which of some skills ask the user of a principal to connect an account first, as far as is known. It reads nothing from their sources.
func (c *Catalog) NoteConsent(ctx context.Context, skills []Entry, principal string) {
	for i := range skills {
		e := &skills[i]
		if s := e.listed.Section; c.Personal && (s.Kind == RegistrySource || s.isPersonal()) {
			status := e.Status(ctx, principal)
			state, _ := status.State()
			e.Connects = state == NeedsConsent
		}
	}
}

// Condition returns the state of the skill for a principal, since when it is known, and the failure of calls because of the credential, if it is
// known. The descriptor was read, so that it is not unknown.
func (f *Found) Condition(ctx context.Context, principal string) (state State, since time.Time, denied *run.Failure) {
	status := f.Section.catalog.status(ctx, f.Listed, principal, SkillStatus{Name: f.Name, ID: f.ID})
	if status.Cached {
		since = status.Since
	}
	denied, refused := f.Listed.denied(ctx, f.Skill, principal)
	if !refused.IsZero() {
		since = refused
	}
	return StateOf(f.Skill, denied), since, denied
}

// ToolName returns the name for a principal's language models, also if the entry is not from a page or a search; empty: the skill has none.
func (e *Entry) ToolName(ctx context.Context, principal string) string {
	if e.Tool != "" || e.listed == nil {
		return e.Tool
	}
	return e.listed.Tool(ctx, principal)
}

// KnownTool returns the tool name of a skill of the source that the principal may see, by one of its names; empty: there is none, or the source's
// list was not read.
func (s *Section) KnownTool(ctx context.Context, name, principal string) string {
	v := s.catalog.viewer(principal)
	if !s.admits(v) {
		return ""
	}
	if s.Kind == SkillSource && s.Namespace == name {
		return s.direct.Tool(ctx, principal)
	}
	if t := s.table.Load(); t != nil {
		if e := t.byName[name]; e != nil && v.lists(t, e) {
			return e.Tool(ctx, principal)
		}
	}
	return ""
}

// refusalTTL is how long a refused call decides the state of a skill: the credential may have been replaced since, and what is not listed as usable
// is not called.
const refusalTTL = 5 * time.Minute

// anyone stands for all principals, in the status for the operator.
const anyone = "\x01"

// separator is between the id of a skill and a principal.
const separator = 0

// refusedBy is the id under which a refused call of a principal is noted. Others are not affected: a call may be refused because of its arguments.
func refusedBy(id, principal string) string { return id + string(rune(separator)) + principal }

// NoteCall remembers the failure of a call of a principal because of its credential, and forgets it with a nil failure: a call was accepted. If the
// provider has refused the credential, that is so for all skills that need it, until a call of one of them is accepted. Other failures change
// nothing, and neither do calls of skills without authentication. Credentials of which each principal has its own say nothing about others.
func (f *Found) NoteCall(principal string, failure *run.Failure) {
	_, personal := f.Invoker.Credentials.(credential.Personal)
	switch {
	case f.Skill.Auth.Type == document.AuthNone:
		return
	case failure == nil:
		if !f.Section.refusals.Empty() { // not empty is rare
			f.Section.refusals.Note(refusedBy(f.ID, principal), nil)
			f.Section.refusals.Note(refusedBy(f.ID, anyone), nil)
		}
		if !f.Invoker.refused.Empty() {
			f.Invoker.refused.Prune(func(id string) bool { return personal && id != refusedBy("", principal) })
		}
		return
	case failure.Kind != run.AuthRequired || failure.Next() != run.NextAskOperator:
		return
	case failure.By == run.Provider:
		ofAll := *failure
		ofAll.Ref = run.Ref{}
		f.Invoker.refused.Note(refusedBy("", principal), &ofAll)
		if !personal {
			f.Invoker.refused.Note(refusedBy("", anyone), &ofAll)
		}
		return
	}
	f.Section.refusals.Note(refusedBy(f.ID, principal), failure)
	f.Section.refusals.Note(refusedBy(f.ID, anyone), failure)
}
