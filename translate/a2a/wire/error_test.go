package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// checkError checks an error. An empty code or message is not checked.
func checkError(t *testing.T, what string, got *jsonrpc.Error, message, data string) {
	t.Helper()
	if got.Message != message {
		t.Errorf("%s: got the message %q, want %q", what, got.Message, message)
	}
	check(t, what, got.Data, data)
}

func TestError(t *testing.T) {
	facts := map[string]string{"taskId": "a\r\nb"}
	const info = `"@type":"type.googleapis.com/google.rpc.ErrorInfo"`
	checkError(t, "1.0", wire.Error(wire.V10, wire.CodeTaskNotFound, "", facts), "Task not found",
		`[{`+info+`,"reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"taskId":"a  b"}}]`)
	checkError(t, "0.3", wire.Error(wire.V03, wire.CodeTaskNotFound, "", facts), "Task not found",
		`{"reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","taskId":"a  b"}`)
	checkError(t, "the bridge's", wire.Error(wire.V10, jsonrpc.CodeParseError, "", nil), "Invalid JSON payload",
		`[{`+info+`,"reason":"PARSE_ERROR","domain":"github.com/skill-bridge","metadata":{}}]`)
	checkError(t, "own words", wire.Error(wire.V01, wire.CodeUnsupportedOperation, "The task\x1b has ended.", nil), "The task  has ended.",
		`{"reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}`)
	long := wire.Error(wire.V03, wire.CodeTaskNotFound, "", map[string]string{"taskId": strings.Repeat("t", 256)})
	if want := `{"reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","taskId":"` + strings.Repeat("t", 199) + `…"}`; string(long.Data) != want {
		t.Errorf("got %s", long.Data)
	}
}

// TestStandardErrors: each code of A2A that occurs has a reason and a message.
func TestStandardErrors(t *testing.T) {
	for _, code := range []int{-32700, -32600, -32601, -32602, -32603, -32001, -32002, -32003, -32004, -32005, -32009} {
		e := wire.Error(wire.V10, code, "", nil)
		if e.Code != code || e.Message == "" || e.Message != wire.Message(code) || strings.Contains(string(e.Data), `"reason":""`) {
			t.Errorf("%d: %+v", code, e)
		}
	}
	if message := wire.Message(-32050); message != "" {
		t.Errorf("got %q", message)
	}
}

func TestInvalidParams(t *testing.T) {
	violations := []wire.Violation{{"message.parts", "must have at least one part"}, {"input.city", "is required"}}
	const list = `"fieldViolations":[{"field":"message.parts","description":"must have at least one part"},{"field":"input.city","description":"is required"}]`
	checkError(t, "1.0", wire.InvalidParams(wire.V10, "", violations, nil), "Invalid parameters",
		`[{"@type":"type.googleapis.com/google.rpc.BadRequest",`+list+`}]`)
	checkError(t, "0.1", wire.InvalidParams(wire.V01, "No.", violations, nil), "No.", `{`+list+`}`)
	const info = `"reason":"INVALID_PARAMS","domain":"github.com/skill-bridge"`
	checkError(t, "1.0 with candidates", wire.InvalidParams(wire.V10, "", nil, []string{"a", "b"}), "Invalid parameters",
		`[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[]},{"@type":"type.googleapis.com/google.rpc.ErrorInfo",`+info+`,"metadata":{"candidates":"a, b"}}]`)
	checkError(t, "0.3 with candidates", wire.InvalidParams(wire.V03, "", nil, []string{"a", "b"}), "Invalid parameters",
		`{"fieldViolations":[],`+info+`,"candidates":["a","b"]}`)
}

func TestBridgeError(t *testing.T) {
	f := &run.Failure{
		Kind: run.RateLimited, By: run.Provider, Executed: run.ExecutedNo, Phase: run.PhaseInvoke, HTTPStatus: 429, Ref: run.Ref{SkillID: "s"},
		Provider: &run.ProviderError{Code: "<any>", Details: jsontext.Value(`{"limit":1}`)}, Retry: run.RetryIn(time.Second, 2),
	}
	checkError(t, "1.0", wire.BridgeError(wire.V10, -32057, "Too many requests.", f, false), "Too many requests.",
		`[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMITED","domain":"github.com/skill-bridge","metadata":{"code":"RATE_LIMITED","executed":"no","next":"retry","source":"provider",`+
			`"phase":"invoke","skillId":"s","httpStatus":"429","details":"{\"limit\":1}","detailsSource":"provider","retry":"{\"suggested_delay_ms\":1000,\"max_attempts\":2}"}}]`)
	checkError(t, "0.3", wire.BridgeError(wire.V03, -32057, "Too many requests.", f, false), "Too many requests.",
		`{"reason":"RATE_LIMITED","domain":"github.com/skill-bridge","code":"RATE_LIMITED","executed":"no","next":"retry","source":"provider",`+
			`"phase":"invoke","skillId":"s","httpStatus":429,"details":{"limit":1},"detailsSource":"provider","retry":{"suggested_delay_ms":1000,"max_attempts":2}}`)
	checkError(t, "a bug", wire.BridgeError(wire.V03, -32603, "", &run.Failure{}, false), "Internal error",
		`{"reason":"INTERNAL_ERROR","domain":"github.com/skill-bridge","code":"INTERNAL_ERROR","executed":"maybe","next":"none","source":"bridge"}`)
	checkError(t, "no principal", wire.BridgeError(wire.V10, -32050, "", &run.Failure{Kind: run.AuthRequired, By: run.Bridge, Executed: run.ExecutedNo, Demand: run.NoPrincipal()}, false), "",
		`[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"AUTH_REQUIRED","domain":"github.com/skill-bridge","metadata":{"code":"AUTH_REQUIRED","executed":"no","next":"authenticate","source":"bridge",`+
			`"details":"{\"reason\":\"the request has no principal\",\"required_by\":\"bridge\"}"}}]`)
}
