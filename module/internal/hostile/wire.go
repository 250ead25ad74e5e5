package hostile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Wire is an answer as it is on the wire.
func Wire(status int, body string, header ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n", status, http.StatusText(status))
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return b.String()
}

// Raw sends bytes as they are and closes the connection with a FIN.
func Raw(text string) Action {
	return func(x *Exchange) {
		x.take()
		x.write(text)
	}
}

// RawOpen sends bytes as they are and leaves the connection open until the client
// closes it. Further requests on it are in [Provider.Captured] only.
func RawOpen(text string) Action {
	return func(x *Exchange) {
		x.take()
		x.write(text)
		x.hang()
	}
}

// Garbage answers with something that is not HTTP.
func Garbage() Action { return Raw("\x15\x03\x01\x00\x02\x02\x50 is not HTTP\r\n\r\n") }

// TwoResponses answers properly, and at once sends a second answer that was not
// asked for, whose output is poison.
func TwoResponses(poison string) Action {
	return func(x *Exchange) {
		body := func(result any) string {
			text, _ := json.Marshal(x.Body("completed", Object{"output": result})) // it is plain
			return string(text)
		}
		proper := body(output(x.Request.Skill, x.Request.Call))
		RawOpen(Wire(http.StatusOK, proper) + Wire(http.StatusOK, body(poison)))(x)
	}
}

// SwitchProtocols answers 101 to a client that did not ask for it.
func SwitchProtocols() Action {
	return RawOpen("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n" + Wire(http.StatusOK, "{}"))
}

// Reset ends the connection with an RST instead of an answer.
func Reset() Action { return func(x *Exchange) { x.take().reset() } }

// Close ends the connection with a FIN instead of an answer.
func Close() Action { return func(x *Exchange) { x.take() } }

// begun is the beginning of an answer whose body never becomes complete.
func begun(x *Exchange, framing string) string {
	start, _, _ := strings.Cut(Wire(http.StatusOK, ""), "Content-Length")
	part := `{"execution_id":` + strconv.Quote(x.Body("", nil)["execution_id"].(string)) + `,"status":"compl`
	if framing == chunked {
		part = strconv.FormatInt(int64(len(part)), 16) + "\r\n" + part
	}
	return start + framing + "\r\n\r\n" + part
}

const (
	chunked = "Transfer-Encoding: chunked"
	lengthy = "Content-Length: 1000"
)

// ResetMidBody ends the connection with an RST in the middle of an answer.
func ResetMidBody() Action {
	return func(x *Exchange) {
		c := x.take()
		x.write(begun(x, lengthy))
		c.reset()
	}
}

// Truncate closes the connection before the announced length is reached.
func Truncate() Action {
	return func(x *Exchange) {
		x.take()
		x.write(begun(x, lengthy))
	}
}

// TruncateChunked closes the connection in the middle of a chunk.
func TruncateChunked() Action {
	return func(x *Exchange) {
		x.take()
		x.write(begun(x, chunked))
	}
}

// ThenClose answers as if the connection would be kept, and then closes it with a
// FIN: a client that wants to use it again is too late.
func ThenClose(action Action) Action {
	return func(x *Exchange) {
		written, own := httptest.NewRecorder(), x.Writer
		x.Writer = written
		action(x)
		x.Writer = own
		x.take()
		x.provider.answered(x.Request, written.Code)
		x.write(Wire(written.Code, written.Body.String()))
	}
}

// HangMidBody stops in the middle of an answer.
func HangMidBody() Action {
	return func(x *Exchange) {
		x.take()
		x.write(begun(x, lengthy))
		x.hang()
	}
}
