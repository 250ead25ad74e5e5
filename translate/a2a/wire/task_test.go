package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// at is the time of all statuses.
var at = time.Date(2025, 10, 28, 11, 30, 0, 7_900_000, time.FixedZone("", 3600))

func part(kind front.PartKind, text string) task.Part {
	return task.Part{Part: front.Part{Kind: kind, Text: text}}
}

func dataPart(value string) task.Part {
	return task.Part{Part: front.Part{Kind: front.PartData, Data: jsontext.Value(value)}}
}

// completed is a task with everything that a task can have.
func completed() *task.Task {
	return &task.Task{
		ID: "T", Context: "C", Skill: "weather", Ref: run.Ref{Source: "acme", Version: "1.2.0", ExecutionID: "e-1"},
		Status: task.Status{State: task.Completed, At: at},
		History: []task.Message{
			{
				ID: "m1", Role: task.User, Metadata: jsontext.Value(`{"skillId":"weather"}`), Extensions: []string{"https://x"}, References: []string{"R"},
				Parts: []task.Part{{Part: front.Part{Kind: front.PartText, Text: "a\"b", MediaType: "text/markdown"}, Metadata: jsontext.Value(`{"k":1.0}`)}},
			},
			{ID: "m2", Role: task.Agent, Parts: []task.Part{part(front.PartText, "working")}},
		},
		Artifact: &task.Artifact{Parts: []task.Part{
			dataPart(`{"n":12345678901234567890.10}`), dataPart(`[1]`),
			{Part: front.Part{Kind: front.PartBytes, Text: "AAAA", Filename: "f.png", MediaType: "image/png"}},
			{Part: front.Part{Kind: front.PartURL, Text: "https://u"}},
			{Part: front.Part{Kind: front.PartText, Text: "a,b", Filename: "x.csv", MediaType: "text/csv"}},
		}},
	}
}

// waiting is a task that waits for the client.
func waiting(state task.State) *task.Task {
	return &task.Task{
		ID: "T", Context: "C", Skill: "weather",
		Status:  task.Status{State: state, At: at, Message: &task.Message{ID: "m2", Role: task.Agent, Parts: []task.Part{part(front.PartText, "city?")}}},
		History: []task.Message{{ID: "m1", Role: task.User, Parts: []task.Part{part(front.PartText, "hi")}}},
	}
}

const metadata = `"metadata":{"https://github.com/skill-bridge/caddy-skill-bridge/a2a/v1":{"skill":"weather","version":"1.2.0","provider":"acme","executionId":"e-1"}}`

