package jsonrpc_test

import (
	"net/http"
	"testing"
)

// TestSpecification sends the examples of JSON-RPC 2.0, section 7, and compares the answers
// with those of the specification.
func TestSpecification(t *testing.T) {
	const (
		parseError     = `{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}`
		invalidRequest = `{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}`
	)
	for _, c := range []struct {
		name, request string
		status        int
		response      string
	}{
		{
			"positional parameters 1",
			`{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}`,
			http.StatusOK, `{"jsonrpc": "2.0", "result": 19, "id": 1}`,
		},
		{
			"positional parameters 2",
			`{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}`,
			http.StatusOK, `{"jsonrpc": "2.0", "result": -19, "id": 2}`,
		},
		{
			"named parameters 1",
			`{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}`,
			http.StatusOK, `{"jsonrpc": "2.0", "result": 19, "id": 3}`,
		},
		{
			"named parameters 2",
			`{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}`,
			http.StatusOK, `{"jsonrpc": "2.0", "result": 19, "id": 4}`,
		},
		{
			"notification",
			`{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}`,
			http.StatusNoContent, ``,
		},
		{
			"notification of an unknown method",
			`{"jsonrpc": "2.0", "method": "foobar"}`,
			http.StatusNoContent, ``,
		},
		{
			"non-existent method",
			`{"jsonrpc": "2.0", "method": "foobar", "id": "1"}`,
			http.StatusOK, `{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}`,
		},
		{
			"invalid JSON",
			`{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]`,
			http.StatusBadRequest, parseError,
		},
		{
			"invalid Request object",
			`{"jsonrpc": "2.0", "method": 1, "params": "bar"}`,
			http.StatusOK, invalidRequest,
		},
		{
			"batch, invalid JSON",
			`[
  {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
  {"jsonrpc": "2.0", "method"
]`,
			http.StatusBadRequest, parseError,
		},
		{"empty array", `[]`, http.StatusOK, invalidRequest},
		{"invalid batch, not empty", `[1]`, http.StatusOK, `[` + invalidRequest + `]`},
		{
			"invalid batch", `[1,2,3]`, http.StatusOK,
			`[` + invalidRequest + `,` + invalidRequest + `,` + invalidRequest + `]`,
		},
		{
			"batch",
			`[
        {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
        {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
        {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"} 
    ]`,
			http.StatusOK, `[
        {"jsonrpc": "2.0", "result": 7, "id": "1"},
        {"jsonrpc": "2.0", "result": 19, "id": "2"},
        {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
        {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"},
        {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}
    ]`,
		},
		{
			"batch of notifications",
			`[
        {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
    ]`,
			http.StatusNoContent, ``,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, post(t, newToyServer(), c.request), c.status, c.response)
		})
	}
}
