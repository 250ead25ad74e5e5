package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Client calls a bridge like an agent. It is safe for concurrent use.
type Client struct {
	URL    string
	HTTP   *http.Client
	tb     testing.TB
	header http.Header
	ctx    context.Context // of each call
	params object
	fresh  bool
}

// NewClient returns a client of the bridge at a URL, with its own connections.
func NewClient(tb testing.TB, url string) *Client {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 1024, ExpectContinueTimeout: time.Minute}
	tb.Cleanup(transport.CloseIdleConnections)
	return &Client{URL: url, HTTP: &http.Client{Transport: transport}, tb: tb, header: http.Header{}, ctx: tb.Context()}
}

// An Option changes what a client sends.
type Option func(*Client)

// With returns a copy of the client with further options. It shares the connections.
func (c *Client) With(options ...Option) *Client {
	other := *c
	other.header = c.header.Clone()
	other.params = maps.Clone(c.params)
	for _, option := range options {
		option(&other)
	}
	return &other
}

// Header sends a header field.
func Header(name, value string) Option { return func(c *Client) { c.header.Set(name, value) } }

// BasicAuth sends the credentials of basic authentication; see [Accounts].
func BasicAuth(user, password string) Option {
	return func(c *Client) {
		r := &http.Request{Header: c.header}
		r.SetBasicAuth(user, password)
	}
}

// Fresh uses a new connection for each call. A reload closes idle connections, and a call that is
// just being sent on one is lost.
func Fresh() Option { return func(c *Client) { c.fresh = true } }

// Context sets the context of the calls. The default is the test's.
func Context(ctx context.Context) Option { return func(c *Client) { c.ctx = ctx } }

// Timeout sends timeout_ms with each execute_skill.
func Timeout(d time.Duration) Option { return Param("timeout_ms", d.Milliseconds()) }

// Param sends a further parameter with each execute_skill.
func Param(name string, value any) Option {
	return func(c *Client) {
		if c.params == nil {
			c.params = object{}
		}
		c.params[name] = value
	}
}

// An Answer is the answer to a call.
type Answer struct {
	Call   string // the call id in the provider's counts, for Execute
	Err    error  // the HTTP answer is missing or incomplete; then only Took is set, too
	Status int    // of HTTP
	Header http.Header
	Body   []byte
	Took   time.Duration

	Result  jsontext.Value // nil: none
	Code    int            // of the JSON-RPC error; 0: none
	Message string
	Data    Data
}

// Data are the members of an error's data.
type Data struct {
	Code        string         `json:"code"`
	SkillID     string         `json:"skill_id"`
	HTTPStatus  int            `json:"http_status"`
	Phase       string         `json:"phase"`
	ExecutionID string         `json:"execution_id"`
	Details     jsontext.Value `json:"details"`
	Retry       *Retry         `json:"retry"`
	Source      string         `json:"source"`
	Executed    string         `json:"executed"`
	Next        string         `json:"next"`
	Param       string         `json:"param"`
	Reason      string         `json:"reason"`
	Raw         jsontext.Value `json:"-"`
}

// Retry is the retry advice of an error.
type Retry struct {
	SuggestedDelayMS float64 `json:"suggested_delay_ms"`
	MaxAttempts      int     `json:"max_attempts"`
}

// A Run is the result of execute_skill.
type Run struct {
	Status  string         `json:"status"`
	RunID   string         `json:"run_id"`
	Summary string         `json:"summary"`
	Output  jsontext.Value `json:"output"`
	Error   struct {
		Type     string         `json:"type"`
		Message  string         `json:"message"`
		Details  jsontext.Value `json:"details"`
		Retry    *Retry         `json:"retry"`
		Source   string         `json:"source"`
		Executed string         `json:"executed"`
		Next     string         `json:"next"`
	} `json:"error"`
}

// Run decodes the result of execute_skill.
func (a Answer) Run() Run {
	var r Run
	_ = json.Unmarshal(a.Result, &r) // missing members fail the test later
	return r
}

