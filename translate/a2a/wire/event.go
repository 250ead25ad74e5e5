package wire

import "github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"

// EventKind says what an event of a stream has of its task.
type EventKind uint8

// The kinds of events.
const (
	WholeTask   EventKind = iota
	StatusEvent           // the stream goes on
	FinalStatus           // the stream ends with it
	ArtifactEvent
)

// Event is what a stream sends about a version of a task. The texts of equal events are equal.
type Event struct {
	Task    *task.Task
	Version Version
	Kind    EventKind
	History int // the number of messages of a whole task
}

// TaskEvent returns the event with a task and a part of its history; nil: all of it.
func TaskEvent(v Version, t *task.Task, historyLength *int) Event {
	n := len(t.History)
	if historyLength != nil {
		n = min(n, *historyLength)
	}
	return Event{t, v, WholeTask, n}
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
	if e.Kind == WholeTask || e.Kind == ArtifactEvent {
		return task.Size(e.Task)
	}
	n := 0
	if m := e.Task.Status.Message; m != nil {
		for i := range m.Parts {
			n += len(m.Parts[i].Text) + len(m.Parts[i].Data)
		}
	}
	return int64(n)
}

// AppendTo appends the text.
func (e Event) AppendTo(b []byte) []byte {
	if e.Kind == WholeTask {
		return AppendSendResult(b, e.Version, e.Task, &e.History)
	}
	return AppendUpdate(b, e.Version, &task.Update{Task: e.Task, Artifact: e.Kind == ArtifactEvent}, e.Kind == FinalStatus)
}
