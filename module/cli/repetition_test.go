package cli

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"
)

// A call is sent again with its key after a lost connection, if the bridge knows keys, and without one to a bridge that refuses it.
func TestEndpointRepeats(t *testing.T) {
	const (
		knows   = `{"methods":[{"name":"get_run"},{"name":"execute_skill","params":[{"name":"name"},{"name":"idempotency_key"}]}]}`
		lacks   = `{"methods":[{"name":"execute_skill","params":[{"name":"name"}]}]}`
		done    = `{"status":"completed","run_id":"run-1","output":7}`
		refused = `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no storage","data":{"param":"idempotency_key","executed":"no","next":"fix_params"}}}`
	)
	lost, down := io.ErrUnexpectedEOF, error(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	for _, c := range []struct {
		name   string
		steps  []any // answers to execute_skill and rpc.discover, in turn: an error, a result or an error of JSON-RPC
		status int
		calls  int
		keys   int // that the calls have
		note   string
	}{
		{"lost once", []any{lost, knows, done}, OK, 2, 1, "is sent again with its idempotency key"},
		{"lost, and down for a time", []any{lost, down, down, knows, done}, OK, 2, 1, "is sent again"},
		{"lost, and down", []any{lost, down, down, down, down}, ProtocolError, 1, 1, "executed: maybe"},
		{"lost each time", []any{lost, knows, lost, knows, lost, knows, lost, knows, lost}, ProtocolError, 5, 1, "executed: maybe"},
		{"without keys", []any{lost, lacks}, ProtocolError, 1, 1, "executed: maybe"},
		{"down", []any{down}, ProtocolError, 1, 1, "executed: no"},
		{"refused", []any{refused, done}, OK, 2, 2, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			out, errs := new(bytes.Buffer), new(bytes.Buffer)
			var keys []string
			steps, calls := c.steps, 0
			e := &Endpoint{
				Screen: &Screen{Out: bufio.NewWriter(out), Err: errs}, URL: "https://bridge.example/rpc", Command: "caddy",
				Do: func(r *http.Request) (*http.Response, error) {
					var request struct {
						Method string `json:"method"`
						Params struct {
							Key string `json:"idempotency_key"`
						} `json:"params"`
					}
					if err := json.UnmarshalRead(r.Body, &request); err != nil {
						return nil, err
					}
					if request.Method == "describe_skill" {
						return result(`{"skill":{"manifest":{"name":"acme.a"}}}`)
					}
					if request.Method == "execute_skill" {
						calls++
						keys = append(keys, request.Params.Key)
					}
					step := steps[0]
					steps = steps[1:]
					switch step := step.(type) {
					case error:
						return nil, step
					case string:
						if strings.HasPrefix(step, `{"jsonrpc"`) {
							return response(http.StatusOK, step)
						}
						return result(step)
					}
					return nil, io.EOF
				},
			}
			status := e.Screen.End(e.Call(t.Context(), "acme.a", Arguments{}, 0))
			if different := slices.Compact(keys); status != c.status || calls != c.calls || len(different) != c.keys || keys[0] == "" || len(steps) != 0 || !strings.Contains(errs.String(), c.note) {
				t.Errorf("%s: status %d, %d calls with the keys %q, %d steps are left: %s", c.name, status, calls, keys, len(steps), errs)
			}
		})
	}
}
