package task

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Task is a run of a skill as A2A shows it, from the first message to its artifacts. Tasks share
// slices and pointers with earlier ones of the same id, so nothing that they point to is changed.
type Task struct {
	// ID is a UUID of version 7 (RFC 9562).
	ID string `json:"id"`
	// Name is the id that a client of A2A 0.1 has chosen; empty: the task was made by a later version.
	Name string `json:"name,omitzero"`
	// Owner is the principal that the task belongs to; empty: anonymous callers. It is not stored with the task.
	Owner string `json:"-"`
	// Context is the id of the conversation that the task belongs to.
	Context string `json:"context"`
	// Skill is the name of the skill; empty: the client has not chosen one yet.
	Skill string `json:"skill,omitzero"`
	// Inputs are the inputs so far: a JSON object, or nil.
	Inputs jsontext.Value `json:"inputs,omitzero"`
	// Ref has the source, id and version of the skill once they are known, and identifies the run once it is accepted.
	Ref run.Ref `json:"ref,omitzero"`
	// OutputType is the media type of the skill's output, once it is known.
	OutputType string `json:"output_type,omitzero"`
	// Timeout is the timeout that the client has set, in milliseconds; 0: none.
	Timeout int64 `json:"timeout_ms,omitzero"`
	// Deadline is the time at which the run has to end; zero: no run was submitted.
	Deadline time.Time `json:"deadline,omitzero"`

	Status Status `json:"status"`
	// History are the client's messages and the status messages that were superseded, in order.
	History []Message `json:"history,omitempty"`
	// Artifact is the output; nil: there is none, or not yet.
	Artifact *Artifact `json:"artifact,omitzero"`
	// Warnings say what was wrong with the provider's newest answer, and how it was read nevertheless.
	Warnings []string `json:"warnings,omitempty"`
	// Push are the webhooks that later events are sent to.
	Push []PushConfig `json:"push,omitempty"`

	// Event is the number of the newest version, from 1.
	Event uint64 `json:"event"`
	// Told is the number of the newest event that is a status or the artifact, which subscribers and webhooks get.
	Told uint64 `json:"told,omitzero"`
	// Created is the time when the task was made.
	Created time.Time `json:"created"`

	events []Event // since it was copied
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
	// Parts has at least one part, except for messages that the bridge has read from a damaged store.
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

// PushConfig is a webhook that the later events of a task are sent to.
type PushConfig struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	// Secrets are the token and the credentials, sealed; empty: there are none.
	Secrets string `json:"secrets,omitzero"`
	// Scheme is the authentication scheme of the credentials; empty: none.
	Scheme string `json:"scheme,omitzero"`
	// Version is the version of A2A in which the webhook was set, and in whose form it gets events.
	Version string `json:"version"`
	// Set is the number of the task's version to which the webhook was added. The webhook gets later events.
	Set uint64 `json:"set"`
	// Sent is the number of the last event that was delivered or lost.
	Sent uint64 `json:"sent"`
	// Lost is the number of events in a row that could not be delivered. At MaxLost, the webhook gets no more events.
	Lost int `json:"lost,omitzero"`
}

// MaxLost is the number of lost events in a row after which a webhook gets no more events.
const MaxLost = 5

// Pending reports whether the webhook has not got the newest event of its task yet.
func (p *PushConfig) Pending(t *Task) bool { return p.Lost < MaxLost && p.Sent < t.Told }

// Role is the author of a message.
type Role uint8

// The roles.
const (
	User  Role = iota + 1 // the client
	Agent                 // the bridge
)

// Update is one event of a task: a new status, or its artifact.
type Update struct {
	// Number is the number of the event, from 1; the first event is the task itself.
	Number uint64
	// Task is the task after the event.
	Task *Task
	// Artifact says that the event is the task's artifact; else it is its status.
	Artifact bool
}

// ClockSkew is the largest difference between the clocks of two instances.
const ClockSkew = 5 * time.Minute

// LostAt returns when it is certain that the instance which invokes the skill of a task has ended without telling what became of the run,
// unless the task changes before: [ClockSkew] after its deadline. Zero: the run was accepted, so that each instance can follow it, or the task
// does not run.
func (t *Task) LostAt() time.Time {
	switch runs := t.Status.State == Submitted || t.Status.State == Working; {
	case !runs || t.Ref.ExecutionID != "":
		return time.Time{}
	case t.Deadline.IsZero(): // the task has no run, only a question or a failure
		return t.Status.At.Add(ClockSkew)
	}
	return t.Deadline.Add(ClockSkew)
}

// SetStatus gives a task that is being made or changed a new status. The message of the old status moves to the history.
func (t *Task) SetStatus(s State, m *Message, at time.Time) {
	if old := t.Status.Message; old != nil {
		t.History = append(slices.Clip(t.History), *old)
	}
	t.Status = Status{State: s, At: at, Message: m}
	t.addEvent(false)
}

// SetArtifact gives a task that is being changed its output.
func (t *Task) SetArtifact(parts []Part) {
	t.Artifact = &Artifact{Parts: parts}
	t.addEvent(true)
}

// addEvent notes that the status or the artifact has changed.
func (t *Task) addEvent(isArtifact bool) {
	if t.events == nil && t.Event > 0 {
		t.events = make([]Event, 0, 3) // a run that ends at once is accepted, has an output and is completed
	}
	t.events = append(t.events, Event{t.Status, t.Artifact, len(t.History), isArtifact})
}

// AddMessage adds a message of the client to the history. This is not an event.
func (t *Task) AddMessage(m Message) {
	t.History = append(slices.Clip(t.History), m)
}
