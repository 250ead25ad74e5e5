package a2a

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// setPush answers CreateTaskPushNotificationConfig and its older forms.
func setPush(r *request) (jsontext.Value, *jsonrpc.Error) {
	return nil, pushNotSupported(r.version)
}

// getPush answers GetTaskPushNotificationConfig and its older forms.
func getPush(r *request) (jsontext.Value, *jsonrpc.Error) {
	return nil, pushNotSupported(r.version)
}

// listPush answers ListTaskPushNotificationConfigs and its older form.
func listPush(r *request) (jsontext.Value, *jsonrpc.Error) {
	return nil, pushNotSupported(r.version)
}

// deletePush answers DeleteTaskPushNotificationConfig and its older form.
func deletePush(r *request) (jsontext.Value, *jsonrpc.Error) {
	return nil, pushNotSupported(r.version)
}

// addPush adds the webhook of a message to its task.
func (r *request) addPush(*task.Task, *wire.PushParams) error { return nil }
