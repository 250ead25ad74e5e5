package wire_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// smallMessages are params as small clients send them, by version.
var smallMessages = map[wire.Version]string{
	wire.V10: `{"message":{"messageId":"8f4c9a52-8f1e-4a56-9d2e-1b7a3c0f9e11","role":"ROLE_USER","parts":[{"data":{"city":"Paris"}}],"metadata":{"skillId":"demo.weather"}}}`,
	wire.V03: `{"message":{"kind":"message","messageId":"8f4c9a52-8f1e-4a56-9d2e-1b7a3c0f9e11","role":"user","parts":[{"kind":"text","text":"Paris"}],"metadata":{"skillId":"demo.weather"}},"configuration":{"blocking":true}}`,
	wire.V01: `{"id":"8f4c9a52-8f1e-4a56-9d2e-1b7a3c0f9e11","sessionId":"c","message":{"role":"user","parts":[{"type":"text","text":"Paris"}],"metadata":{"skillId":"demo.weather"}}}`,
}

// smallAnswer is a task that has completed with a small output.
func smallAnswer(m task.Message) *task.Task {
	return &task.Task{
		ID: "0199f1c0-7c1a-7d2b-9f00-2f7ad84a21b1", Context: "5e2f8f6e-4a3c-4f0b-8b43-2c7a7b7e0d55", Skill: "demo.weather",
		Status: task.Status{State: task.Completed, At: time.Now()}, History: []task.Message{m},
		Artifact: &task.Artifact{Parts: []task.Part{{Part: front.Part{Kind: front.PartData, Data: jsontext.Value(`{"temperature":21.5}`)}}}},
	}
}

// BenchmarkSend decodes a small message and appends the task that answers it.
func BenchmarkSend(b *testing.B) {
	for _, v := range versions {
		o := jsonrpc.Object{Text: jsontext.Value(smallMessages[v])}
		o.Members = membersOf(b, o.Text, true)
		b.Run(v.String(), func(b *testing.B) {
			b.ReportAllocs()
			buffer := make([]byte, 0, 4096)
			s, violations := wire.DecodeSend(v, o)
			if violations != nil {
				b.Fatal(violations)
			}
			answer := smallAnswer(s.Message)
			for b.Loop() {
				s, _ := wire.DecodeSend(v, o)
				answer.History[0] = s.Message
				buffer = wire.AppendSendResult(buffer[:0], v, answer, nil)
			}
		})
	}
}

// raceDetector is true under the race detector, with which pools drop values at random.
var raceDetector bool

// TestAllocations: decoding allocates what it returns, and telling allocates nothing.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes memory of its own")
	}
	o := jsonrpc.Object{Text: jsontext.Value(smallMessages[wire.V10])}
	o.Members = membersOf(t, o.Text, true)
	buffer := make([]byte, 0, 4096)
	s, _ := wire.DecodeSend(wire.V10, o)
	answer := smallAnswer(s.Message)
	got := testing.AllocsPerRun(100, func() {
		s, _ := wire.DecodeSend(wire.V10, o)
		answer.History[0] = s.Message
		buffer = wire.AppendSendResult(buffer[:0], wire.V10, answer, nil)
	})
	if got > 8 { // the decoder, the objects, the path and the id of the message, its metadata, the list of parts, the data
		t.Errorf("%v allocations", got)
	}
}
