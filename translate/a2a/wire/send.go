package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Send are the params of the methods that send a message.
type Send struct {
	// Task is the id of the task that the message is for; empty: a new one. In 0.1 the client chooses it, and it is never
	// empty.
	Task string
	// Context is the id of the conversation; empty: the client has not named one.
	Context string
	Message task.Message
	// Immediately says that the client gets its answer without waiting for the end of the run.
	Immediately bool
	// HistoryLength is the largest number of messages in the answer; nil: the default of the version.
	HistoryLength *int
	// Push is a webhook for the task; nil: none.
	Push *PushParams
	// Metadata is the metadata of the request, an object; nil: none.
	Metadata jsontext.Value
	// Tenant is a member of 1.0; empty: none.
	Tenant string
}

// The members of the params that send a message, and of their configuration.
const (
	sendMessage = iota
	sendMetadata
	sendConfiguration
	sendTenant
	sendID      = iota - 2 // 0.1 has these three instead of the two above
	sendSession = iota - 2
	sendHistoryLength
	sendPush
)

const (
	configurationHistoryLength = iota
	configurationWaiting
	configurationPush
)

var (
	sendNames = [...][]string{
		V01: {"message", "metadata", "id", "sessionId", "historyLength", "pushNotification"},
		V03: {"message", "metadata", "configuration"},
		V10: {"message", "metadata", "configuration", "tenant"},
	}
	configurationNames = [...][]string{
		V03: {"historyLength", "blocking", "pushNotificationConfig"},
		V10: {"historyLength", "returnImmediately", "taskPushNotificationConfig"},
	}
)

// DecodeSend decodes the params of the methods that send a message.
func DecodeSend(v Version, params jsonrpc.Object) (Send, []Violation) {
	d := decoder{version: v}
	o := d.object("", sendNames[v], params)
	s := Send{Metadata: o.raw(sendMetadata)}
	if v == V01 {
		s.Task, s.Context = o.requiredID(sendID), o.id(sendSession)
		s.HistoryLength = o.count(sendHistoryLength)
		s.Push = decodeInline(&o, sendPush)
	} else if c, ok := o.member(sendConfiguration, configurationNames[v]); ok {
		decodeConfiguration(&c, &s)
	}
	if v == V10 {
		s.Tenant = o.text(sendTenant)
	}
	if !o.has(sendMessage) {
		o.wrong(sendMessage, required)
	}
	if m, ok := o.member(sendMessage, messageNames[v]); ok {
		d.budget = listMemory + listMemoryPerByte*len(o.values[sendMessage].Value)
		decodeMessage(&m, &s)
	}
	return s, d.violations
}

// decodeConfiguration decodes the configuration of 1.0 and 0.3.
func decodeConfiguration(o *object, s *Send) {
	s.HistoryLength = o.count(configurationHistoryLength)
	s.Immediately = o.flag(configurationWaiting, o.version == V03) == (o.version == V10)
	s.Push = decodeInline(o, configurationPush)
}
