// Package task has the tasks of the A2A front: their messages, states, events and sizes, how they are stored in entries of the ledger, and how they are read
// and changed by the states of their runs. It uses neither JSON-RPC nor the versions of A2A.
//
// A [Task] is one version of a task. It is immutable once it is shared. [Change] makes the next version and numbers it.
package task

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Task is a run of a skill as A2A shows it, from the first message to its artifacts: a view of an entry of the ledger. Its JSON are the notes of
// the entry. Tasks share slices and pointers with earlier ones of the same id, so nothing that they point to is changed.
type Task struct {
	// Entry is the version of the entry that the task was read from; nil: it was not written yet.
	Entry *ledger.Entry `json:"-"`
	// ID is a UUID of version 7 (RFC 9562), that of the entry.
	ID string `json:"-"`
	// Name is the id that a client of A2A 0.1 has chosen; empty: the task was made by a later version.
	Name string `json:"name,omitzero"`
	// Owner is whose task it is.
	Owner ledger.Owner `json:"-"`
	// Context is the id of the conversation that the task belongs to.
	Context string `json:"context"`
	// Skill is the name of the skill; empty: the client has not chosen one yet.
	Skill string `json:"-"`
	// Inputs are the inputs so far: a JSON object, or nil.
	Inputs jsontext.Value `json:"inputs,omitzero"`
	// Ref has the source, id and version of the skill once they are known, and identifies the run once it is accepted.
	Ref run.Ref `json:"-"`
	// OutputType is the media type of the skill's output, once it is known.
	OutputType string `json:"output_type,omitzero"`
	Wishes
	// Deadline is the time at which the run has to end, by the clock of the database; zero: no run was submitted, or it has no timeout.
	Deadline time.Time `json:"deadline,omitzero"`

	Status Status `json:"status"`
	// History are the client's messages and the status messages that were superseded, in order.
	History []Message `json:"history,omitempty"`
	// Artifact is the output; nil: there is none, or not yet.
	Artifact *Artifact `json:"-"`
	// Warnings say what was wrong with the provider's newest answer, and how it was read nevertheless.
	Warnings []string `json:"warnings,omitempty"`
	// Pushed says that webhooks were set for the task.
	Pushed bool `json:"pushed,omitzero"`
	// Event is the number of the newest event, from 1. Events are the statuses and the artifact, which subscribers and webhooks get.
	Event uint64 `json:"event"`
	// News are the events of the newest version of the entry, which are the last ones. A message that is added to the history is none.
	News []Event `json:"news,omitempty"`

	heard bool // this version adds a message of the client
}

// Wishes are what a client asks of an execution.
type Wishes struct {
	// Timeout is in milliseconds; 0: the client has set none.
	Timeout int64 `json:"timeout_ms,omitzero"`
	// Priority is empty if the client has asked for none.
	Priority string `json:"priority,omitzero"`
}

// Status is a state of a task, with the time since when, and a message of the bridge about it.
type Status struct {
	State   State     `json:"state"`
	At      time.Time `json:"at"`
	Message *Message  `json:"message,omitzero"` // nil: none
}

// Message is a message of the client or of the bridge.
type Message struct {
	ID   string `json:"id,omitzero"`
	Role Role   `json:"role"`
	// Parts has at least one part, except for messages that the bridge has read from a damaged entry.
	Parts []Part `json:"parts"`
	// Metadata is an object as it was sent; nil: none.
	Metadata   jsontext.Value `json:"metadata,omitzero"`
	Extensions []string       `json:"extensions,omitempty"`
	// References are the ids of tasks that the message refers to.
	References []string `json:"references,omitempty"`
}

// Part is a piece of a message or of an artifact.
type Part struct {
	front.Part
	// Metadata is an object as it was sent; nil: none.
	Metadata jsontext.Value `json:"metadata,omitzero"`
}

// Artifact is the output of a task.
type Artifact struct {
	Parts []Part `json:"parts"`
}

// Role is the author of a message.
type Role uint8

