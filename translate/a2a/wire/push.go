package wire

import (
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// PushParams are the params of the methods for webhooks.
type PushParams struct {
	// Task is the id of the task; empty: the webhook was sent in a message, and is for the task of that message.
	Task string
	// ID is the id of the webhook; empty: the client has not named one.
	ID string
	// URL, Token, Scheme and Credentials are used in requests to the webhook. All but the URL may be empty.
	URL, Token, Scheme, Credentials string
	// Tenant is a member of 1.0; empty: none.
	Tenant string
}

// Bounds of the values that are sent to a webhook, in bytes.
const (
	maxScheme = 64
	maxSecret = 4096
)

// taskMembers are the names of the member with the id of a webhook's task.
var taskMembers = [...]string{V01: "id", V03: "taskId", V10: "taskId"}

// DecodePush decodes the params of the methods that set a webhook.
func DecodePush(v Version, params jsonrpc.Object) (p PushParams, violations []Violation) {
	d := decoder{version: v}
	o := d.object("", pushNames, params)
	p.Task = o.requiredID(taskMembers[v])
	if v == V10 {
		p.Tenant = o.text("tenant")
		decodeWebhook(&o, &p)
		return p, d.violations
	}
	o.needs("pushNotificationConfig")
	if c, ok := o.member("pushNotificationConfig", pushNames); ok {
		decodeWebhook(&c, &p)
	}
	return p, d.violations
}

// DecodePushQuery decodes the params of the methods that read, list or delete webhooks. named says that the id of the
// webhook is required.
func DecodePushQuery(v Version, params jsonrpc.Object, named bool) (p PushParams, violations []Violation) {
	d := decoder{version: v}
	o := d.object("", pushNames, params)
	id := "id"
	switch v {
	case V01: // this version has no ids of webhooks, since a task has one webhook
		p.Task = o.requiredID("id")
		return p, d.violations
	case V03:
		p.Task, id = o.requiredID("id"), "pushNotificationConfigId"
	case V10:
		p.Task, p.Tenant = o.requiredID("taskId"), o.text("tenant")
	}
	if p.ID = o.id(id); named {
		p.ID = o.requiredID(id)
	}
	return p, d.violations
}

// decodeInline returns a member that is a webhook, or nil if it is absent.
func decodeInline(o *object, name string) *PushParams {
	c, ok := o.member(name, pushNames)
	if !ok {
		return nil
	}
	p := new(PushParams)
	decodeWebhook(&c, p)
	return p
}

// decodeWebhook decodes a webhook.
func decodeWebhook(o *object, p *PushParams) {
	p.URL, p.Token = o.requiredText("url"), o.secret("token")
	if len(p.URL) > maxURL {
		o.wrong("url", "must have at most 2048 bytes")
	}
	if o.version != V01 {
		p.ID = o.id("id")
	}
	a, ok := o.member("authentication", authNames)
	if !ok {
		return
	}
	p.Credentials = a.secret("credentials")
	scheme := "scheme"
	if o.version == V10 {
		p.Scheme = a.requiredText(scheme)
	} else {
		scheme = "schemes"
		p.Scheme = a.firstText(scheme)
	}
	if p.Scheme != "" && (len(p.Scheme) > maxScheme || !httpguts.ValidHeaderFieldName(p.Scheme)) {
		a.wrong(scheme, "must be the name of an HTTP authentication scheme")
	}
}

// secret returns a text that will be sent in a header, or "" if it is absent.
func (o *object) secret(name string) string {
	s := o.text(name)
	switch {
	case len(s) > maxSecret:
		o.wrong(name, "must have at most 4096 bytes")
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == '\x7f' }):
		o.wrong(name, "must not have line breaks or other control characters")
	}
	return s
}

// firstText returns the first string of a list that must not be empty.
func (o *object) firstText(name string) (first string) {
	if !o.needs(name) {
		return ""
	}
	for v := range jsonrpc.Items(o.get(name).Value) {
		first = jsonrpc.Text(v)
		break
	}
	if first == "" {
		o.wrong(name, "must be a list of strings that is not empty")
	}
	return first
}

// PushConfig is a webhook that the later events of a task are sent to.
type PushConfig struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	// Secrets are the token and the credentials, sealed; empty: there are none.
	Secrets string `json:"secrets,omitzero"`
	// Scheme is the authentication scheme of the credentials; empty: none.
	Scheme string `json:"scheme,omitzero"`
	// Version is the version of A2A in which the webhook was set, and in whose form it gets events.
	Version string `json:"version"`
	// Set is when the webhook was set, in nanoseconds.
	Set int64 `json:"set"`
}

// AppendPush appends a webhook of a task, without its token and credentials.
func AppendPush(b []byte, v Version, t *task.Task, p *PushConfig) []byte {
	w := writer{front.Writer{Buf: b}, v, t}
	w.push(p)
	return w.Buf
}

// AppendPushList appends the webhooks of a task.
func AppendPushList(b []byte, v Version, t *task.Task, list []PushConfig) []byte {
	w := writer{front.Writer{Buf: b}, v, t}
	if v == V10 {
		w.Buf = append(w.Buf, '{')
		w.OpenArray("configs")
	} else {
		w.Buf = append(w.Buf, '[')
	}
	for i := range list {
		w.Next()
		w.push(&list[i])
	}
	w.CloseArray()
	if v == V10 {
		w.Text("nextPageToken", "")
		w.Close()
	}
	return w.Buf
}

func (w *writer) push(p *PushConfig) {
	w.Buf = append(w.Buf, '{')
	w.Text(taskMembers[w.version], w.taskID())
	if w.version != V10 {
		w.OpenMember("pushNotificationConfig")
	}
	if w.version != V01 {
		w.Text("id", p.ID)
	}
	w.Text("url", p.URL)
	if p.Scheme != "" {
		w.OpenMember("authentication")
		if w.version == V10 {
			w.Text("scheme", p.Scheme)
		} else {
			w.Texts("schemes", []string{p.Scheme})
		}
		w.Close()
	}
	if w.version != V10 {
		w.Close()
	}
	w.Close()
}
