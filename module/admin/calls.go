package admin

import (
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

// Calls is the answer of the admin API about calls in progress.
type Calls struct {
	Total int    `json:"total"`
	Calls []Call `json:"calls"` // at most the 1000 oldest
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

// maxShownCalls is the maximum number of calls in an answer.
const maxShownCalls = 1000

func (adminAPI) calls(*http.Request) Calls {
	list, total := lifetime.Calls().InProgress(maxShownCalls)
	numbers := map[*translate.Bridge]int{}
	for _, b := range observe.Numbered() {
		numbers[b.Bridge] = b.Number
	}
	status := Calls{Total: total, Calls: make([]Call, len(list))}
	for i, c := range list {
		status.Calls[i] = Call{
			Bridge: numbers[c.Bridge], // 0: the call has ended in the meantime
			Method: c.Method, Name: shown(c.Name), Principal: shown(c.Principal), TraceID: c.TraceID, Arrived: c.Arrived.UTC(),
			Namespace: c.Run.Source, SkillID: shown(c.Run.SkillID), ExecutionID: shown(c.Run.ExecutionID),
		}
		if !c.Run.Accepted.IsZero() {
			status.Calls[i].Accepted = new(c.Run.Accepted.UTC())
		}
	}
	return status
}
