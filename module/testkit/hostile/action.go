package hostile

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// An Action answers one request.
type Action func(*Exchange)

// Usual answers like a correct provider.
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
		if run, ok := p.result(r.Execution); ok {
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

// IssuedToken is the access token of [Usual].
const IssuedToken = "an-access-token"

// Issue answers a token request (RFC 6749, section 5.1).
func Issue(token string, lifetime time.Duration) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusOK, Object{"access_token": token, "token_type": "Bearer", "expires_in": int(lifetime.Seconds())})
	}
}

// Respond answers with a status, a body, and header fields (names and values in turn). The
// default Content-Type of a body is JSON.
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

// Handle answers with an HTTP handler. The request's body was already read; it is in the [Request]
// of [Provider.Requests].
func Handle(handler http.HandlerFunc) Action {
	return func(x *Exchange) { handler(x.Writer, x.HTTP) }
}

// Redirect answers with a redirect.
func Redirect(status int, location string) Action {
	return Respond(status, "", "Location", location)
}

// Complete answers that the run is completed. For a nil output, it sends that of [Usual].
func Complete(result any) Action {
	return func(x *Exchange) {
		result := result
		if result == nil {
			result = output(x.Request.Skill, x.Request.Call)
		}
		x.JSON(http.StatusOK, x.Body("completed", Object{"output": result}))
	}
}

// Fail answers that the run failed.
func Fail(code, message string) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusOK, x.Body("failed", Object{"error": Object{"code": code, "message": message}}))
	}
}

// State answers with a state of the run, without an output.
func State(state string) Action {
	return func(x *Exchange) { x.JSON(http.StatusOK, x.Body(state, nil)) }
}

// Problem answers with the protocol's unified error (section 5.6).
func Problem(status int, code, message string) Action {
	return func(x *Exchange) {
		x.JSON(status, Object{"error": Object{"code": code, "message": message}})
	}
}

// Accept accepts an invocation with 202. The given number of polls then answers "running", the next
// one "completed".
func Accept(running int) Action { return accept(run{running: running}) }

// AcceptFailing is [Accept] with a run that ends as failed.
func AcceptFailing(running int) Action { return accept(run{running: running, failing: true}) }

// AcceptForResult is [Accept] with a run whose output is only at the result URL.
func AcceptForResult(running int) Action { return accept(run{running: running, viaResult: true}) }

func accept(template run) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusAccepted, x.Body("accepted", Object{"execution_id": x.provider.add(template, x.Request)}))
	}
}

// CompleteAs is [Complete] with another execution id.
func CompleteAs(executionID string) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusOK, x.Body("completed", Object{
			"execution_id": executionID, "output": output(x.Request.Skill, x.Request.Call),
		}))
	}
}

// RawOutput is [Complete] with any text in place of the JSON of the output.
func RawOutput(text string) Action {
	return func(x *Exchange) {
		head, tail := x.around()
		Respond(http.StatusOK, head+text+tail)(x)
	}
}

// NestedOutput is [Complete] with an output of depth nested arrays.
func NestedOutput(depth int) Action {
	return RawOutput(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}

// around returns the text before and after the output of a completed run.
func (x *Exchange) around() (head, tail string) {
	body, _ := json.Marshal(x.Body("completed", Object{"output": "#"})) // can't fail for this type
	head, tail, _ = strings.Cut(string(body), `"#"`)
	return head, tail
}