// The roles.
const (
	User  Role = iota + 1 // the client
	Agent                 // the bridge
)

// SetStatus gives a task that is being made or changed a new status. The message of the old status moves to the history.
func (t *Task) SetStatus(s State, m *Message, at time.Time) {
	if old := t.Status.Message; old != nil {
		t.History = append(slices.Clip(t.History), *old)
	}
	t.Status = Status{State: s, At: at.UTC().Truncate(time.Millisecond), Message: m}
	t.addEvent(false)
}

// SetArtifact gives a task that is being changed its output.
func (t *Task) SetArtifact(parts []Part) {
	t.Artifact = &Artifact{Parts: parts}
	t.addEvent(true)
}

// Undo gives a task that is being changed what an earlier version has.
func (t *Task) Undo(to *Task) {
	own := *to
	own.Entry, own.Event, own.News = t.Entry, t.Event, nil
	*t = own
	t.addEvent(false)
}

// Ended reports whether no event follows.
func (t *Task) Ended() bool { return t.Status.State.Terminal() }

// Settled reports whether no event follows unless the client or the operator acts.
func (t *Task) Settled() bool { return t.Status.State.Settled() && t.ConnectURL() == "" }

// ConnectURL returns where the user can connect the account that the task waits for: it goes on by itself then. Empty: it waits for none.
func (t *Task) ConnectURL() string {
	m := t.Status.Message
	if t.Status.State != AuthRequired || m == nil || len(m.Parts) == 0 {
		return ""
	}
	var said struct {
		Next    run.Next `json:"next"`
		Details struct {
			ConnectURL string `json:"connect_url"`
		} `json:"details"`
	}
	if json.Unmarshal(m.Parts[len(m.Parts)-1].Data, &said, notesOptions) != nil || said.Next != run.NextConnect {
		return ""
	}
	return said.Details.ConnectURL
}

// AddMessage adds a message to the history, which is not an event. One of the client must leave place for those of the bridge.
func (t *Task) AddMessage(m Message) {
	t.heard = t.heard || m.Role == User
	t.History = append(slices.Clip(t.History), m)
}

// State is the state of a task (A2A 1.0, section 4.1.3). Its number is stored.
type State uint8

// The states.
const (
	Submitted     State = iota + 1 // the provider has not accepted the run yet
	Working                        // the provider has accepted the run
	InputRequired                  // the client has to send a further message, with inputs
	AuthRequired                   // the operator has to add or correct a credential, or the user to connect an account
	Completed
	Failed
	Canceled
	Rejected // this bridge can't run the skill
)

// stateNames are the names of the states in logs and metrics, which are those of A2A 0.3.
var stateNames = [...]string{"", "submitted", "working", "input-required", "auth-required", "completed", "failed", "canceled", "rejected"}

// Terminal reports whether the task has ended, so that no event follows.
func (s State) Terminal() bool { return s >= Completed }

// Open reports whether the task has a run that may go on.
func (s State) Open() bool { return s == Submitted || s == Working }

// Interrupted reports whether the task waits for the client or the operator.
func (s State) Interrupted() bool { return s == InputRequired || s == AuthRequired }

// Settled reports whether a client that waits for the task gets its answer: it has ended, or waits for the client or the operator.
func (s State) Settled() bool { return s.Terminal() || s.Interrupted() }

// String implements [fmt.Stringer] with the name in logs and metrics.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return ""
}

// Event is a new status of a task, or its artifact, as the notes of a version say it: by what is in the task anyway.
type Event struct {
	// Version is that of the entry. What else changes an entry, such as another instance that follows it, leaves the notes.
	Version int64 `json:"version,omitzero"`
	// State and At are those of the task after the event.
	State State     `json:"state"`
	At    time.Time `json:"at"`
	// History is the number of messages in the history.
	History int `json:"history"`
	// Says says that the status had a message, which is the next one of the history now, unless it is the current status.
	Says bool `json:"says,omitzero"`
	// Artifact says that the event is the artifact.
	Artifact bool `json:"artifact,omitzero"`
}

