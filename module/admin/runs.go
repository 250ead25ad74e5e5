package admin

import (
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

// Runs is the answer of the admin API about calls in progress.
type Runs struct {
	Total int    `json:"total"`
	Runs  []Call `json:"runs"` // at most the 1000 oldest
}

// Call is a call in progress.
type Call struct {
	Bridge      int        `json:"bridge"`
	Method      string     `json:"method"`
	Name        string     `json:"name"`
	Principal   string     `json:"principal,omitempty"`
	TraceID     string     `json:"trace_id"`
	Arrived     time.Time  `json:"arrived"`
	Namespace   string     `json:"namespace,omitempty"`
	SkillID     string     `json:"skill_id,omitempty"`
	ExecutionID string     `json:"execution_id,omitempty"` // once a run was accepted
	Accepted    *time.Time `json:"accepted,omitempty"`
}

// maxShownRuns is the maximum number of calls in an answer.
const maxShownRuns = 1000

func (adminAPI) runs(*http.Request) any {
	list, total := lifetime.Calls().InProgress(maxShownRuns)
	numbers := map[*translate.Bridge]int{}
	for _, b := range observe.Numbered() {
		numbers[b.Bridge] = b.Number
	}
	status := Runs{Total: total, Runs: make([]Call, len(list))}
	for i, c := range list {
		status.Runs[i] = Call{
			Bridge: numbers[c.Bridge], // 0: the call has ended in the meantime
			Method: c.Method, Name: shown(c.Name), Principal: shown(c.Principal), TraceID: c.TraceID, Arrived: c.Arrived.UTC(),
			Namespace: c.Run.Source, SkillID: shown(c.Run.SkillID), ExecutionID: shown(c.Run.ExecutionID),
		}
		if !c.Run.Accepted.IsZero() {
			status.Runs[i].Accepted = new(c.Run.Accepted.UTC())
		}
	}
	return status
}
