package task_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"event":1,"status":{"state":5,"at":"2026-01-01T00:00:00Z"}}`))
	f.Add([]byte(`{"event":1,"status":{"state":2,"message":{"role":1,"parts":[{"kind":2,"data":null}]}},"history":[{"role":2}],"news":[{"state":2,"history":9}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e := &ledger.Entry{Owner: ledger.Owner{Principal: "ada"}, ID: "x", Front: task.Front, Notes: data, State: ledger.Working, Version: 1}
		got, err := task.FromEntry(e, nil)
		if err != nil {
			return
		}
		sameAsJSON(t, got)
		for after := range 3 {
			for _, u := range got.Updates(uint64(after)) {
				_ = u.Task.Status.State.String()
			}
		}
		again := *e
		now, err := task.Change(&again, func(t *task.Task) error { t.SetStatus(task.Working, nil, time.Now()); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := task.FromEntry(&again, nil); err != nil || now.ID != "x" || now.Event != got.Event+1 || now.Owner.Principal != "ada" {
			t.Errorf("%+v, %v", now, err)
		}
	})
}

// said is a message of the bridge.
func said(text string) *task.Message {
	return &task.Message{Role: task.Agent, Parts: []task.Part{{Part: front.Part{Kind: front.PartText, Text: text}}}}
}

// The messages of a task write no more than a bound: each writes all again.
func TestManyMessages(t *testing.T) {
	long := &task.Task{Context: "c"}
	long.SetStatus(task.InputRequired, said(strings.Repeat("x", 20<<20)), time.UnixMilli(1_700_000_000_000))
	e := &ledger.Entry{ID: "x"}
	if err := long.Begin(e); err != nil {
		t.Fatal(err)
	}
	hear := func(n int) error {
		_, err := task.Change(e, func(t *task.Task) error {
			for range n {
				t.AddMessage(task.Message{Role: task.User, Parts: []task.Part{{Part: front.Part{Kind: front.PartText, Text: "m"}}}})
			}
			return nil
		})
		return err
	}
	if err := hear(40); err != nil {
		t.Error(err)
	}
	if err := hear(20); err == nil || !strings.Contains(err.Error(), "begin a new task") {
		t.Errorf("60 messages: %v", err)
	}
}

// A reader of each version gets each event; one that has missed versions gets the whole state.
func TestEvents(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	made := &task.Task{Context: "c"}
	made.SetStatus(task.Submitted, nil, at)
	made.AddMessage(*said("hello"))
	made.SetStatus(task.InputRequired, said("which?"), at)
	e := &ledger.Entry{ID: "x"}
	if err := made.Begin(e); err != nil {
		t.Fatal(err)
	}
	e.Version = 1
	versions := []ledger.Entry{*e}
	next := func(change func(t *task.Task)) {
		own := versions[len(versions)-1]
		if _, err := task.Change(&own, func(t *task.Task) error { change(t); return nil }); err != nil {
			t.Fatal(err)
		}
		own.Version++
		versions = append(versions, own)
	}
	next(func(t *task.Task) { t.AddMessage(*said("a message is no event")) })
	next(func(t *task.Task) {
		t.Ref.ExecutionID = "e"
		t.SetStatus(task.Working, said("soon"), at)
		t.SetArtifact(nil)
		t.SetStatus(task.Completed, nil, at)
	})
	outcome, err := ledger.EncodeOutcome(&run.Run{State: run.Completed, Output: []byte(`"out"`)})
	if err != nil {
		t.Fatal(err)
	}
	last := &versions[len(versions)-1]
	last.Outcome = outcome
	if e.State != ledger.Waiting || last.State != ledger.Completed || last.Label.Group != "c" || last.Label.State != uint8(task.Completed) {
		t.Errorf("%+v, %+v", e, last)
	}
	told := func(versions ...ledger.Entry) (events []string) {
		number := uint64(0)
		for _, e := range versions {
			now, err := task.FromEntry(&e, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range now.Updates(number) {
				what := u.Task.Status.State.String()
				if m := u.Task.Status.Message; m != nil {
					what += " " + m.Parts[0].Text
				}
				if u.Artifact {
					what = "artifact " + u.Task.Artifact.Parts[0].Text
				} else if u.Task.Artifact != nil {
					what += " with artifact"
				}
				events = append(events, what)
				if u.Number <= number {
					t.Errorf("number %d after %d", u.Number, number)
				}
				number = u.Number
			}
		}
		return events
	}
	all := []string{"submitted", "input-required which?", "working soon", "artifact ", "completed with artifact"}
	if got := told(versions...); !slices.EqualFunc(got, all, strings.HasPrefix) {
		t.Errorf("%q", got)
	}
	if got := told(versions[1], *last); !slices.EqualFunc(got, []string{"input-required which?", "working soon", "artifact ", "completed with artifact"}, strings.HasPrefix) {
		t.Errorf("%q", got)
	}
	if got := told(*last); !slices.EqualFunc(got, []string{"artifact ", "completed with artifact"}, strings.HasPrefix) {
		t.Errorf("%q", got)
	}
}

// A task that ends before a client knows of it is stored without its events: with them, SQLite needs a further page for a short one.
func TestEndedAtOnce(t *testing.T) {
	made, e := &task.Task{Context: "c", Skill: "a.b"}, &ledger.Entry{ID: "x"}
	made.SetStatus(task.Submitted, nil, time.Now())
	if err := made.Begin(e); err != nil {
		t.Fatal(err)
	}
	now, err := task.Change(e, func(t *task.Task) error {
		t.SetArtifact(nil)
		t.SetStatus(task.Completed, nil, time.Now())
		return nil
	})
	if err != nil || now.Event != 3 || now.News != nil || strings.Contains(string(e.Notes), "artifact") {
		t.Fatalf("%+v, %v: %s", now, err, e.Notes)
	}
	e.Version = 1
	if got, err := task.FromEntry(e, nil); err != nil || len(got.Updates(0)) != 1 || got.Updates(0)[0].Number != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What is ended by something that does not know tasks is a task that has ended.
func TestEndedElsewhere(t *testing.T) {
	made := &task.Task{}
	made.SetStatus(task.Working, nil, time.Now())
	for state, want := range map[ledger.State]task.State{ledger.Canceled: task.Canceled, ledger.Lost: task.Failed, ledger.TimedOut: task.Failed, ledger.Completed: task.Completed} {
		of, e := *made, &ledger.Entry{ID: "x"}
		if err := of.Begin(e); err != nil {
			t.Fatal(err)
		}
		e.State, e.Changed = state, time.Now()
		got, err := task.FromEntry(e, nil)
		if err != nil || got.Status.State != want || len(got.Updates(1)) != 1 {
			t.Errorf("%d: %+v, %v", state, got, err)
		}
	}
}
