package task

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Front is the name of the front of entries that are tasks.
const Front = "a2a"

// notesOptions keep the bytes of the values of clients and providers.
var notesOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// Key returns the key of the entry of a task whose id a client of A2A 0.1 has chosen. It is no idempotency key.
func Key(name string) []byte {
	sum := sha256.Sum256([]byte("a2a name " + name))
	return sum[:]
}

// states are the states of entries by those of their tasks.
var states = [...]ledger.State{
	Submitted: ledger.Submitting, Working: ledger.Working, InputRequired: ledger.Waiting, AuthRequired: ledger.Waiting,
	Completed: ledger.Completed, Failed: ledger.Failed, Canceled: ledger.Canceled, Rejected: ledger.Failed,
}

// Begin makes an entry the first version of the task, which must not be changed any more. It has no outcome yet.
func (t *Task) Begin(e *ledger.Entry) error {
	t.number(1)
	if t.Name != "" {
		e.Key = Key(t.Name)
	}
	e.Owner, e.Front, e.Asked = t.Owner, Front, t.Skill
	return t.into(e)
}

// Change makes an entry the next version of its task, and returns the task, which must not be changed any more. It has no new outcome yet.
func Change(e *ledger.Entry, change func(*Task) error) (*Task, error) {
	t, err := decode(e)
	if err != nil {
		return nil, err
	}
	t.News = nil
	if err := change(t); err != nil {
		return t, err
	}
	t.number(e.Version + 1)
	return t, t.into(e)
}

// IsPushed reports whether webhooks may have been set for the task of an entry, without decoding it. The notes have this also if a client has written it
// as one of the inputs, which does not matter.
func IsPushed(e *ledger.Entry) bool { return bytes.Contains(e.Notes, []byte(`"pushed":true`)) }

// into writes the task into an entry.
func (t *Task) into(e *ledger.Entry) error {
	e.Skill, e.Ref = t.Skill, t.Ref
	e.Ref.Kept = e.ID
	state := states[t.Status.State]
	if t.Status.State == Working && t.Ref.ExecutionID == "" {
		state = ledger.Submitting
	}
	e.State = state
	e.Label = ledger.Label{Group: t.Context, State: uint8(t.Status.State), At: t.Status.At}
	if e.Notes = t.encode(); len(e.Notes) > run.MaxRecord {
		return fmt.Errorf("task %s: its notes would have %d bytes, and %d are stored at most", e.ID, len(e.Notes), run.MaxRecord)
	}
	return nil
}

// FromEntry returns the task of an entry. apart is the outcome that is stored apart from it; without it, such a task has no artifact.
func FromEntry(e *ledger.Entry, apart []byte) (*Task, error) {
	t, err := decode(e)
	if err != nil || t.Status.State != Completed {
		return t, err
	}
	if apart == nil {
		apart = e.Outcome
	}
	if apart == nil {
		return t, nil
	}
	o, err := ledger.DecodeOutcome(e, apart)
	if err != nil {
		return nil, err
	}
	if parts := Output(o.Output, t.OutputType); len(parts) > 0 {
		t.Artifact = &Artifact{Parts: parts}
	}
	return t, nil
}

// Output returns the output of a run as parts. Their data are copies: a slice of a provider's answer would keep the whole answer in
// memory, and the buffer of a short answer also keeps its request.
func Output(output jsontext.Value, contentType string) []Part {
	content := front.Parts(output, contentType)
	parts := make([]Part, len(content))
	for i := range content {
		parts[i].Part = content[i]
		parts[i].Data = bytes.Clone(content[i].Data)
	}
	return parts
}

// decode returns the task of an entry without its artifact.
func decode(e *ledger.Entry) (*Task, error) {
	t := new(Task)
	if json.Unmarshal(e.Notes, t, notesOptions) != nil || e.Front != Front || !t.isValid() { // the error may quote it
		return nil, fmt.Errorf("run %s is no task: %w", e.ID, run.ErrDamaged)
	}
	t.Entry, t.ID, t.Owner, t.Skill, t.Ref = e, e.ID, e.Owner, e.Skill, e.Ref
	if e.State.Ended() && !t.Status.State.Terminal() { // what has ended it does not know tasks
		state := Failed
		switch e.State {
		case ledger.Completed:
			state = Completed
		case ledger.Canceled:
			state = Canceled
		}
		t.News = nil
		t.SetStatus(state, nil, e.Changed)
		t.number(e.Version)
	}
	return t, nil
}

// isValid reports whether all that was stored of a task can be shown.
func (t *Task) isValid() bool {
	wrongPart := func(p Part) bool {
		return p.Kind < front.PartText || p.Kind > front.PartURL || (p.Kind == front.PartData) != (p.Data != nil) || p.Metadata != nil && p.Metadata.Kind() != '{'
	}
	wrong := func(m Message) bool {
		return m.Role != User && m.Role != Agent || slices.ContainsFunc(m.Parts, wrongPart) || m.Metadata != nil && m.Metadata.Kind() != '{'
	}
	wrongEvent := func(e Event) bool { return e.History < 0 || e.State.isUnknown() }
	return !t.Status.State.isUnknown() && t.Event >= max(1, uint64(len(t.News))) && !slices.ContainsFunc(t.News, wrongEvent) &&
		!slices.ContainsFunc(t.History, wrong) && (t.Status.Message == nil || !wrong(*t.Status.Message))
}

func (s State) isUnknown() bool { return s < Submitted || s > Rejected }
