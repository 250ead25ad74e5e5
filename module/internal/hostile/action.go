package hostile

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// An Action is what happens to one request.
type Action func(*Exchange)

// Usual does what a proper provider does.
func Usual() Action { return usual }

func usual(x *Exchange) {
	p, r := x.provider, x.Request
	switch r.Part {
	case Index:
		x.JSON(http.StatusOK, p.index())
	case Registry:
		x.JSON(http.StatusOK, Object{"skills": p.index()["skills"]})
	case Descriptor:
		if s := p.skill(r.Skill); s != nil {
			x.JSON(http.StatusOK, s.descriptor(p.URL()))
			return
		}
		http.NotFound(x.Writer, x.HTTP)
	case Invoke:
		Complete(nil)(x)
	case Status:
		run, state := p.poll(r.Execution)
		switch {
		case state == "":
			http.NotFound(x.Writer, x.HTTP)
		case state == "completed" && !run.viaResult:
			x.JSON(http.StatusOK, x.Body(state, Object{"output": output(run.skill, run.call)}))
		case state == "failed":
			x.JSON(http.StatusOK, x.Body(state, Object{"error": Object{"code": "EXECUTION_FAILED", "message": "It failed."}}))
		default:
			x.JSON(http.StatusOK, x.Body(state, nil))
		}
	case Result:
		if run, ok := p.ended(r.Execution); ok {
			x.JSON(http.StatusOK, x.Body("completed", Object{"output": output(run.skill, run.call)}))
			return
		}
		http.NotFound(x.Writer, x.HTTP)
	case Token:
		Issue(IssuedToken, time.Hour)(x)
	default:
		http.NotFound(x.Writer, x.HTTP)
	}
}

// IssuedToken is the access token that token endpoints usually issue.
const IssuedToken = "an-access-token"

// Issue answers a token request (RFC 6749, section 5.1).
func Issue(token string, lifetime time.Duration) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusOK, Object{"access_token": token, "token_type": "Bearer", "expires_in": int(lifetime.Seconds())})
	}
}

// Respond answers with a status, a body, and names and values of header fields. A
// body is JSON unless the fields say otherwise.
func Respond(status int, body string, header ...string) Action {
	return func(x *Exchange) {
		h := x.Writer.Header()
		if body != "" {
			h.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		x.Writer.WriteHeader(status)
		if body != "" {
			_, _ = io.WriteString(x.Writer, body) // the client may be gone
		}
	}
}

// Handle answers as an HTTP handler does. The request's body has been read: it is
// in the [Request] of [Provider.Requests].
func Handle(handler http.HandlerFunc) Action {
	return func(x *Exchange) { handler(x.Writer, x.HTTP) }
}

// Redirect answers with a redirect.
func Redirect(status int, location string) Action {
	return Respond(status, "", "Location", location)
}

// Complete says that the run is completed. A nil output is the usual one.
func Complete(result any) Action {
	return func(x *Exchange) {
		result := result
		if result == nil {
			result = output(x.Request.Skill, x.Request.Call)
		}
		x.JSON(http.StatusOK, x.Body("completed", Object{"output": result}))
	}
}

// Fail says that the run failed.
func Fail(code, message string) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusOK, x.Body("failed", Object{"error": Object{"code": code, "message": message}}))
	}
}

// State says that the run is in a state, and nothing else.
func State(state string) Action {
	return func(x *Exchange) { x.JSON(http.StatusOK, x.Body(state, nil)) }
}

// Problem answers with the protocol's unified error (section 5.6).
func Problem(status int, code, message string) Action {
	return func(x *Exchange) {
		x.JSON(status, Object{"error": Object{"code": code, "message": message}})
	}
}

// Accept accepts an invocation: 202, then so many polls find it running, the next
// one completed.
func Accept(running int) Action { return accept(run{running: running}) }

// AcceptFailing is [Accept] of a run that fails in the end.
func AcceptFailing(running int) Action { return accept(run{running: running, failing: true}) }

// AcceptForResult is [Accept] of a run whose output is at the result URL only.
func AcceptForResult(running int) Action { return accept(run{running: running, viaResult: true}) }

func accept(template run) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusAccepted, x.Body("accepted", Object{"execution_id": x.provider.add(template, x.Request)}))
	}
}

// Lie is [Complete] under another execution id.
func Lie(executionID string) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusOK, x.Body("completed", Object{
			"execution_id": executionID, "output": output(x.Request.Skill, x.Request.Call),
		}))
	}
}

// RawOutput is [Complete] with an output that is written as it is, JSON or not.
func RawOutput(text string) Action {
	return func(x *Exchange) {
		head, tail := x.around()
		Respond(http.StatusOK, head+text+tail)(x)
	}
}

// Deep is [Complete] with an output of so many nested arrays.
func Deep(depth int) Action {
	return RawOutput(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}

// around is what stands around the output of a completed run.
func (x *Exchange) around() (head, tail string) {
	body, _ := json.Marshal(x.Body("completed", Object{"output": "#"})) // it is plain
	head, tail, _ = strings.Cut(string(body), `"#"`)
	return head, tail
}
