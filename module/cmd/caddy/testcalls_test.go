package main_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A bridge is a bridge in a Caddy in this process.
type bridge struct {
	t        *testing.T
	endpoint string
	client   *http.Client
	logs     []string // log files
}

// logged returns all logs.
func (b *bridge) logged() string {
	b.t.Helper()
	return b.loggedTo(0)
}

// loggedTo returns one of the logs.
func (b *bridge) loggedTo(log int) string {
	b.t.Helper()
	text, err := os.ReadFile(b.logs[log])
	if err != nil {
		b.t.Fatal(err)
	}
	if len(text) == 0 {
		b.t.Error("nothing was logged: is this the log?")
	}
	return string(text)
}

// An answer is a response that has been read.
type answer struct {
	status int
	body   string
}

// send sends a request, with header names and values in turn.
func (b *bridge) send(method, url, body string, header ...string) answer {
	b.t.Helper()
	response := b.begin(method, url, body, header...)
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{response.StatusCode, string(read)}
}

// firstEvent sends a request that a stream answers, and returns the first line of the stream that is no comment.
func (b *bridge) firstEvent(url, body string, header ...string) string {
	b.t.Helper()
	response := b.begin(http.MethodPost, url, body, header...)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if line := lines.Text(); line != "" && line[0] != ':' {
			return line
		}
	}
	b.t.Errorf("HTTP %d without an event: %v", response.StatusCode, lines.Err())
	return ""
}

// begin sends a request and returns the answer, of which the header was read.
func (b *bridge) begin(method, url, body string, header ...string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return response
}

// post sends a body to the endpoint.
func (b *bridge) post(body string, header ...string) answer {
	b.t.Helper()
	return b.send(http.MethodPost, b.endpoint, body, append(header, "Content-Type", "application/json")...)
}

// An outcome is the answer to a call.
type outcome struct {
	Result jsontext.Value `json:"result"`
	Error  struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Code string `json:"code"`
			Next string `json:"next"`
		} `json:"data"`
	} `json:"error"`
}

// call makes one call. It fails the test if the answer is not JSON-RPC.
func (b *bridge) call(method, params string, header ...string) outcome {
	b.t.Helper()
	a := b.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, header...)
	if a.status != http.StatusOK {
		b.t.Fatalf("%s: HTTP status %d: %s", method, a.status, a.body)
	}
	return decode[outcome](b.t, a.body)
}

// argument is the argument of all calls.
const argument = "an-argument-of-the-caller"

// execute executes a skill and checks by its output that it is the right one.
func (b *bridge) execute(name, skillID string, header ...string) {
	b.t.Helper()
	o := b.call("execute_skill", `{"name":"`+name+`","args":{"text":"`+argument+`"}}`, header...)
	if o.Result == nil {
		b.t.Fatalf("%s: %+v", name, o.Error)
	}
	type result struct {
		Status string `json:"status"`
		Output struct {
			Skill string `json:"skill"`
		} `json:"output"`
	}
	if r := decode[result](b.t, string(o.Result)); r.Status != "completed" || r.Output.Skill != skillID {
		b.t.Errorf("%s: %s, want %s to be completed", name, o.Result, skillID)
	}
}

// names returns the names of the listed skills.
func (b *bridge) names(params string, header ...string) []string {
	b.t.Helper()
	type listing struct {
		Skills []struct {
			Name string `json:"name"`
		} `json:"skills"`
		Unavailable []jsontext.Value `json:"unavailable"`
	}
	l := decode[listing](b.t, string(b.call("list_skills", params, header...).Result))
	for _, u := range l.Unavailable {
		b.t.Errorf("unavailable: %s", u)
	}
	var names []string
	for _, s := range l.Skills {
		names = append(names, s.Name)
	}
	return names
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var into T
	if err := json.Unmarshal([]byte(text), &into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return into
}
