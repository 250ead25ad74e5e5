package wire_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// object returns params without collected members.
func object(text string) jsonrpc.Object { return jsonrpc.Object{Text: jsontext.Value(text)} }

// collected returns params with their members and the members of these, as the server collects them.
func collected(t *testing.T, text string) jsonrpc.Object {
	t.Helper()
	o := object(text)
	o.Members = membersOf(t, o.Text, true)
	return o
}

func membersOf(tb testing.TB, text jsontext.Value, nested bool) []jsonrpc.Member {
	tb.Helper()
	d := jsontext.NewDecoder(strings.NewReader(string(text)), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		tb.Fatal(err)
	}
	members := []jsonrpc.Member{}
	for d.PeekKind() == '"' {
		name, _ := d.ReadValue()
		m := jsonrpc.Member{Name: name.Clone()}
		value, err := d.ReadValue()
		if err != nil {
			tb.Fatal(err)
		}
		m.Value = value.Clone()
		if nested && m.Value.Kind() == '{' {
			m.Members = membersOf(tb, m.Value, false)
		}
		members = append(members, m)
	}
	return members
}

// sendCases are params with what is decoded, or with the violations.
var sendCases = []struct {
	name    string
	version wire.Version
	params  string
	want    string // of describe
}{
	{
		"1.0", wire.V10,
		`{"message":{"messageId":"m","contextId":"c","taskId":"t","role":"ROLE_USER","parts":[{"text":"hi","mediaType":"text/markdown","metadata":{"input":"x"}}],
		"metadata":{"skillId":"s"},"extensions":["https://a"],"referenceTaskIds":["r"]},
		"configuration":{"acceptedOutputModes":["text/plain"],"historyLength":2,"returnImmediately":true,
		"taskPushNotificationConfig":{"id":"p","url":"https://w","token":"k","authentication":{"scheme":"Bearer","credentials":"q"}}},
		"metadata":{"b":1.0},"tenant":"x"}`,
		`task=t context=c id=m meta={"skillId":"s"} ext=[https://a] refs=[r] now history=2 push={Task: ID:p URL:https://w Token:k Scheme:Bearer Credentials:q Tenant:} request={"b":1.0} tenant=x | text "hi" type=text/markdown meta={"input":"x"}`,
	},
	{
		"1.0 in snake case", wire.V10,
		`{"message":{"message_id":"m","context_id":"c","task_id":"t","role":"ROLE_USER","parts":[{"text":"hi","media_type":"text/markdown"}],"reference_task_ids":["r"]},
		"configuration":{"history_length":2,"return_immediately":true,"task_push_notification_config":{"url":"https://w"}}}`,
		`task=t context=c id=m refs=[r] now history=2 push={Task: ID: URL:https://w Token: Scheme: Credentials: Tenant:} | text "hi" type=text/markdown`,
	},
	{
		"1.0: null is absent", wire.V10,
		`{"message":{"messageId":"m","contextId":null,"taskId":"","role":"ROLE_USER","parts":[{"text":"hi","data":null,"metadata":null}],"metadata":null,"extensions":null},"configuration":null,"tenant":null}`,
		`id=m | text "hi"`,
	},
	{
		"1.0: all kinds of parts", wire.V10,
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""},{"data":{"n":12345678901234567890.10}},{"data":[1]},{"data":"s"},{"data":null},{"raw":"-_8","filename":"f","mediaType":"image/png"},{"url":"https://u"}]}}`,
		`id=m | text "" | data {"n":12345678901234567890.10} | data [1] | data "s" | data null | bytes "+/8=" file=f type=image/png | url "https://u"`,
	},
	{
		"1.0: unknown members", wire.V10,
		`{"x":1,"message":{"kind":"message","messageId":"m","role":"ROLE_USER","parts":[{"kind":"text","text":"hi"}]},"configuration":{"blocking":false}}`,
		`id=m | text "hi"`,
	},
	{
		"1.0: whole numbers", wire.V10,
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""}]},"configuration":{"historyLength":5e1}}`,
		`id=m history=50 | text ""`,
	},
	{
		"1.0: a huge number", wire.V10,
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""}]},"configuration":{"historyLength":1e999}}`,
		`id=m history=2147483647 | text ""`,
	},
	{
		"1.0: a message id of 256 characters", wire.V10,
		`{"message":{"messageId":"` + strings.Repeat("ä", 256) + `","role":"ROLE_USER","parts":[{"text":""}]}}`,
		`id=` + strings.Repeat("ä", 256) + ` | text ""`,
	},
	{"1.0: no params", wire.V10, ``, `! message is required`},
	{"1.0: no message", wire.V10, `{"message":null}`, `! message is required`},
	{"1.0: a text as message", wire.V10, `{"message":"hi"}`, `! message must be an object`},
	{"1.0: an empty message", wire.V10, `{"message":{}}`, `! message.role is required; message.messageId is required; message.parts is required`},
	{"1.0: the agent's role", wire.V10, `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"a"}]}}`, `! message.role must be ROLE_USER`},
	{"1.0: a role of 0.3", wire.V10, `{"message":{"messageId":"m","role":"user","parts":[{"text":"a"}]}}`, `! message.role must be ROLE_USER`},
	{"1.0: no part", wire.V10, `{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}`, `! message.parts must have at least one part`},
	{"1.0: an object as parts", wire.V10, `{"message":{"messageId":"m","role":"ROLE_USER","parts":{"text":"a"}}}`, `! message.parts must be an array`},
	{
		"1.0: wrong parts", wire.V10,
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":["a",{},{"text":"a","url":"https://u"},{"text":1},{"raw":"?"},{"url":""},{"text":"a","metadata":[]},{"text":"a","text":"b"},{"data":{},"raw":null}]}}`,
		`! message.parts[0] must be an object; message.parts[1] must have exactly one of text, raw, url and data; message.parts[2] must have exactly one of text, raw, url and data; ` +
			`message.parts[3].text must be a string; message.parts[4].raw must be base64; message.parts[5].url must not be empty; message.parts[6].metadata must be an object; message.parts[7].text must not appear twice`,
	},
	{
		"1.0: wrong ids", wire.V10,
		`{"message":{"messageId":"","contextId":"` + strings.Repeat("c", 257) + `","taskId":7,"role":"ROLE_USER","parts":[{"text":""}],"referenceTaskIds":["a",""],"extensions":[1]}}`,
		`! message.messageId must have from 1 to 256 characters; message.contextId must have from 1 to 256 characters; message.taskId must be a string; message.extensions[0] must be a string; message.referenceTaskIds[1] must have from 1 to 256 characters`,
	},
	{
		"1.0: a name in both cases", wire.V10,
		`{"message":{"messageId":"m","message_id":"n","role":"ROLE_USER","parts":[{"text":""}]}}`,
		`! message.messageId must not appear twice`,
	},
	{
		"1.0: a wrong configuration", wire.V10,
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""}]},"configuration":{"historyLength":-1,"returnImmediately":"yes","taskPushNotificationConfig":{"authentication":{"credentials":"a\r\nb"}}},"metadata":3}`,
		`! metadata must be an object; configuration.historyLength must be a whole number, 0 or greater; configuration.returnImmediately must be true or false; ` +
			`configuration.taskPushNotificationConfig.url is required; configuration.taskPushNotificationConfig.authentication.credentials must not have line breaks or other control characters; ` +
			`configuration.taskPushNotificationConfig.authentication.scheme is required`,
	},
	{
		"1.0: fractions", wire.V10,
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""}]},"configuration":{"historyLength":1.5}}`,
		`! configuration.historyLength must be a whole number, 0 or greater`,
	},
	{
		"1.0: a number as text", wire.V10,
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""}]},"configuration":{"historyLength":"1"}}`,
		`! configuration.historyLength must be a whole number, 0 or greater`,
	},
	{
		"0.3", wire.V03,
		`{"message":{"kind":"message","messageId":"m","contextId":"c","taskId":"t","role":"user","parts":[{"kind":"text","text":"hi"},{"kind":"data","data":{"a":1.0},"metadata":{}},
		{"kind":"file","file":{"bytes":"AAA=","name":"n","mimeType":"image/png"}},{"kind":"file","file":{"uri":"https://u"}}],"extensions":["e"],"referenceTaskIds":["r"]},
		"configuration":{"blocking":false,"historyLength":0,"pushNotificationConfig":{"id":"p","url":"https://w","token":"k","authentication":{"schemes":["Basic","Bearer"],"credentials":"q"}}},"metadata":{}}`,
		`task=t context=c id=m ext=[e] refs=[r] now history=0 push={Task: ID:p URL:https://w Token:k Scheme:Basic Credentials:q Tenant:} request={} | text "hi" | data {"a":1.0} meta={} | bytes "AAA=" file=n type=image/png | url "https://u"`,
	},
	{
		"0.3: blocking", wire.V03,
		`{"message":{"messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]},"configuration":{"blocking":true}}`,
		`id=m | text "hi"`,
	},
	{
		"0.3: no snake case", wire.V03,
		`{"message":{"message_id":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}`,
		`! message.messageId is required`,
	},
	{
		"0.3: wrong parts", wire.V03,
		`{"message":{"kind":"task","messageId":"m","role":"user","parts":[{"text":"hi"},{"kind":"image"},{"kind":"text"},{"kind":"data","data":[1]},{"kind":"file","file":{}},{"kind":"file","file":{"bytes":"AAA","uri":"https://u"}},
		{"kind":"file","file":{"bytes":"AAA"}},{"kind":"file","file":{"uri":1}},{"kind":"file","file":"AAAA"},{"type":"text","text":"a"}]}}`,
		`! message.kind must be message; message.parts[0].kind is required; message.parts[1].kind must be text, file or data; message.parts[2].text is required; message.parts[3].data must be an object; ` +
			`message.parts[4].file must have either bytes or uri; message.parts[5].file must have either bytes or uri; message.parts[6].file.bytes must be base64; message.parts[7].file.uri must be a string; ` +
			`message.parts[8].file must be an object; message.parts[9].kind is required`,
	},
	{
		"0.3: an empty id", wire.V03,
		`{"message":{"messageId":"m","contextId":"","role":"user","parts":[{"kind":"text","text":""}]}}`,
		`! message.contextId must have from 1 to 256 characters`,
	},
	{
		"0.1", wire.V01,
		`{"id":"t","sessionId":"c","message":{"role":"user","parts":[{"type":"text","text":"hi"},{"type":"data","data":{}},{"type":"file","file":{"name":"n","bytes":"AAAA"}}],"metadata":{"skillId":"s"}},
		"acceptedOutputModes":["text"],"historyLength":4,"pushNotification":{"url":"https://w","authentication":{"schemes":["Bearer"]}},"metadata":{"a":1}}`,
		`task=t context=c meta={"skillId":"s"} history=4 push={Task: ID: URL:https://w Token: Scheme:Bearer Credentials: Tenant:} request={"a":1} | text "hi" | data {} | bytes "AAAA" file=n`,
	},
	{
		"0.1: null is absent", wire.V01,
		`{"id":"t","sessionId":null,"message":{"role":"user","parts":[{"type":"text","text":"hi","metadata":null}],"metadata":null},"acceptedOutputModes":null,"pushNotification":null,"historyLength":null,"metadata":null}`,
		`task=t | text "hi"`,
	},
	{"0.1: no id", wire.V01, `{"message":{"role":"user","parts":[{"type":"text","text":"hi"}]}}`, `! id is required`},
	{"0.1: the parts of 0.3", wire.V01, `{"id":"t","message":{"role":"user","parts":[{"kind":"text","text":"hi"}]}}`, `! message.parts[0].type is required`},
	{"0.1: the agent's role", wire.V01, `{"id":"t","message":{"role":"agent","parts":[{"type":"text","text":"hi"}]}}`, `! message.role must be user`},
}

