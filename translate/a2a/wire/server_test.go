package wire_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// TestDecodeSendOfServer: params are decoded from what the server has collected of them, also if they have too many members
// to be collected, and the message stays as it is when the server uses the memory of the request again.
func TestDecodeSendOfServer(t *testing.T) {
	for _, c := range []struct {
		name string
		more string // members of the message
	}{
		{"few members", ``},
		{"too many members", `,"x":0` + strings.Repeat(`,"y":0`, 3000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			params := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"},{"data":{"a":1}}],"metadata":{"skillId":"s"}` + c.more + `},"configuration":{"historyLength":3}}`
			var sent wire.Send
			var violations []wire.Violation
			server := jsonrpc.Server{Handler: jsonrpc.Handler(func(_ context.Context, r *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
				sent, violations = wire.DecodeSend(wire.V10, jsonrpc.Object{Text: r.Params, Members: r.Members})
				clear(r.Params)
				return jsontext.Value(`null`), nil
			})}
			request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":`+params+`}`))
			request.Header.Set("Content-Type", "application/json")
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, request)
			const want = `id=m meta={"skillId":"s"} history=3 | text "hi" | data {"a":1}`
			if got := describe(&sent, violations); got != want {
				t.Errorf("got %s, want %s (%s)", got, want, answer.Body)
			}
		})
	}
}
