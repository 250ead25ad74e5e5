package admin

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

// Tasks is the answer of the admin API about tasks in the memory of the process.
type Tasks struct {
	// Total and States count all tasks, whatever the query selects.
	Total  int            `json:"total"`
	States map[string]int `json:"states"`
	// FailingWebhooks counts the webhooks that did not take their newest event.
	FailingWebhooks int `json:"failing_webhooks"`
	// StorageFailure is the newest failure of the storage of tasks in the last minute.
	StorageFailure *StorageFailure `json:"storage_failure,omitempty"`
	Tasks          []Task          `json:"tasks"` // the newest 1000 that the query selects
}

// StorageFailure says why tasks can't be stored.
type StorageFailure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// Task is one task, without its messages, inputs and output.
type Task struct {
	ID          string    `json:"id"`
	State       string    `json:"state"`
	Since       time.Time `json:"since"`
	Created     time.Time `json:"created"`
	Event       uint64    `json:"event"` // the number of its newest event
	Context     string    `json:"context"`
	Principal   string    `json:"principal,omitempty"`
	Skill       string    `json:"skill,omitempty"`
	Namespace   string    `json:"namespace,omitempty"`
	SkillID     string    `json:"skill_id,omitempty"`
	ExecutionID string    `json:"execution_id,omitempty"`
	Webhooks    []Webhook `json:"webhooks,omitempty"`
}

// Webhook is a URL that the events of a task are sent to.
type Webhook struct {
	ID      string `json:"id"`
	Host    string `json:"host"`
	Version string `json:"version"`        // of A2A
	State   string `json:"state"`          // active, failing or given_up
	Sent    uint64 `json:"sent"`           // the number of the newest event that was delivered or given up
	Lost    int    `json:"lost,omitempty"` // events in a row
}

// maxShownTasks is the maximum number of tasks in an answer.
const maxShownTasks = 1000

// tasks answers a request about tasks. The query may have an id, a state and a limit.
func (adminAPI) tasks(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return methodError(w, r, http.MethodGet)
	}
	query := r.URL.Query()
	id, state, limit := query.Get("id"), task.State(0), maxShownTasks
	if text := query.Get("state"); text != "" {
		if err := state.UnmarshalText([]byte(text)); err != nil {
			return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
		}
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxShownTasks {
			return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf("limit is not a number from 0 to %d", maxShownTasks)}
		}
		limit = n
	}
	return writeAdmin(w, newTasks(limit, func(t *task.Task) bool {
		return (id == "" || t.ID == id) && (state == 0 || t.Status.State == state)
	}))
}

// newTasks returns the tasks in memory that are wanted, those with the newest state first.
func newTasks(limit int, wanted func(*task.Task) bool) Tasks {
	answer := Tasks{States: map[string]int{}, Tasks: []Task{}}
	var found []*task.Task
	for _, kept := range fronts.LiveTasks() {
		if t := kept.Trouble(); t != nil && (answer.StorageFailure == nil || t.At.After(answer.StorageFailure.At)) {
			answer.StorageFailure = &StorageFailure{t.At.UTC(), shownError(t.Err.Error())}
		}
		for _, t := range kept.All(math.MaxInt) {
			answer.Total++
			answer.States[t.Status.State.String()]++
			for i := range t.Push {
				if t.Push[i].Lost > 0 {
					answer.FailingWebhooks++
				}
			}
			if wanted(t) {
				found = append(found, t)
			}
		}
	}
	slices.SortFunc(found, func(a, b *task.Task) int { return cmp.Or(b.Status.At.Compare(a.Status.At), cmp.Compare(b.ID, a.ID)) })
	for _, t := range found[:min(limit, len(found))] {
		answer.Tasks = append(answer.Tasks, newTask(t))
	}
	return answer
}

func newTask(t *task.Task) Task {
	status := Task{
		ID: t.ID, State: t.Status.State.String(), Since: t.Status.At.UTC(), Created: t.Created.UTC(), Event: t.Event, Context: shown(t.Context),
		Principal: shown(t.Owner[strings.LastIndexByte(t.Owner, '\n')+1:]), // the realm comes first
		Skill:     shown(t.Skill), Namespace: shown(t.Ref.Source), SkillID: shown(t.Ref.SkillID), ExecutionID: shown(t.Ref.ExecutionID),
	}
	for i := range t.Push {
		p := &t.Push[i]
		hook := Webhook{ID: shown(p.ID), Version: p.Version, State: "active", Sent: p.Sent, Lost: p.Lost}
		if u, err := url.Parse(p.URL); err == nil {
			hook.Host = shown(u.Host)
		}
		switch {
		case p.Lost >= task.MaxLost:
			hook.State = "given_up"
		case p.Lost > 0:
			hook.State = "failing"
		}
		status.Webhooks = append(status.Webhooks, hook)
	}
	return status
}
