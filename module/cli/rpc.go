package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const (
	// maxAnswer is the largest answer of a bridge that is read, in bytes.
	maxAnswer = 64 << 20
	// AnswerTimeout is how long a command waits for an answer, beyond the time for which it asked the bridge to wait.
	AnswerTimeout = time.Minute
)

// refusal is the answer of a bridge that has no result, or the reason why there is no answer.
type refusal struct {
	wholeError
	SkillID     string     `json:"skill_id"`
	ExecutionID string     `json:"execution_id"`
	RunToken    string     `json:"run_token"`
	Param       string     `json:"param"`
	Reason      run.Reason `json:"reason"` // why Param is wrong

	failure *run.Failure // of a bridge in this process; nil: it is not known
}

// refusalOf returns the refusal for a failure of a bridge in this process.
func refusalOf(f *run.Failure) *refusal {
	r := &refusal{wholeError: *newWholeError(f), SkillID: f.SkillID, ExecutionID: f.ExecutionID, failure: f}
	if f.Argument != nil {
		r.Reason = f.Argument.Reason
	}
	return r
}

// Error implements error.
func (r *refusal) Error() string { return r.Message }

// answer is a JSON-RPC response.
type answer struct {
	Version string         `json:"jsonrpc"`
	Result  jsontext.Value `json:"result"`
	Error   *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	} `json:"error"`
}

// ask sends a request to the bridge and decodes the result. The bridge is asked to wait for up to wait before it answers. The error
// is a *refusal.
func (e *Endpoint) ask(ctx context.Context, wait time.Duration, method string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, wait+AnswerTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, json.Deterministic(true))
	if err != nil {
		return e.refused(run.NextFixParams, run.ExecutedNo, "the arguments are not valid: "+err.Error())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return e.refused(run.NextNone, run.ExecutedNo, err.Error())
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := e.Do(req)
	if err != nil {
		return e.unanswered(ctx, method, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return e.unanswered(ctx, method, err)
	}
	r := e.read(resp, text, result)
	if e.Provider != nil {
		if f := e.Provider.take(); f != nil && r != nil {
			said := refusalOf(f)
			said.RunToken = r.RunToken
			if f.Kind == run.DeadlineExceeded && f.By == run.Bridge && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				said.Message, said.Details = "the provider did not answer in time", nil // the failure has the timeout of the bridge, not of the command
			}
			return said
		}
	}
	switch {
	case r == nil:
		return nil
	case r.Executed == run.ExecutedMaybe && method != methodExecute:
		r.Executed = run.ExecutedNo
	}
	return r
}

// The methods of the Skills Protocol that have to do with runs.
const (
	methodExecute = "execute_skill"
	methodGetRun  = "get_run"
)

// read decodes an answer. It returns nil if there is a result.
func (e *Endpoint) read(resp *http.Response, text []byte, result any) *refusal {
	var a answer
	isAnswer := len(text) <= maxAnswer && json.Unmarshal(text, &a) == nil && a.Version == "2.0" && (a.Result != nil) != (a.Error != nil)
	location, _ := resp.Location() // nil: there is none
	const example = "check that the URL is that of a bridge's endpoint, such as https://bridge.example.com/rpc"
	switch {
	case isAnswer && a.Error == nil:
		if json.Unmarshal(a.Result, result) == nil {
			return nil
		}
		return e.refused(run.NextNone, run.ExecutedMaybe, "the answer of the bridge is not one of the Skills Protocol")
	case isAnswer && a.Error.Code == jsonrpc.CodeMethodNotFound:
		return e.refused(run.NextNone, run.ExecutedNo, a.Error.Message+": nothing speaks the Skills Protocol there; "+example)
	case isAnswer:
		r := new(refusal)
		_ = json.Unmarshal(a.Error.Data, r) // what is missing is not shown
		r.Message, r.URL = a.Error.Message, ""
		if r.Next == "" && isRefused(resp.StatusCode) {
			r.Next = run.NextAuthenticate
		}
		return r
	case isRefused(resp.StatusCode):
		r := e.refused(run.NextAuthenticate, run.ExecutedNo, "the bridge refused the request")
		r.Code, r.HTTPStatus = document.AuthRequired, resp.StatusCode
		return r
	case len(text) > maxAnswer:
		return e.refused(run.NextNone, run.ExecutedMaybe, fmt.Sprintf("the answer of the bridge is larger than %d bytes", maxAnswer))
	case resp.StatusCode/100 == 3 && location != nil:
		r := e.refused(run.NextNone, run.ExecutedNo, "the URL redirects to "+location.Redacted()+", which is not followed: use that URL")
		r.HTTPStatus = resp.StatusCode
		return r
	}
	r := e.refused(run.NextNone, run.ExecutedMaybe, "the answer is not JSON-RPC: "+example)
	r.HTTPStatus = resp.StatusCode
	if resp.StatusCode/100 == 4 {
		r.Executed = run.ExecutedNo
	}
	return r
}

// isRefused reports whether a status says that the credentials for the bridge are missing or wrong.
func isRefused(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired
}

// refused returns a refusal that has no answer of the bridge.
func (e *Endpoint) refused(next run.Next, executed run.Executed, message string) *refusal {
	return &refusal{wholeError: wholeError{Message: message, Executed: executed, Next: next, URL: e.URL}}
}

// unanswered returns the refusal for a request without a complete answer.
func (e *Endpoint) unanswered(ctx context.Context, method string, err error) *refusal {
	executed, next := run.ExecutedNo, run.NextRetry
	dial, ok := errors.AsType[*net.OpError](err)
	switch isDial := ok && dial.Op == "dial"; {
	case method == methodGetRun:
		executed, next = run.ExecutedYes, run.NextFollowRun
	case method == methodExecute && !isDial:
		executed, next = run.ExecutedMaybe, run.NextNone
	}
	reason := err
	if about, ok := errors.AsType[*url.Error](err); ok {
		reason = about.Err // without the URL, which is shown in a line of its own
	}
	message := "the bridge can't be reached: " + reason.Error()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		message = "the bridge did not answer in time"
	}
	r := e.refused(next, executed, message)
	r.Code = document.EndpointUnreachable
	return r
}
