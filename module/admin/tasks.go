package admin

import (
	"cmp"
	"context"
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

// Tasks is the answer of the admin API about tasks.
type Tasks struct {
	// Total and States count all tasks in the memory of the process, whatever the query selects.
	Total  int            `json:"total"`
	States map[string]int `json:"states"`
	// FailingWebhooks counts the webhooks that did not take their newest event.
	FailingWebhooks int `json:"failing_webhooks"`
	// StorageFailure is the newest failure of the storage of tasks in the last minute, or that of this request.
	StorageFailure *StorageFailure `json:"storage_failure,omitempty"`
	Tasks          []Task          `json:"tasks"` // the newest 1000 in memory that the query selects, and those that are only in the storage
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
	Event       uint64    `json:"event"` // the number of the newest event that streams and webhooks get
	Context     string    `json:"context"`
	Principal   string    `json:"principal,omitempty"`
	Skill       string    `json:"skill,omitempty"`
	Namespace   string    `json:"namespace,omitempty"`
	SkillID     string    `json:"skill_id,omitempty"`
	ExecutionID string    `json:"execution_id,omitempty"`
	Webhooks    []Webhook `json:"webhooks,omitempty"`
	// StoredOnly says that the task is in the storage, and not in memory. The storage does not tell its principal.
	StoredOnly bool `json:"stored_only,omitempty"`
}

// Webhook is a URL that the events of a task are sent to.
type Webhook struct {
	ID      string `json:"id"`
	Host    string `json:"host"`
	Version string `json:"version"`        // of A2A
	State   string `json:"state"`          // active, failing or given_up
	Sent    uint64 `json:"sent"`           // the number of the newest event that was delivered or given up, as noted when no other one waits and the task does not work
	Lost    int    `json:"lost,omitempty"` // events in a row
}

const (
	// maxShownTasks is the maximum number of tasks in memory in an answer.
	maxShownTasks = 1000
	// maxStoredTasks is the maximum number of tasks in an answer that are only in the storage. Each is read from a file.
	maxStoredTasks = 100
	// storageTime bounds how long they are read.
	storageTime = 20 * time.Second
)

// tasks answers a request about tasks. The query may have an id, a state, a limit, and how many are read that are only in the storage. One with
// an id is looked up there, too.
func (adminAPI) tasks(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return methodError(w, r, http.MethodGet)
	}
	query := r.URL.Query()
	id, state := query.Get("id"), task.State(0)
	if text := query.Get("state"); text != "" {
		if err := state.UnmarshalText([]byte(text)); err != nil {
			return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
		}
	}
	limit, err := number(query, "limit", maxShownTasks, maxShownTasks)
	if err != nil {
		return err
	}
	stored, err := number(query, "stored", 0, maxStoredTasks)
	if err != nil {
		return err
	}
	wanted := func(t *Task) bool { return (id == "" || t.ID == id) && (state == 0 || t.State == state.String()) }
	answer := newTasks(limit, wanted)
	ctx, cancel := context.WithTimeout(r.Context(), storageTime)
	defer cancel()
	if id != "" {
		stored = 0
		if len(answer.Tasks) == 0 {
			answer.find(ctx, id, wanted)
		}
	}
	if stored > 0 {
		answer.addStored(ctx, stored, wanted)
	}
	return writeAdmin(w, answer)
}

// number returns a number of a query, from 0 to most.
func number(query url.Values, name string, otherwise, most int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf("%s is not a number from 0 to %d", name, most)}
	}
	return n, nil
}

// find adds a task that is only in the storage.
func (a *Tasks) find(ctx context.Context, id string, wanted func(*Task) bool) {
	for _, kept := range fronts.LiveTasks() {
		t, err := kept.FindStored(ctx, id)
		if a.add(&kept, t, err, wanted) {
			return
		}
	}
}

// addStored adds the newest tasks that are only in the storage and are wanted, out of a number of the newest ones.
func (a *Tasks) addStored(ctx context.Context, most int, wanted func(*Task) bool) {
	known := map[string]bool{}
	all := fronts.LiveTasks()
	for _, kept := range all {
		for _, t := range kept.All(math.MaxInt) {
			known[t.ID] = true
		}
	}
	before := len(a.Tasks)
	for _, kept := range all { // several can have the same storage
		for t, err := range kept.Stored(ctx, most, func(id string) bool { return !known[id] }) {
			if a.add(&kept, t, err, wanted); t != nil {
				known[t.ID] = true
			}
		}
	}
	slices.SortFunc(a.Tasks[before:], func(a, b Task) int { return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(b.ID, a.ID)) })
	a.Tasks = a.Tasks[:min(len(a.Tasks), before+most)]
}

// add adds a task of the storage, if it is wanted, or the error of reading it.
func (a *Tasks) add(kept *fronts.Live, t *task.Task, err error, wanted func(*Task) bool) bool {
	if err != nil {
		a.StorageFailure = &StorageFailure{time.Now().UTC(), shownError(err.Error())}
	}
	if t == nil {
		return false
	}
	status := newTask(kept, t)
	status.StoredOnly = true
	if !wanted(&status) {
		return false
	}
	a.Tasks = append(a.Tasks, status)
	return true
}

// newTasks returns the tasks in memory that are wanted, those with the newest state first.
func newTasks(limit int, wanted func(*Task) bool) Tasks {
	answer := Tasks{States: map[string]int{}, Tasks: []Task{}}
	var found []Task
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
			if limit == 0 {
				continue
			}
			if status := newTask(&kept, t); wanted(&status) {
				found = append(found, status)
			}
		}
	}
	slices.SortFunc(found, func(a, b Task) int { return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(b.ID, a.ID)) })
	answer.Tasks = append(answer.Tasks, found[:min(limit, len(found))]...)
	return answer
}

func newTask(kept *fronts.Live, t *task.Task) Task {
	status := Task{
		ID: t.ID, State: t.Status.State.String(), Since: t.Status.At.UTC(), Created: t.Created.UTC(), Event: cmp.Or(t.Told, t.Event), Context: shown(t.Context),
		Principal: shown(t.Owner[strings.LastIndexByte(t.Owner, '\n')+1:]), // the realm comes first
		Skill:     shown(t.Skill), Namespace: shown(t.Ref.Source), SkillID: shown(t.Ref.SkillID), ExecutionID: shown(t.Ref.ExecutionID),
	}
	if kept.IsLost(t) {
		status.State = task.Failed.String() // as clients see it
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