func TestDecodeSend(t *testing.T) {
	for _, c := range sendCases {
		t.Run(c.name, func(t *testing.T) {
			s, violations := wire.DecodeSend(c.version, object(c.params))
			if got := describe(&s, violations); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if c.params == "" {
				return
			}
			s, violations = wire.DecodeSend(c.version, collected(t, c.params))
			if got := describe(&s, violations); got != c.want {
				t.Errorf("of collected members: got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// describe returns what was decoded as one line, without what is absent.
func describe(s *wire.Send, violations []wire.Violation) string {
	var b strings.Builder
	if violations != nil {
		b.WriteString("!")
		for i, v := range violations {
			if i > 0 {
				b.WriteString(";")
			}
			fmt.Fprintf(&b, " %s %s", v.Field, v.Description)
		}
		return b.String()
	}
	add := func(name, value string) {
		if value != "" {
			b.WriteString(name + value + " ")
		}
	}
	add("task=", s.Task)
	add("context=", s.Context)
	add("id=", s.Message.ID)
	add("meta=", string(s.Message.Metadata))
	if s.Message.Extensions != nil {
		add("ext=", fmt.Sprint(s.Message.Extensions))
	}
	if s.Message.References != nil {
		add("refs=", fmt.Sprint(s.Message.References))
	}
	if s.Immediately {
		b.WriteString("now ")
	}
	if s.HistoryLength != nil {
		add("history=", strconv.Itoa(*s.HistoryLength))
	}
	if s.Push != nil {
		add("push=", fmt.Sprintf("%+v", *s.Push))
	}
	add("request=", string(s.Metadata))
	add("tenant=", s.Tenant)
	for _, p := range s.Message.Parts {
		b.WriteString("| ")
		switch p.Kind {
		case front.PartText:
			fmt.Fprintf(&b, "text %q ", p.Text)
		case front.PartData:
			fmt.Fprintf(&b, "data %s ", p.Data)
		case front.PartBytes:
			fmt.Fprintf(&b, "bytes %q ", p.Text)
		case front.PartURL:
			fmt.Fprintf(&b, "url %q ", p.Text)
		}
		add("file=", p.Filename)
		add("type=", p.MediaType)
		add("meta=", string(p.Metadata))
	}
	return strings.TrimSpace(b.String())
}

// TestDecodeSendIsBounded: a message of very many small elements is refused, and one of many ordinary parts is not.
func TestDecodeSendIsBounded(t *testing.T) {
	const head, tail = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}`, `]}}`
	for _, c := range []struct {
		name, params, want string
	}{
		{"empty parts", head + strings.Repeat(`,{"url":"a"}`, 80_000) + tail, "message.parts has too many small elements"},
		{"empty extensions", head + `],"extensions":[""` + strings.Repeat(`,""`, 300_000) + tail, "message.extensions has too many small elements"},
		{"wrong parts", head + strings.Repeat(`,1`, 400_000) + tail, "message.parts[20] must be an object"},
		{"ordinary parts", head + strings.Repeat(`,{"text":"a few words of a line, which is short"}`, 15_000) + tail, ""},
		{"many members", head + `],"x":{"a":1` + strings.Repeat(`,"b":1`, 100_000) + `},"y":[` + tail, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, violations := wire.DecodeSend(wire.V10, object(c.params))
			last := ""
			if n := len(violations); n > 0 {
				last = violations[n-1].Field + " " + violations[n-1].Description
			}
			if last != c.want {
				t.Errorf("got %q and %d parts, want %q", last, len(s.Message.Parts), c.want)
			}
		})
	}
}
