package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
)

// endpointOf returns an endpoint that answers as respond does, and its outputs.
func endpointOf(respond func(method string, wait time.Duration) (*http.Response, error)) (e *Endpoint, out, errs *bytes.Buffer) {
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	return &Endpoint{
		Screen: &Screen{Out: bufio.NewWriter(out), Err: errs}, URL: "https://bridge.example/rpc", Command: "caddy",
		Do: func(r *http.Request) (*http.Response, error) {
			var request struct {
				Method string `json:"method"`
				Params struct {
					Wait int `json:"wait_ms"`
				} `json:"params"`
			}
			if err := json.UnmarshalRead(r.Body, &request); err != nil {
				return nil, err
			}
			return respond(request.Method, time.Duration(request.Params.Wait)*time.Millisecond)
		},
	}, out, errs
}

func response(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func result(text string) (*http.Response, error) {
	return response(http.StatusOK, `{"jsonrpc":"2.0","id":1,"result":`+text+`}`)
}

// TestEndpointRefusals: each answer without a result has a message and advice that fit.
func TestEndpointRefusals(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name   string
		method string // that is refused
		answer func() (*http.Response, error)
		want   []string
	}{
		{"a 401 of JSON-RPC", "list_skills", func() (*http.Response, error) {
			return response(http.StatusUnauthorized, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Who are you?"}}`)
		}, []string{"Error: Who are you?", "Next:  authenticate to the bridge"}},
		{"no result and no error", "list_skills", func() (*http.Response, error) { return response(http.StatusOK, `{"jsonrpc":"2.0","id":1}`) }, []string{"is not JSON-RPC", "executed: no"}},
		{"not the Skills Protocol", "list_skills", func() (*http.Response, error) { return result(`[1]`) }, []string{"not one of the Skills Protocol"}},
		{"controls", "list_skills", func() (*http.Response, error) {
			return response(http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32050,"message":"\u001b[2J","data":{"code":"\u001b","next":"retry"}}}`)
		}, []string{`\u001b[2J`, "Next:  try again later"}},
		{"nothing listens", "execute_skill", func() (*http.Response, error) { return nil, dial }, []string{"executed: no", "Next:  check the URL, or try again later"}},
		{"the connection breaks", "execute_skill", func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, []string{"executed: maybe", "Next:  the skill may have been executed"}},
		{"an answer without an end", "list_skills", func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(endless{})}, nil
		}, []string{"larger than 67108864 bytes"}},
	} {
		e, out, errs := endpointOf(func(method string, _ time.Duration) (*http.Response, error) {
			if method != c.method {
				return result(`{"skill":{"manifest":{"name":"acme.a"}}}`)
			}
			return c.answer()
		})
		var status int
		if c.method == "list_skills" {
			status = e.List(t.Context(), ListOptions{})
		} else {
			status = e.Call(t.Context(), "acme.a", Arguments{}, 0)
		}
		if e.Screen.End(status) != ProtocolError || out.Len() > 0 || strings.Contains(errs.String(), "\x1b") {
			t.Errorf("%s: %d, %q", c.name, status, out)
		}
		for _, want := range c.want {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%s: %s, want %s", c.name, errs, want)
			}
		}
	}
}

// TestEndpointInstructions: describe shows the instructions of a skill that can only be read, and call advises that.
func TestEndpointInstructions(t *testing.T) {
	e, out, errs := endpointOf(func(method string, _ time.Duration) (*http.Response, error) {
		switch method {
		case "describe_skill":
			return result(`{"skill":{"manifest":{"name":"docs.howto","version":"1.0.0","capability_type":"knowledge","state":"readable","files":["SKILL.md","a.py"]}}}`)
		case "read_skill_file":
			return result(`{"name":"docs.howto","path":"SKILL.md","content":"# How to\nRead \u001b it."}`)
		}
		return response(http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"can't be executed","data":{"param":"name","reason":"not_executable","skill_id":"howto","executed":"no","next":"fix_params"}}}`)
	})
	if status := e.Describe(t.Context(), "howto"); e.Screen.End(status) != OK || !strings.Contains(out.String(), "Files: SKILL.md, a.py\n\n# How to\nRead \\u001b it.") || strings.Contains(out.String(), "Call it") {
		t.Errorf("%d: %s%s", status, out, errs)
	}
	const advice = "Next:  read the instructions: caddy skill-bridge describe --bridge https://bridge.example/rpc docs.howto\n"
	if status := e.Call(t.Context(), "howto", Arguments{}, 0); e.Screen.End(status) != ProtocolError || !strings.Contains(errs.String(), advice) {
		t.Errorf("%d: %s", status, errs)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestEndpointFollow: the bridge waits for the end of a run; one that answers at once is not asked all the time, and one that can't be
// reached has not lost the run.
func TestEndpointFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, eager := 0, true
		e, out, errs := endpointOf(func(method string, wait time.Duration) (*http.Response, error) {
			switch method {
			case "describe_skill":
				return result(`{"skill":{"manifest":{"name":"acme.a"}}}`)
			case "execute_skill":
				return result(`{"status":"running","run_id":"run-1","run_token":"token","retry_after_ms":1}`)
			}
			if asked++; asked > 100 {
				return result(`{"status":"completed","run_id":"run-1","output":7}`)
			}
			if !eager {
				time.Sleep(wait)
			}
			return result(`{"status":"running","run_id":"run-1","run_token":"token","retry_after_ms":1}`)
		})
		start := time.Now()
		if status := e.Screen.End(e.Call(t.Context(), "acme.a", Arguments{}, 0)); status != OK || out.String() != "7\n" || time.Since(start) < 100*shortestPause {
			t.Errorf("%d, %s after %s: %s", status, out, time.Since(start), errs)
		}
		asked, eager = 0, false
		errs.Reset()
		start = time.Now()
		if status := e.Call(t.Context(), "acme.a", Arguments{}, 50*time.Second); status != ProtocolError || asked != 3 || time.Since(start) != 50*time.Second {
			t.Errorf("%d after %s and %d questions", status, time.Since(start), asked)
		}
		if want := "Next:  it continues; follow it: caddy skill-bridge follow --bridge https://bridge.example/rpc token\n"; !strings.HasSuffix(errs.String(), want) {
			t.Error(errs)
		}
	})
	e, _, errs := endpointOf(func(string, time.Duration) (*http.Response, error) { return nil, errors.New("no route") })
	if status := e.Follow(t.Context(), "", "-token", 0); status != ProtocolError || !strings.Contains(errs.String(), "follow it: caddy skill-bridge follow --bridge https://bridge.example/rpc -- -token") {
		t.Errorf("%d: %s", status, errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e, _, errs = endpointOf(func(method string, _ time.Duration) (*http.Response, error) {
		if method == "describe_skill" {
			cancel()
			return nil, ctx.Err()
		}
		return nil, errors.New("unexpected")
	})
	if status := e.Call(ctx, "acme.a", Arguments{}, 0); status != Interrupted || errs.String() != "interrupted; nothing was executed\n" {
		t.Errorf("%d: %s", status, errs)
	}
}

// TestEndpointDescribesInTime: a bridge that does not answer stops the command at its --timeout, before anything is executed, too.
func TestEndpointDescribesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _, errs := endpointOf(nil)
		e.Do = func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		start := time.Now()
		if status := e.Call(t.Context(), "acme.a", Arguments{}, 3*time.Second); status != ProtocolError || time.Since(start) != 3*time.Second {
			t.Errorf("%d after %s", status, time.Since(start))
		}
		if !strings.Contains(errs.String(), "the bridge did not answer in time") || !strings.Contains(errs.String(), "executed: no") {
			t.Error(errs)
		}
	})
}
