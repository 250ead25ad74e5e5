package task

import "errors"

// ErrEnded is the error for a new event of a task that has ended.
var ErrEnded = errors.New("the task has ended")

// Event is what an event changes. Most events have no reader, so the task after an event is only made for one that has.
type Event struct {
	status     Status
	artifact   *Artifact
	history    int // number of messages
	isArtifact bool
}

// Begin numbers the first version of a task, and returns its events.
func (t *Task) Begin() []Event {
	events := t.events
	t.events, t.Event = nil, uint64(len(events))
	t.Told = t.Event
	return events
}

// Next returns the version of a task that a change makes, and its events. The version before is not changed. The error
// is that of the change, or [ErrEnded].
func Next(old *Task, change func(*Task) error) (*Task, []Event, error) {
	t := old.Copy()
	if err := change(t); err != nil {
		return nil, nil, err
	}
	events := t.events
	t.events = nil
	if len(events) > 0 && old.Status.State.Terminal() {
		return nil, nil, ErrEnded
	}
	t.ID, t.Name, t.Owner, t.Created = old.ID, old.Name, old.Owner, old.Created
	t.Event, t.Told = old.Event+uint64(max(1, len(events))), old.Told
	if len(events) > 0 {
		t.Told = t.Event
	}
	return t, events, nil
}

// Copy returns the task without the events since its last version.
func (t *Task) Copy() *Task {
	c := *t
	c.events = nil
	return &c
}

// Updates returns the events as updates of a task that has them all.
func Updates(t *Task, events []Event) []Update {
	list := make([]Update, len(events))
	number := t.Event - uint64(len(events))
	for i, e := range events {
		number++
		list[i] = Update{Number: number, Task: t, Artifact: e.isArtifact}
		if i < len(events)-1 {
			then := t.Copy()
			then.Status, then.Artifact, then.History = e.status, e.artifact, t.History[:e.history:e.history]
			then.Event, then.Told = number, number
			list[i].Task = then
		}
	}
	return list
}