// Outcome returns the outcome of a call: "completed"; "failed " and the error type of the run; the
// code in an error's data, or the JSON-RPC code; "http " and the status of an answer without JSON-RPC;
// "gone" if the client canceled the call; "broken" if the connection failed.
func (a Answer) Outcome() string {
	switch {
	case errors.Is(a.Err, context.Canceled), errors.Is(a.Err, context.DeadlineExceeded):
		return "gone"
	case a.Err != nil:
		return "broken"
	case a.Data.Code != "":
		return a.Data.Code
	case a.Code != 0:
		return strconv.Itoa(a.Code)
	case a.Result == nil:
		return "http " + strconv.Itoa(a.Status)
	}
	switch r := a.Run(); r.Status {
	case "failed":
		return "failed " + r.Error.Type
	case "":
		return "result"
	default:
		return r.Status
	}
}

// String returns a text for a test's messages.
func (a Answer) String() string {
	if a.Err != nil {
		return a.Outcome() + ": " + a.Err.Error()
	}
	return a.Outcome() + ": " + strconv.Itoa(a.Status) + " " + string(a.Body)
}

// calls counts the calls of this process.
var calls atomic.Int64

// NewCall returns a unique call id.
func NewCall() string { return "call-" + strconv.FormatInt(calls.Add(1), 10) }

// Batch returns a batch of n calls of a skill for Post. Their ids count from 0.
func Batch(n int, skill string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"execute_skill","params":{"name":%q,"args":{"call":%q}}}`, i, skill, NewCall())
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// Execute calls execute_skill. It adds a new call id to arguments without "call".
func (c *Client) Execute(name string, args object) Answer {
	args = maps.Clone(args)
	if args == nil {
		args = object{}
	}
	call, ok := args["call"].(string)
	if !ok {
		call = NewCall()
		args["call"] = call
	}
	params := object{"name": name, "args": args}
	maps.Copy(params, c.params)
	a := c.Call("execute_skill", params)
	a.Call = call
	return a
}

// Names returns the names of all skills.
func (c *Client) Names() []string {
	var names []string
	cursor := any(nil)
	for {
		params := object{}
		if cursor != nil {
			params["cursor"] = cursor
		}
		var page struct {
			Skills []struct {
				Name string `json:"name"`
			} `json:"skills"`
			Next *string `json:"next_cursor"`
		}
		a := c.Call("list_skills", params)
		if err := json.Unmarshal(a.Result, &page); err != nil {
			c.tb.Errorf("list_skills: %v", a)
			return nil
		}
		for _, s := range page.Skills {
			names = append(names, s.Name)
		}
		if page.Next == nil {
			return names
		}
		cursor = *page.Next
	}
}

// Call calls a method. nil params are left out.
func (c *Client) Call(method string, params any) Answer {
	request := object{"jsonrpc": "2.0", "id": 1, "method": method}
	if params != nil {
		request["params"] = params
	}
	body, err := json.Marshal(request)
	if err != nil {
		return Answer{Err: err}
	}
	return c.Post(string(body))
}

// Post sends a body to the bridge. If the answer is one JSON-RPC response, Result, Code, Message and
// Data are set.
func (c *Client) Post(body string) Answer { return c.Send(http.MethodPost, c.URL, body) }

// Send sends a request to any URL.
func (c *Client) Send(method, url, body string) Answer {
	start := time.Now()
	a := c.send(method, url, body)
	a.Took = time.Since(start)
	return a
}

func (c *Client) send(method, url, body string) Answer {
	r, err := http.NewRequestWithContext(c.ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return Answer{Err: err}
	}
	r.Close = c.fresh
	r.Header = c.header.Clone()
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.HTTP.Do(r)
	if err != nil {
		return Answer{Err: err}
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{Err: err}
	}
	a := Answer{Status: response.StatusCode, Header: response.Header, Body: read}
	a.decode()
	return a
}

func (a *Answer) decode() {
	var response struct {
		Version string         `json:"jsonrpc"`
		Result  jsontext.Value `json:"result"`
		Error   struct {
			Code    int            `json:"code"`
			Message string         `json:"message"`
			Data    jsontext.Value `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Body, &response) != nil || response.Version != "2.0" {
		return
	}
	a.Result, a.Code, a.Message = response.Result, response.Error.Code, response.Error.Message
	_ = json.Unmarshal(response.Error.Data, &a.Data) // missing members fail the test later
	a.Data.Raw = response.Error.Data
}