func check(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if !isJSON(got) {
		t.Errorf("%s: not JSON: %s", what, got)
	}
	if string(got) != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

func TestAppendTask(t *testing.T) {
	const (
		history10 = `"history":[{"messageId":"m1","contextId":"C","taskId":"T","role":"ROLE_USER","parts":[{"text":"a\"b","mediaType":"text/markdown","metadata":{"k":1.0}}],` +
			`"metadata":{"skillId":"weather"},"extensions":["https://x"],"referenceTaskIds":["R"]},` +
			`{"messageId":"m2","contextId":"C","taskId":"T","role":"ROLE_AGENT","parts":[{"text":"working"}]}],`
		artifacts10 = `"artifacts":[{"artifactId":"output","name":"output","parts":[{"data":{"n":12345678901234567890.10}},{"data":[1]},` +
			`{"raw":"AAAA","filename":"f.png","mediaType":"image/png"},{"url":"https://u"},{"text":"a,b","filename":"x.csv","mediaType":"text/csv"}]}],`
		task10    = `{"id":"T","contextId":"C","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2025-10-28T10:30:00.007Z"},`
		history03 = `"history":[{"kind":"message","messageId":"m1","contextId":"C","taskId":"T","role":"user","parts":[{"kind":"text","text":"a\"b","metadata":{"k":1.0}}],` +
			`"metadata":{"skillId":"weather"},"extensions":["https://x"],"referenceTaskIds":["R"]},` +
			`{"kind":"message","messageId":"m2","contextId":"C","taskId":"T","role":"agent","parts":[{"kind":"text","text":"working"}]}],`
		artifacts03 = `"artifacts":[{"artifactId":"output","name":"output","parts":[{"kind":"data","data":{"n":12345678901234567890.10}},{"kind":"data","data":{"result":[1]}},` +
			`{"kind":"file","file":{"bytes":"AAAA","name":"f.png","mimeType":"image/png"}},{"kind":"file","file":{"uri":"https://u"}},` +
			`{"kind":"text","text":"a,b","metadata":{"filename":"x.csv","mediaType":"text/csv"}}]}],`
		task03      = `{"id":"T","contextId":"C","status":{"state":"completed","timestamp":"2025-10-28T10:30:00.007Z"},`
		artifacts01 = `"artifacts":[{"name":"output","parts":[{"type":"data","data":{"n":12345678901234567890.10}},{"type":"data","data":{"result":[1]}},` +
			`{"type":"file","file":{"bytes":"AAAA","name":"f.png","mimeType":"image/png"}},{"type":"file","file":{"uri":"https://u"}},` +
			`{"type":"text","text":"a,b","metadata":{"filename":"x.csv","mediaType":"text/csv"}}],"index":0,"lastChunk":true}],`
		task01    = `{"id":"T","sessionId":"C","status":{"state":"completed","timestamp":"2025-10-28T10:30:00.007Z"},`
		history01 = `"history":[{"role":"agent","parts":[{"type":"text","text":"working"}]}],`
	)
	for _, c := range []struct {
		name      string
		version   wire.Version
		length    *int
		artifacts bool
		want      string
	}{
		{"all of 1.0", wire.V10, nil, true, task10 + artifacts10 + history10 + metadata + `}`},
		{"1.0 without history and artifacts", wire.V10, new(0), false, task10 + metadata + `}`},
		{"1.0 with more history than there is", wire.V10, new(9), false, task10 + history10 + metadata + `}`},
		{"all of 0.3", wire.V03, nil, true, task03 + artifacts03 + history03 + metadata + `,"kind":"task"}`},
		{"0.1", wire.V01, nil, true, task01 + artifacts01 + metadata + `}`},
		{"0.1 with history", wire.V01, new(1), true, task01 + artifacts01 + history01 + metadata + `}`},
	} {
		made := completed()
		check(t, c.name, wire.AppendTask(nil, c.version, made, c.length, c.artifacts), c.want)
		check(t, c.name+" after a prefix", wire.AppendTask([]byte(`[0,`), c.version, made, c.length, c.artifacts)[3:], c.want)
		if c.artifacts {
			result := wire.AppendSendResult(nil, c.version, made, c.length)
			if c.version == wire.V10 {
				c.want = `{"task":` + c.want + `}`
			}
			check(t, "result of "+c.name, result, c.want)
		}
	}
}

// TestAppendTaskOfOtherVersion: a task can be read in any version. Its messages of 0.1 have no ids, and it has two.
func TestAppendTaskOfOtherVersion(t *testing.T) {
	made := &task.Task{ID: "T", Name: "mine", Context: "C", Status: task.Status{State: task.Submitted}, History: []task.Message{{Role: task.User, Parts: []task.Part{part(front.PartText, "hi")}}}}
	check(t, "1.0", wire.AppendTask(nil, wire.V10, made, nil, true),
		`{"id":"T","contextId":"C","status":{"state":"TASK_STATE_SUBMITTED"},"history":[{"messageId":"T.0","contextId":"C","taskId":"T","role":"ROLE_USER","parts":[{"text":"hi"}]}]}`)
	check(t, "0.1", wire.AppendTask(nil, wire.V01, made, new(1), true),
		`{"id":"mine","sessionId":"C","status":{"state":"submitted"},"history":[{"role":"user","parts":[{"type":"text","text":"hi"}]}]}`)
}

func TestStateNames(t *testing.T) {
	for state, want := range map[task.State][3]string{
		task.Submitted:     {"submitted", "submitted", "TASK_STATE_SUBMITTED"},
		task.Working:       {"working", "working", "TASK_STATE_WORKING"},
		task.InputRequired: {"input-required", "input-required", "TASK_STATE_INPUT_REQUIRED"},
		task.AuthRequired:  {"input-required", "auth-required", "TASK_STATE_AUTH_REQUIRED"},
		task.Completed:     {"completed", "completed", "TASK_STATE_COMPLETED"},
		task.Failed:        {"failed", "failed", "TASK_STATE_FAILED"},
		task.Canceled:      {"canceled", "canceled", "TASK_STATE_CANCELED"},
		task.Rejected:      {"failed", "rejected", "TASK_STATE_REJECTED"},
	} {
		for i, v := range versions {
			var told struct {
				Status struct {
					State string `json:"state"`
				} `json:"status"`
			}
			if err := json.Unmarshal(wire.AppendTask(nil, v, &task.Task{Status: task.Status{State: state}}, nil, false), &told); err != nil || told.Status.State != want[i] {
				t.Errorf("%s in %s: got %q (%v), want %q", state, v, told.Status.State, err, want[i])
			}
		}
	}
}

func TestUpdateEvent(t *testing.T) {
	const (
		status10   = `{"messageId":"m2","contextId":"C","taskId":"T","role":"ROLE_AGENT","parts":[{"text":"city?"}]},"timestamp":"2025-10-28T10:30:00.007Z"}`
		status03   = `{"kind":"message","messageId":"m2","contextId":"C","taskId":"T","role":"agent","parts":[{"kind":"text","text":"city?"}]},"timestamp":"2025-10-28T10:30:00.007Z"}`
		status01   = `{"role":"agent","parts":[{"type":"text","text":"city?"}]},"timestamp":"2025-10-28T10:30:00.007Z"}`
		artifact10 = `{"artifactId":"output","name":"output","parts":[{"text":"out"}]}`
	)
	output := completed()
	output.Artifact = &task.Artifact{Parts: []task.Part{part(front.PartText, "out")}}
	for _, c := range []struct {
		name    string
		version wire.Version
		update  task.Update
		last    bool
		want    string
	}{
		{"1.0 status", wire.V10, task.Update{Task: waiting(task.Working)}, false, `{"statusUpdate":{"taskId":"T","contextId":"C","status":{"state":"TASK_STATE_WORKING","message":` + status10 + `}}`},
		{"1.0 artifact", wire.V10, task.Update{Task: output, Artifact: true}, false, `{"artifactUpdate":{"taskId":"T","contextId":"C","artifact":` + artifact10 + `,"lastChunk":true}}`},
		{"0.3 status", wire.V03, task.Update{Task: waiting(task.Working)}, false, `{"kind":"status-update","taskId":"T","contextId":"C","status":{"state":"working","message":` + status03 + `,"final":false}`},
		{"0.3 last of sending", wire.V03, task.Update{Task: waiting(task.InputRequired)}, true, `{"kind":"status-update","taskId":"T","contextId":"C","status":{"state":"input-required","message":` + status03 + `,"final":true}`},
		{"0.3 interrupted", wire.V03, task.Update{Task: waiting(task.InputRequired)}, false, `{"kind":"status-update","taskId":"T","contextId":"C","status":{"state":"input-required","message":` + status03 + `,"final":false}`},
		{"0.3 end", wire.V03, task.Update{Task: waiting(task.Rejected)}, true, `{"kind":"status-update","taskId":"T","contextId":"C","status":{"state":"rejected","message":` + status03 + `,"final":true}`},
		{"0.3 artifact", wire.V03, task.Update{Task: output, Artifact: true}, false, `{"kind":"artifact-update","taskId":"T","contextId":"C","artifact":{"artifactId":"output","name":"output","parts":[{"kind":"text","text":"out"}]},"lastChunk":true}`},
		{"0.1 status", wire.V01, task.Update{Task: waiting(task.Working)}, false, `{"id":"T","status":{"state":"working","message":` + status01 + `,"final":false}`},
		{"0.1 end", wire.V01, task.Update{Task: waiting(task.Rejected)}, true, `{"id":"T","status":{"state":"failed","message":` + status01 + `,"final":true}`},
		{"0.1 artifact", wire.V01, task.Update{Task: output, Artifact: true}, false, `{"id":"T","artifact":{"name":"output","parts":[{"type":"text","text":"out"}],"index":0,"lastChunk":true}}`},
	} {
		check(t, c.name, wire.UpdateEvent(c.version, &c.update, c.last).AppendTo(nil), c.want)
	}
	made := &task.Task{ID: "T", Context: "C", Status: task.Status{State: task.Submitted, At: at}}
	check(t, "1.0 task", wire.AppendSendResult(nil, wire.V10, made, nil), `{"task":{"id":"T","contextId":"C","status":{"state":"TASK_STATE_SUBMITTED","timestamp":"2025-10-28T10:30:00.007Z"}}}`)
	check(t, "0.3 task", wire.AppendSendResult(nil, wire.V03, made, nil), `{"id":"T","contextId":"C","status":{"state":"submitted","timestamp":"2025-10-28T10:30:00.007Z"},"kind":"task"}`)
}

func TestAppendMessageResult(t *testing.T) {
	m := &task.Message{ID: "m", Role: task.Agent, Parts: []task.Part{part(front.PartText, "hi")}}
	made := &task.Task{ID: "T", Context: "C"}
	check(t, "1.0", wire.AppendMessageResult(nil, wire.V10, m, made), `{"message":{"messageId":"m","contextId":"C","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}`)
	check(t, "0.3", wire.AppendMessageResult(nil, wire.V03, m, made), `{"kind":"message","messageId":"m","contextId":"C","role":"agent","parts":[{"kind":"text","text":"hi"}]}`)
}

func TestAppendPage(t *testing.T) {
	made := []*task.Task{completed(), waiting(task.Working)}
	made[0].History, made[0].Skill, made[0].Ref, made[1].Skill, made[1].Status = nil, "", run.Ref{}, "", task.Status{State: task.Working}
	const first, second = `{"id":"T","contextId":"C","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2025-10-28T10:30:00.007Z"}}`, `{"id":"T","contextId":"C","status":{"state":"TASK_STATE_WORKING"}}`
	check(t, "two", wire.AppendPage(nil, made, "next", 2, 5, &wire.ListQuery{HistoryLength: new(0)}), `{"tasks":[`+first+`,`+second+`],"nextPageToken":"next","pageSize":2,"totalSize":5}`)
	check(t, "none", wire.AppendPage(nil, nil, "", 50, 0, &wire.ListQuery{}), `{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}`)
}

func TestAppendPush(t *testing.T) {
	p := wire.PushConfig{ID: "p", URL: "https://w", Secrets: "sealed", Scheme: "Bearer"}
	made := &task.Task{ID: "T", Name: "mine"}
	const (
		config10 = `{"taskId":"T","id":"p","url":"https://w","authentication":{"scheme":"Bearer"}}`
		config03 = `{"taskId":"T","pushNotificationConfig":{"id":"p","url":"https://w","authentication":{"schemes":["Bearer"]}}}`
	)
	check(t, "1.0", wire.AppendPush(nil, wire.V10, made, &p), config10)
	check(t, "0.3", wire.AppendPush(nil, wire.V03, made, &p), config03)
	check(t, "0.1", wire.AppendPush(nil, wire.V01, made, &p), `{"id":"mine","pushNotificationConfig":{"url":"https://w","authentication":{"schemes":["Bearer"]}}}`)
	check(t, "list of 1.0", wire.AppendPushList(nil, wire.V10, made, []wire.PushConfig{p, p}), `{"configs":[`+config10+`,`+config10+`],"nextPageToken":""}`)
	check(t, "list of 0.3", wire.AppendPushList(nil, wire.V03, made, []wire.PushConfig{p}), `[`+config03+`]`)
	check(t, "empty list of 1.0", wire.AppendPushList(nil, wire.V10, made, nil), `{"configs":[],"nextPageToken":""}`)
	check(t, "empty list of 0.3", wire.AppendPushList(nil, wire.V03, made, nil), `[]`)
}

// TestRoundTrip: a decoded message is encoded as it was sent, with the ids of the task.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		version wire.Version
		message string
	}{
		{wire.V10, `{"messageId":"m","contextId":"C","taskId":"T","role":"ROLE_USER","parts":[{"text":"\u00e4 <b>"},{"data":{"b" : 1e400,"a":[null]},"metadata":{"x":{}}},{"raw":"AA==","filename":"f","mediaType":"a/b"},{"url":"https://u"}],"metadata":{"a":-0.0},"extensions":["e"],"referenceTaskIds":["r"]}`},
		{wire.V03, `{"kind":"message","messageId":"m","contextId":"C","taskId":"T","role":"user","parts":[{"kind":"text","text":"a"},{"kind":"data","data":{"b" : 1e400}},{"kind":"file","file":{"bytes":"AA==","name":"f","mimeType":"a/b"}},{"kind":"file","file":{"uri":"https://u"},"metadata":{"x":1}}]}`},
		{wire.V01, `{"role":"user","parts":[{"type":"text","text":"a"},{"type":"data","data":{"b" : 1e400}},{"type":"file","file":{"bytes":"AA==","name":"f","mimeType":"a/b"}}],"metadata":{"a":1}}`},
	} {
		s, violations := wire.DecodeSend(c.version, object(`{"id":"T","message":`+c.message+`}`))
		if violations != nil {
			t.Fatal(violations)
		}
		got := wire.AppendTask(nil, c.version, &task.Task{ID: "T", Context: "C", Status: task.Status{State: task.Working}, History: []task.Message{s.Message}}, new(1), true)
		var told struct {
			History []jsontext.Value `json:"history"`
		}
		if err := json.Unmarshal(got, &told, jsontext.AllowDuplicateNames(true)); err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(c.message, `\u00e4`, "ä", 1) // texts are told without escapes
		if string(told.History[0]) != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.version, told.History[0], want)
		}
	}
}
