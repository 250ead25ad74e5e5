package translate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// priorityOf returns the priority of an execution for which an agent has asked for one; empty: it has not. The highest is the operator's; empty: normal.
func priorityOf(asked string, highestAllowed skillsharing.Priority) (skillsharing.Priority, *run.Failure) {
	all := skillsharing.Priorities
	highest := slices.Index(all, cmp.Or(highestAllowed, skillsharing.PriorityNormal))
	if asked == "" {
		return all[min(highest, slices.Index(all, skillsharing.PriorityNormal))], nil
	}
	i := slices.Index(all, asked)
	if 0 <= i && i <= highest {
		return all[i], nil
	}
	reason := run.WrongSchema
	if i > highest {
		reason = run.OverLimit
	}
	allowed := all[:highest+1]
	return "", run.WrongArgument(run.Argument{Field: run.FieldOther, Name: "priority", Reason: reason, Candidates: allowed},
		"The priority "+safetext.Field(asked, maxPriority)+" is none of those that callers of this bridge may ask for: "+strings.Join(allowed, ", ")+".")
}

// maxPriority bounds a priority in a message, in bytes.
const maxPriority = 20
