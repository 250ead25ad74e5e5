package wire_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
)

// fields returns the fields of violations with their descriptions.
func fields(violations []wire.Violation) string {
	var list []string
	for _, v := range violations {
		list = append(list, v.Field+" "+v.Description)
	}
	return strings.Join(list, "; ")
}

func TestDecodeTaskQuery(t *testing.T) {
	const invisible = `id must have no control characters and no invisible ones`
	for _, c := range []struct {
		version              wire.Version
		params, want, faults string
	}{
		{wire.V10, `{"id":"t","historyLength":0,"tenant":"x","metadata":{"a":1}}`, `t 0 x`, ``},
		{wire.V10, `{"id":"t","history_length":3}`, `t 3 `, ``},
		{wire.V10, `{"id":"t","historyLength":null,"tenant":null}`, `t - `, ``},
		{wire.V03, `{"id":"t","historyLength":2,"tenant":7}`, `t 2 `, ``},
		{wire.V01, `{"id":"t"}`, `t - `, ``},
		{wire.V10, ``, ``, `id is required`},
		{wire.V10, `{"id":""}`, ``, `id must have from 1 to 256 characters`},
		{wire.V10, `{"id":"a b-ü漢"}`, `a b-ü漢 - `, ``},
		{wire.V10, `{"id":"a\u0000"}`, ``, invisible},
		{wire.V03, `{"id":"a\nb"}`, ``, invisible},
		{wire.V01, `{"id":"a\u202eb"}`, ``, invisible},
		{wire.V01, `{"id":"a\u200bb"}`, ``, invisible},
		{wire.V01, `{"id":"a\ufe0fb"}`, ``, invisible},
		{wire.V01, `{"id":"a\u0085"}`, ``, invisible},
		{wire.V03, `{"id":1,"historyLength":true}`, ``, `id must be a string; historyLength must be a whole number, 0 or greater`},
		{wire.V01, `{"id":"` + strings.Repeat("t", 257) + `"}`, ``, `id must have from 1 to 256 characters`},
	} {
		q, violations := wire.DecodeTaskQuery(c.version, object(c.params))
		if got := fields(violations); got != c.faults {
			t.Errorf("%s %s: got %q, want %q", c.version, c.params, got, c.faults)
		}
		length := "-"
		if q.HistoryLength != nil {
			length = fmt.Sprint(*q.HistoryLength)
		}
		if got := fmt.Sprintf("%s %s %s", q.ID, length, q.Tenant); c.faults == "" && got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.version, c.params, got, c.want)
		}
	}
}

func TestDecodeList(t *testing.T) {
	q, violations := wire.DecodeList(object(`{"contextId":"c","status":"TASK_STATE_INPUT_REQUIRED","pageSize":100,"pageToken":"p","historyLength":1,
		"statusTimestampAfter":"2025-10-28T11:30:00.5+01:00","includeArtifacts":true,"tenant":"x"}`))
	if violations != nil {
		t.Fatal(violations)
	}
	since := time.Date(2025, 10, 28, 10, 30, 0, 500_000_000, time.UTC)
	if q.Context != "c" || q.State != task.InputRequired || q.PageSize != 100 || q.PageToken != "p" || *q.HistoryLength != 1 || !q.Since.Equal(since) || !q.Artifacts || q.Tenant != "x" {
		t.Errorf("%+v", q)
	}
	for _, c := range [][2]string{
		{``, ``},
		{`{}`, ``},
		{`{"status":null,"page_size":1,"context_id":"","status_timestamp_after":"2025-10-28T10:30:00Z","include_artifacts":false}`, ``},
		{`{"status":"TASK_STATE_UNSPECIFIED"}`, ``},
		{`{"status":"working"}`, `status must be the name of a state, such as TASK_STATE_WORKING`},
		{`{"pageSize":0}`, `pageSize must be from 1 to 100`},
		{`{"pageSize":101}`, `pageSize must be from 1 to 100`},
		{`{"pageSize":-1}`, `pageSize must be a whole number, 0 or greater`},
		{`{"pageSize":"10"}`, `pageSize must be a whole number, 0 or greater`},
		{`{"statusTimestampAfter":"yesterday"}`, `statusTimestampAfter must be a time such as 2025-10-28T10:30:00.000Z`},
		{`{"statusTimestampAfter":1,"status":{}}`, `status must be a string; statusTimestampAfter must be a string`},
		{`{"historyLength":-1,"includeArtifacts":"no","pageToken":[]}`, `pageToken must be a string; historyLength must be a whole number, 0 or greater; includeArtifacts must be true or false`},
		{`[]`, `params must be an object`},
	} {
		if _, violations := wire.DecodeList(object(c[0])); fields(violations) != c[1] {
			t.Errorf("%s: got %q, want %q", c[0], fields(violations), c[1])
		}
	}
}

