package task_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"id":"x","event":1,"status":{"state":"completed","at":"2026-01-01T00:00:00Z"},"artifact":{"parts":[{"kind":1,"text":"a"}]}}`))
	f.Add([]byte(`{"id":"x","event":1,"status":{"state":"working","message":{"role":1,"parts":[{"kind":2,"data":null}]}},"history":[{"role":2}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &run.Record{Owner: "ada", ID: "x", Event: 1, Data: data}
		got, err := task.Decode(r)
		if err != nil {
			return
		}
		sameAsJSON(t, got)
		again, err := task.Encode(new(bytes.Buffer), got, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := task.Decode(again); err != nil || got.ID != "x" || got.Event != 1 || got.Owner != "ada" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
