package wire_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

var versions = []wire.Version{wire.V01, wire.V03, wire.V10}

// isJSON reports whether a text is one JSON value. Values of clients may have the same name twice.
func isJSON(text []byte) bool {
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true))
}

// checkViolations checks what the descriptions of violations may have.
func checkViolations(t *testing.T, violations []wire.Violation) {
	t.Helper()
	if len(violations) > 20 {
		t.Errorf("%d violations", len(violations))
	}
	for _, v := range violations {
		if v.Description == "" || len(v.Field) > 100 || strings.Contains(v.Field, "[]") {
			t.Errorf("%+v", v)
		}
	}
}

// FuzzDecodeSend: what decodes without violations can be told in every version, and shares no memory with the params.
func FuzzDecodeSend(f *testing.F) {
	for _, c := range sendCases {
		f.Add([]byte(c.params))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		for _, v := range versions {
			own := []byte(string(params))
			s, violations := wire.DecodeSend(v, object(string(own)))
			checkViolations(t, violations)
			if violations != nil || !isJSON(own) {
				continue
			}
			m := &s.Message
			if len(m.Parts) == 0 || m.Role != task.User || (m.ID == "") != (v == wire.V01) || v == wire.V01 && s.Task == "" {
				t.Fatalf("%s: %+v", v, s)
			}
			for _, id := range []string{m.ID, s.Task, s.Context} {
				if utf8.RuneCountInString(id) > 256 {
					t.Fatalf("an id of %d characters", utf8.RuneCountInString(id))
				}
			}
			checkParts(t, m.Parts)
			if memory := memoryOf(m); memory > 512<<10+5*len(own) {
				t.Fatalf("%d bytes of %d", memory, len(own))
			}
			checkSent(t, v, &s, own)
		}
	})
}

func checkParts(t *testing.T, parts []task.Part) {
	t.Helper()
	for _, p := range parts {
		switch p.Kind {
		case front.PartText, front.PartURL:
		case front.PartData:
			if !isJSON(p.Data) {
				t.Fatalf("data is %q", p.Data)
			}
		case front.PartBytes:
			if _, ok := front.Base64([]byte(p.Text), false); !ok {
				t.Fatalf("bytes are %q", p.Text)
			}
		default:
			t.Fatalf("a part of kind %d", p.Kind)
		}
	}
}

// checkSent checks that a message is encoded the same after the memory of its params was overwritten.
func checkSent(t *testing.T, v wire.Version, s *wire.Send, params []byte) {
	t.Helper()
	made := &task.Task{ID: "t", Context: s.Context, History: []task.Message{s.Message}, Status: task.Status{State: task.Working, At: time.Unix(0, 0)}}
	var told []string
	for _, as := range versions {
		result := wire.AppendSendResult(nil, as, made, new(int(1)))
		if !isJSON(result) {
			t.Fatalf("%s as %s: %s", v, as, result)
		}
		told = append(told, string(result))
	}
	clear(params)
	for i, as := range versions {
		if string(wire.AppendSendResult(nil, as, made, new(int(1)))) != told[i] {
			t.Fatalf("%s: the message shares memory with the params", v)
		}
	}
}

// memoryOf returns the approximate memory of a message.
func memoryOf(m *task.Message) int {
	n := len(m.Metadata) + 16*(cap(m.Extensions)+cap(m.References)) + 104*cap(m.Parts)
	for _, s := range append(m.Extensions, m.References...) {
		n += len(s)
	}
	for _, p := range m.Parts {
		n += len(p.Text) + len(p.Data) + len(p.Filename) + len(p.MediaType) + len(p.Metadata)
	}
	return n
}

// FuzzDecodeQueries: no params make the other decoders panic or return values out of bounds.
func FuzzDecodeQueries(f *testing.F) {
	f.Add([]byte(`{"id":"t","historyLength":3,"metadata":{},"tenant":"x"}`))
	f.Add([]byte(`{"contextId":"c","status":"TASK_STATE_WORKING","pageSize":7,"pageToken":"x","statusTimestampAfter":"2025-10-28T10:30:00Z","includeArtifacts":true}`))
	f.Add([]byte(`{"taskId":"t","id":"p","url":"https://a","token":"x","authentication":{"scheme":"Bearer","credentials":"y"}}`))
	f.Add([]byte(`{"taskId":"t","pushNotificationConfig":{"id":"p","url":"https://a","authentication":{"schemes":["Bearer"],"credentials":"y"}}}`))
	f.Add([]byte(`{"id":"t","pushNotificationConfigId":"p"}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		o := object(string(params))
		valid := isJSON(params)
		if q, violations := wire.DecodeList(o); violations == nil && valid {
			if q.PageSize < 0 || q.PageSize > 100 || q.State > task.Rejected || q.HistoryLength != nil && *q.HistoryLength < 0 {
				t.Errorf("%+v", q)
			}
		} else {
			checkViolations(t, violations)
		}
		for _, v := range versions {
			if q, violations := wire.DecodeTaskQuery(v, o); violations == nil && valid && q.ID == "" {
				t.Error("no id")
			}
			p, violations := wire.DecodePush(v, o)
			checkViolations(t, violations)
			if violations == nil && valid && (p.Task == "" || p.URL == "" || strings.ContainsAny(p.Token+p.Scheme+p.Credentials, "\r\n")) {
				t.Errorf("%+v", p)
			}
			for _, named := range []bool{false, true} {
				p, violations := wire.DecodePushQuery(v, o, named)
				if violations == nil && valid && (p.Task == "" || named && v != wire.V01 && p.ID == "") {
					t.Errorf("%+v", p)
				}
			}
		}
	})
}