func TestDecodePush(t *testing.T) {
	for _, c := range []struct {
		version              wire.Version
		params, want, faults string
	}{
		{wire.V10, `{"taskId":"t","id":"p","url":"https://w","token":"k","authentication":{"scheme":"Bearer","credentials":"q"},"tenant":"x"}`, `{t p https://w k Bearer q x}`, ``},
		{wire.V10, `{"task_id":"t","url":"https://w","token":null,"authentication":null}`, `{t  https://w    }`, ``},
		{wire.V03, `{"taskId":"t","pushNotificationConfig":{"id":"p","url":"https://w","token":"k","authentication":{"schemes":["Bearer"],"credentials":"q"}}}`, `{t p https://w k Bearer q }`, ``},
		{wire.V01, `{"id":"t","pushNotificationConfig":{"id":7,"url":"https://w"}}`, `{t  https://w    }`, ``},
		{wire.V10, `{}`, ``, `taskId is required; url is required`},
		{wire.V03, `{"taskId":"t"}`, ``, `pushNotificationConfig is required`},
		{wire.V03, `{"taskId":"t","pushNotificationConfig":{"url":"","authentication":{"schemes":[]}}}`, ``, `pushNotificationConfig.url must not be empty; pushNotificationConfig.authentication.schemes must be a list of strings that is not empty`},
		{wire.V10, `{"taskId":"t","url":"https://` + strings.Repeat("w", 2048) + `","authentication":{"scheme":"Bearer: x"}}`, ``, `url must have at most 2048 bytes; authentication.scheme must be the name of an HTTP authentication scheme`},
		{wire.V10, `{"taskId":"t","url":"https://w","token":"a\nb"}`, ``, `token must not have line breaks or other control characters`},
		{wire.V10, `{"taskId":"t","url":"https://w","token":"` + strings.Repeat("k", 4097) + `"}`, ``, `token must have at most 4096 bytes`},
	} {
		p, violations := wire.DecodePush(c.version, object(c.params))
		if got := fields(violations); got != c.faults {
			t.Errorf("%s %s: got %q, want %q", c.version, c.params, got, c.faults)
		}
		if got := fmt.Sprint(p); c.faults == "" && got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.version, c.params, got, c.want)
		}
	}
}

func TestDecodePushQuery(t *testing.T) {
	for _, c := range []struct {
		version              wire.Version
		named                bool
		params, want, faults string
	}{
		{wire.V10, true, `{"taskId":"t","id":"p"}`, `t p`, ``},
		{wire.V10, true, `{"taskId":"t"}`, ``, `id is required`},
		{wire.V10, false, `{"task_id":"t","pageSize":5}`, `t `, ``},
		{wire.V03, true, `{"id":"t","pushNotificationConfigId":"p"}`, `t p`, ``},
		{wire.V03, false, `{"id":"t"}`, `t `, ``},
		{wire.V03, true, `{"id":"t"}`, ``, `pushNotificationConfigId is required`},
		{wire.V01, true, `{"id":"t"}`, `t `, ``},
		{wire.V01, true, `{}`, ``, `id is required`},
	} {
		p, violations := wire.DecodePushQuery(c.version, object(c.params), c.named)
		if got := fields(violations); got != c.faults {
			t.Errorf("%s %s: got %q, want %q", c.version, c.params, got, c.faults)
		}
		if got := p.Task + " " + p.ID; c.faults == "" && got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.version, c.params, got, c.want)
		}
	}
}
