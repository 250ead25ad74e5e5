package task

import (
	"slices"
	"time"
)

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
	t.Event += uint64(len(t.News))
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
