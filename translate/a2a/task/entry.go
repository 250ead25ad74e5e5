package task

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

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
func Change(e *ledger.Entry, change func(*Task) error) (*Task, error) { return changed(e, nil, change) }

// changed is Change with a version that is known already; nil: none is.
func changed(e *ledger.Entry, known *Task, change func(*Task) error) (t *Task, err error) {
	if known != nil && known.isOf(e) {
		own := *known
		own.Entry, own.Ref, t = e, e.Ref, &own
	} else if t, err = decode(e); err != nil {
		return nil, err
	}
	t.News = nil
	if err := change(t); err != nil {
		return t, err
	}
	t.number(e.Version + 1)
	return t, t.into(e)
}

// isOf reports whether the notes of an entry are those of the task.
func (t *Task) isOf(e *ledger.Entry) bool {
	return t.Entry.State.Ended() == e.State.Ended() && bytes.Equal(t.Entry.Notes, e.Notes)
}

// IsPushed reports whether webhooks may have been set for the task of an entry, without decoding it. The notes have this also if a client has written it
// as one of the inputs, which does not matter.
func IsPushed(e *ledger.Entry) bool { return bytes.Contains(e.Notes, []byte(`"pushed":true`)) }

// maxHeard bounds the notes with a new message of the client, in bytes. The rest is for how the task goes on and ends.
const maxHeard = run.MaxRecord - 2<<20

// maxRewritten bounds the bytes that the messages of a task write: each writes the notes whole.
const maxRewritten = 1 << 30

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
	heard := t.heard
	t.heard = false
	switch e.Notes = t.encode(); {
	case heard && (len(e.Notes) > maxHeard || len(e.Notes)*len(t.History) > maxRewritten):
		return run.WrongArgument(run.Argument{Field: run.FieldOther, Name: "message", Reason: run.OverLimit}, fmt.Sprintf(
			"The message is too long for the task, or one too many: the bridge stores at most %d bytes of the messages and inputs of a task, and fewer of many. Send less, or begin a new task.", maxHeard))
	case len(e.Notes) > run.MaxRecord:
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

// encoder appends the JSON of a task. Package json takes ten times as long, and each version of a task is encoded.
type encoder struct{ front.Writer }

// encode returns the JSON of a task, which package json decodes.
func (t *Task) encode() []byte {
	e := encoder{front.Writer{Buf: make([]byte, 0, 512)}}
	e.Open()
	e.Optional("name", t.Name)
	e.Text("context", t.Context)
	e.Raw("inputs", t.Inputs)
	e.Optional("output_type", t.OutputType)
	e.Integer("timeout_ms", t.Timeout)
	e.Optional("priority", t.Priority)
	if !t.Deadline.IsZero() {
		e.time("deadline", t.Deadline)
	}
	e.OpenMember("status")
	e.Unsigned("state", uint64(t.Status.State))
	e.time("at", t.Status.At)
	if t.Status.Message != nil {
		e.Name("message")
		e.message(t.Status.Message)
	}
	e.Close()
	e.OpenArray("history")
	for i := range t.History {
		e.Next()
		e.message(&t.History[i])
	}
	e.CloseArray()
	e.Texts("warnings", t.Warnings)
	e.flag("pushed", t.Pushed)
	e.Unsigned("event", t.Event)
	e.OpenArray("news")
	for i := range t.News {
		n := &t.News[i]
		e.Open()
		e.Integer("version", n.Version)
		e.Unsigned("state", uint64(n.State))
		e.time("at", n.At)
		e.Integer("history", int64(n.History))
		e.flag("says", n.Says)
		e.flag("artifact", n.Artifact)
		e.Close()
	}
	e.CloseArray()
	e.Close()
	return e.Buf
}

func (e *encoder) message(m *Message) {
	e.Buf = append(e.Buf, '{')
	e.Optional("id", m.ID)
	e.Unsigned("role", uint64(m.Role))
	e.OpenArray("parts")
	for i := range m.Parts {
		p := &m.Parts[i]
		e.Open()
		e.Unsigned("kind", uint64(p.Kind))
		e.Optional("text", p.Text)
		e.Raw("data", p.Data)
		e.Optional("filename", p.Filename)
		e.Optional("mediaType", p.MediaType)
		e.Raw("metadata", p.Metadata)
		e.Close()
	}
	e.CloseArray()
	e.Raw("metadata", m.Metadata)
	if len(m.Extensions) > 0 {
		e.Texts("extensions", m.Extensions)
	}
	if len(m.References) > 0 {
		e.Texts("references", m.References)
	}
	e.Close()
}

// flag adds a boolean unless it is false.
func (e *encoder) flag(name string, is bool) {
	if is {
		e.Raw(name, []byte("true"))
	}
}

func (e *encoder) time(name string, t time.Time) {
	e.Name(name)
	e.Buf = append(t.AppendFormat(append(e.Buf, '"'), time.RFC3339Nano), '"')
}
