package document

import (
	"fmt"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Invalid returns the failure of a document with at least one violation (section 8.3.1).
func Invalid(phase run.Phase, what string, found ...run.Violation) *run.Failure {
	place := found[0].Path
	if place == "" {
		place = "the document"
	}
	message := fmt.Sprintf("Invalid %s: %s %s", what, place, found[0].Message)
	switch more := len(found) - 1; {
	case more == 1:
		message += " (and 1 more violation)"
	case more > 1:
		message += fmt.Sprintf(" (and %d more violations)", more)
	}
	return Unusable(phase, message, found...)
}

// InvalidEntry returns the failure of a skill whose entry in an index can't be used.
func InvalidEntry(l *LeftOut) *run.Failure {
	f := Invalid(run.PhaseDiscovery, string(defSkillIndex)+" document", l.Fault)
	f.Cause = run.ErrEntry
	return f
}

// unreadable returns the violation of a document that is valid, but can't be decoded into its Go type.
// Only a mistake in the schema or the type can cause it.
func unreadable(err error) jsonvalue.Violations {
	return jsonvalue.Violations{{Message: safetext.Clip("can't be read: "+err.Error(), jsonvalue.MaxMessage)}}
}

// Unusable returns the failure of a document that can't be used (section 8.3.1).
func Unusable(phase run.Phase, message string, violations ...run.Violation) *run.Failure {
	f := run.NotExecuted(run.InvalidDocument, phase, message)
	f.Violations = violations
	return f
}

// IsDocument reports whether the answers of a phase are documents, which all calls share.
func IsDocument(phase run.Phase) bool {
	return phase == run.PhaseDiscovery || phase == run.PhaseDescriptor
}

// AnswerName returns the name of the answer of a phase, for messages.
func AnswerName(phase run.Phase) string {
	switch phase {
	case run.PhaseDiscovery:
		return "index"
	case run.PhaseDescriptor:
		return "descriptor"
	}
	return "answer"
}
