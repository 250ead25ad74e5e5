// Package wire decodes and encodes the JSON of A2A 1.0, 0.3 and 0.1: it decodes the params of the methods, and appends tasks,
// events, webhooks and errors to a buffer. Its functions are pure: they use neither HTTP nor the ledger.
//
// The params for a decoder have to be valid JSON. A decoder reports all errors in them as [Violation]s. If there is one, its
// other result is incomplete and must not be used. Results share no memory with the params.
package wire

import "github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"

// Version is a version of A2A.
type Version uint8

// The versions.
const (
	V01 Version = iota + 1 // the first draft, with tasks/send
	V03                    // 0.2 is served as 0.3
	V10
)

// versionNames are the names of the versions.
var versionNames = [...]string{V01: "0.1", V03: "0.3", V10: "1.0"}

// String implements [fmt.Stringer] with the name, such as "1.0".
func (v Version) String() string {
	if int(v) < len(versionNames) {
		return versionNames[v]
	}
	return ""
}

// GetMethod returns the name of the method that reads a task.
func GetMethod(v Version) string {
	if v == V10 {
		return "GetTask"
	}
	return "tasks/get"
}

// Extension is the URI of the bridge's extension, and the name of the member in metadata that holds its data.
const Extension = "https://github.com/skill-bridge/caddy-skill-bridge/a2a/v1"

// stateNames are the names of the states in A2A 1.0, by state.
var stateNames = [...]string{
	"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED",
	"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED",
}

// maxID bounds ids, in characters, and maxURL bounds URLs, in bytes.
const (
	maxID  = 256
	maxURL = 2048
)

// EventKind says what an event of a stream, or an answer, has of its task.
type EventKind uint8

// The kinds of events.
const (
	WholeTask   EventKind = iota
	StatusEvent           // the stream goes on
	FinalStatus           // the stream ends with it
	ArtifactEvent
	TaskAnswer // the result of a method that reads a task
)

// Event is what a stream sends, or an answer says, about a version of a task. The texts of equal events are equal.
type Event struct {
	Task    *task.Task
	Version Version
	Kind    EventKind
	History int // the number of messages of a whole task, or of an answer
}

// TaskEvent returns the event, or the answer, with a task and a part of its history; nil: what the version says.
func TaskEvent(v Version, t *task.Task, kind EventKind, historyLength *int) Event {
	return Event{t, v, kind, messages(v, t, historyLength)}
}

// UpdateEvent returns the event for an update of a task. last says that the stream ends with it.
func UpdateEvent(v Version, u *task.Update, last bool) Event {
	e := Event{Task: u.Task, Version: v, Kind: StatusEvent}
	switch {
	case u.Artifact:
		e.Kind = ArtifactEvent
	case last:
		e.Kind = FinalStatus
	}
	return e
}

// Size returns about the length of the text.
func (e Event) Size() int64 {
	switch e.Kind {
	case WholeTask, TaskAnswer:
		return task.AnswerSize(e.Task, e.History, true)
	case ArtifactEvent:
		return e.Task.Artifact.Size() + int64(len(Warnings(e.Task)))
	}
	n := len(Warnings(e.Task))
	if m := e.Task.Status.Message; m != nil {
		for i := range m.Parts {
			n += len(m.Parts[i].Text) + len(m.Parts[i].Data)
		}
	}
	return int64(n)
}

// PageSize returns about the length of the text of a page of ListTasks.
func PageSize(tasks []*task.Task, q *ListQuery) (size int64) {
	for _, t := range tasks {
		size += task.AnswerSize(t, messages(V10, t, q.HistoryLength), q.Artifacts)
	}
	return size
}

// AppendTo appends the text.
func (e Event) AppendTo(b []byte) []byte {
	switch e.Kind {
	case WholeTask:
		return AppendSendResult(b, e.Version, e.Task, &e.History)
	case TaskAnswer:
		return AppendTask(b, e.Version, e.Task, &e.History, true)
	}
	return appendUpdate(b, e.Version, e.Task, e.Kind == ArtifactEvent, e.Kind == FinalStatus)
}
