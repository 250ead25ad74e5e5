package wire_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// object returns params without collected members.
func object(text string) jsonrpc.Object { return jsonrpc.Object{Text: jsontext.Value(text)} }

func TestDecodeSendSnakeCase(t *testing.T) {
	s, violations := wire.DecodeSend(wire.V10, object(`{"message":{"message_id":"m","role":"ROLE_USER","task_id":"t","context_id":"c","parts":[{"text":"hi","media_type":"text/markdown"}]},"configuration":{"history_length":2,"return_immediately":true}}`))
	if violations != nil {
		t.Fatal(violations)
	}
	if s.Message.ID != "m" || s.Task != "t" || s.Context != "c" || !s.Immediately || *s.HistoryLength != 2 || s.Message.Parts[0].MediaType != "text/markdown" {
		t.Errorf("%+v", s)
	}
}
