package faults

import (
	"fmt"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// NotFound returns the failure for an unknown name. unread names the sources that could not be
// searched.
func NotFound(name string, candidates []string, unread []string) *run.Failure {
	name = shorten(name)
	message := fmt.Sprintf("skill '%s' not found.", name)
	if len(candidates) > 0 {
		message += fmt.Sprintf(" Did you mean %s?", enumerate(candidates))
	}
	f := run.NotExecuted(run.SkillNotFound, run.PhaseDiscovery, message+notSearched(unread))
	f.Argument = &run.Argument{Field: run.FieldSkill, Reason: run.NotFound, Value: name, Candidates: candidates, Unread: unread}
	return f
}

// Ambiguous returns the failure for a name that several skills match, or that has no namespace
// although there are several sources. unread names those that could not be searched.
func Ambiguous(name string, candidates, unread []string) *run.Failure {
	name = shorten(name)
	f := run.NotExecuted(run.InvalidArguments, run.PhaseDiscovery, fmt.Sprintf("'%s' does not say which skill is meant; say %s.", name, enumerate(candidates))+notSearched(unread))
	f.Argument = &run.Argument{Field: run.FieldSkill, Reason: run.Ambiguous, Candidates: candidates, Unread: unread}
	return f
}

// notSearched returns a sentence, after a space, about sources that could not be searched, or nothing if there are none.
func notSearched(unread []string) string {
	if len(unread) == 0 {
		return ""
	}
	return fmt.Sprintf(" (Not searched, because they can't be read at the moment: %s.)", enumerate(unread))
}

// maxQuotedName bounds an unknown name in a message, in bytes.
const maxQuotedName = 200

func shorten(name string) string { return safetext.Field(name, maxQuotedName) }

// enumerate joins names for a sentence: 'a', 'b' or 'c'.
func enumerate(names []string) string {
	list := "'" + strings.Join(names, "', '") + "'"
	if i := strings.LastIndex(list, "', '"); i >= 0 {
		list = list[:i] + "' or '" + list[i+len("', '"):]
	}
	return list
}
