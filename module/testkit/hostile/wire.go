package hostile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Wire returns the bytes of an HTTP answer.
func Wire(status int, body string, header ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n", status, http.StatusText(status))
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return b.String()
}

// Raw sends bytes and closes the connection with a FIN.
func Raw(text string) Action {
	return func(x *Exchange) {
		x.take()
		x.write(text)
	}
}

// RawOpen sends bytes and keeps the connection open until the client closes it. Only
// [Provider.Captured] has further requests on the connection.
func RawOpen(text string) Action {
	return func(x *Exchange) {
		x.take()
		x.write(text)
		x.hang()
	}
}

// Garbage answers with bytes that are not HTTP.
func Garbage() Action { return Raw("\x15\x03\x01\x00\x02\x02\x50 is not HTTP\r\n\r\n") }

// TwoResponses sends a valid answer and, without a second request, a second answer whose output is
// poison.
func TwoResponses(poison string) Action {
	return func(x *Exchange) {
		body := func(result any) string {
			text, _ := json.Marshal(x.Body("completed", Object{"output": result})) // can't fail for this type
			return string(text)
		}
		proper := body(output(x.Request.Skill, x.Request.Call))
		RawOpen(Wire(http.StatusOK, proper) + Wire(http.StatusOK, body(poison)))(x)
	}
}

// SwitchProtocols answers 101 without an Upgrade in the request.
func SwitchProtocols() Action {
	return RawOpen("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n" + Wire(http.StatusOK, "{}"))
}

// Reset ends the connection with an RST instead of an answer.
func Reset() Action { return func(x *Exchange) { x.take().reset() } }

// Close ends the connection with a FIN instead of an answer.
func Close() Action { return func(x *Exchange) { x.take() } }

// incomplete returns the beginning of an answer, without the end of its body.
func incomplete(x *Exchange, framing string) string {
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
		x.write(incomplete(x, lengthy))
		c.reset()
	}
}

// Truncate closes the connection before the announced length is reached.
func Truncate() Action {
	return func(x *Exchange) {
		x.take()
		x.write(incomplete(x, lengthy))
	}
}

// TruncateChunked closes the connection in the middle of a chunk.
func TruncateChunked() Action {
	return func(x *Exchange) {
		x.take()
		x.write(incomplete(x, chunked))
	}
}

// ThenClose answers without Connection: close, and then closes the connection with a FIN.
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
		x.write(incomplete(x, lengthy))
		x.hang()
	}
}
