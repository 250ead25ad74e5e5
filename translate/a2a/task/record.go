package task

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// recordOptions keep the bytes of the values of clients and providers.
var recordOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// Encode returns the record of a version of a task. Its data is appended to a buffer, which may move the data of earlier records.
func Encode(to *bytes.Buffer, t *Task, at time.Time) (*run.Record, error) {
	data, err := appendTask(to.AvailableBuffer(), t)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.ID, err)
	}
	if len(data) > run.MaxRecord {
		return nil, fmt.Errorf("task %s: its record would have %d bytes, and %d are stored at most", t.ID, len(data), run.MaxRecord)
	}
	to.Write(data)
	data = to.Bytes()[to.Len()-len(data):]
	return &run.Record{Owner: t.Owner, ID: t.ID, Event: t.Event, At: at, Data: data, Standing: standing(t.Status.State)}, nil
}

// standing returns what the Store knows of a state.
func standing(s State) run.Standing {
	switch {
	case s.Terminal():
		return run.Final
	case s.Interrupted():
		return run.Waiting
	}
	return run.Running
}

// Version returns the version of the task in a [run.Store].
func (t *Task) Version() run.Version {
	return run.Version{Event: t.Event, Standing: standing(t.Status.State)}
}

// Decode returns the task of a record.
func Decode(r *run.Record) (*Task, error) {
	t := new(Task)
	if err := json.Unmarshal(r.Data, t, recordOptions); err != nil {
		return nil, fmt.Errorf("record %s is no task: %w", r.ID, run.ErrDamaged) // err may quote it
	}
	t.Owner = r.Owner
	if t.ID != r.ID || t.Event != r.Event || t.Status.State == 0 || !validMessages(t) || t.Artifact != nil && !validParts(t.Artifact.Parts) {
		return nil, fmt.Errorf("record %s is no task: %w", r.ID, run.ErrDamaged)
	}
	return t, nil
}

func validMessages(t *Task) bool {
	wrong := slices.ContainsFunc(t.History, func(m Message) bool { return !validMessage(&m) })
	return !wrong && (t.Status.Message == nil || validMessage(t.Status.Message))
}

func validMessage(m *Message) bool {
	return (m.Role == User || m.Role == Agent) && validParts(m.Parts) && (m.Metadata == nil || m.Metadata.Kind() == '{')
}

func validParts(parts []Part) bool {
	return !slices.ContainsFunc(parts, func(p Part) bool {
		return p.Kind < front.PartText || p.Kind > front.PartURL || (p.Kind == front.PartData) != (p.Data != nil) || p.Metadata != nil && p.Metadata.Kind() != '{'
	})
}