// Update is one event of a task: a new status, or its artifact.
type Update struct {
	// Number is the number of the event, from 1; the first event is the task itself.
	Number uint64
	// Task is the task after the event.
	Task *Task
	// Artifact says that the event is the task's artifact; else it is its status.
	Artifact bool
}

// addEvent notes that the status or the artifact has changed.
func (t *Task) addEvent(isArtifact bool) {
	if t.News == nil && t.Event > 0 {
		t.News = make([]Event, 0, 3) // a run that ends at once is accepted, has an output and is completed
	}
	t.News = append(t.News, Event{0, t.Status.State, t.Status.At, len(t.History), t.Status.Message != nil, isArtifact})
}

// number numbers the events of a new version of the entry.
func (t *Task) number(version int64) {
	for i := range t.News {
		t.News[i].Version = version
	}
	if t.Event += uint64(len(t.News)); version == 1 && t.Ended() { // no client knows of the task yet; with them, SQLite would need a further page for it
		t.News = nil
	}
}

// Before is the number of the newest event before the News.
func (t *Task) Before() uint64 { return t.Event - uint64(len(t.News)) }

// Updates returns the events with greater numbers than one. If versions between were not read, it returns the whole state instead: the artifact, if
// there is one, and the status.
func (t *Task) Updates(after uint64) []Update {
	if after >= t.Event {
		return nil
	}
	news, first := t.News, t.Before()
	if missed := len(news) == 0 || after < first; missed {
		news = nil
		if t.Artifact != nil {
			news = append(news, Event{State: t.Status.State, At: t.Status.At, History: len(t.History), Artifact: true})
		}
		news = append(news, Event{State: t.Status.State, At: t.Status.At, History: len(t.History), Says: t.Status.Message != nil})
		first = t.Event - uint64(len(news))
		after = first
	}
	list := make([]Update, 0, len(news))
	artifact := slices.IndexFunc(news, func(e Event) bool { return e.Artifact })
	for i, e := range news {
		u := Update{Number: first + uint64(i) + 1, Task: t, Artifact: e.Artifact}
		if u.Number <= after {
			continue
		}
		if i < len(news)-1 {
			u.Task = t.at(e, u.Number, i >= artifact)
		}
		list = append(list, u)
	}
	return list
}

// at returns the task after an event that was not the last one.
func (t *Task) at(e Event, number uint64, artifact bool) *Task {
	then := new(*t)
	then.Status = Status{State: e.State, At: e.At}
	history := min(e.History, len(t.History))
	switch {
	case !e.Says:
	case history < len(t.History):
		then.Status.Message = &t.History[history]
	default:
		then.Status.Message = t.Status.Message
	}
	if then.History = t.History[:history:history]; !artifact {
		then.Artifact = nil
	}
	then.Event = number
	return then
}

// AnswerSize returns about the length of the JSON of a task with the newest messages of its history, and with its artifact or without.
func AnswerSize(t *Task, messages int, artifact bool) int64 {
	n := 1<<10 + t.Status.Message.size()
	for i := range t.History[max(0, len(t.History)-messages):] {
		n += t.History[len(t.History)-1-i].size()
	}
	if artifact {
		n += t.Artifact.Size()
	}
	return n
}

func (m *Message) size() int64 {
	if m == nil {
		return 0
	}
	n := 128 + len(m.ID) + len(m.Metadata)
	for _, list := range [...][]string{m.Extensions, m.References} {
		for _, s := range list {
			n += 16 + len(s)
		}
	}
	return int64(n) + (&Artifact{m.Parts}).Size()
}

// Size returns the approximate size of an artifact in memory, in bytes; 0 for nil.
func (a *Artifact) Size() (n int64) {
	if a != nil {
		for i := range a.Parts {
			p := &a.Parts[i]
			n += int64(128 + len(p.Text) + len(p.Data) + len(p.Filename) + len(p.MediaType) + len(p.Metadata))
		}
	}
	return n
}
