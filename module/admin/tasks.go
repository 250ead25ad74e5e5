package admin

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// taskStates are the states of runs that tasks have.
var taskStates = map[task.State]ledger.State{
	task.Submitted: ledger.Submitting, task.Working: ledger.Working, task.InputRequired: ledger.Waiting, task.AuthRequired: ledger.Waiting,
	task.Completed: ledger.Completed, task.Failed: ledger.Failed, task.Canceled: ledger.Canceled, task.Rejected: ledger.Failed,
}

// addTasks adds the A2A tasks in the memory of the process, which are in no database.
func (a *Runs) addTasks(q *ledger.Query) {
	for _, kept := range fronts.LiveTasks() {
		for _, t := range kept.All(math.MaxInt) {
			e := &ledger.Entry{ID: t.ID, Front: a2a.Name, State: taskStates[t.Status.State], Skill: t.Skill, Ref: t.Ref, Created: t.Created.UTC(), Changed: t.Status.At.UTC()}
			e.Owner.Principal = t.Owner[strings.LastIndexByte(t.Owner, '\n')+1:] // the realm comes first
			a.Kept++
			if !e.State.Ended() {
				a.open(a2a.Name, e.State, 1)
			}
			if q.Operator.Has(e) && (len(q.States) == 0 || slices.Contains(q.States, e.State)) && (len(q.Fronts) == 0 || q.Fronts[0] == a2a.Name) && e.ID < cmp.Or(q.Before, "~") && e.ID >= a.Next {
				a.Runs = append(a.Runs, newRun(e))
			}
		}
	}
	slices.SortFunc(a.Runs, func(a, b Run) int { return strings.Compare(b.ID, a.ID) })
	if len(a.Runs) > q.Limit {
		a.Runs = a.Runs[:q.Limit]
		a.Next = ""
		if q.Limit > 0 {
			a.Next = a.Runs[q.Limit-1].ID
		}
	}
}
