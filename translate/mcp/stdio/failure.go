package stdio

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// maxText bounds texts of others in messages, in characters.
const maxText = 200

// whereOf returns how messages name a URL: without what may be secret.
func whereOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the server"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// fail answers a message with an error, or reports it, if the message has no answer.
func (s *server) fail(c *call, code int, text string) {
	switch {
	case c.wantsAnswer():
	case c.method != "":
		s.warn("the notification " + safetext.Line(c.method, maxText) + " was not delivered: " + text)
		return
	default:
		s.warn("a response of the client was not delivered: " + text)
		return
	}
	line := `{"jsonrpc":"2.0"`
	if c.id != nil {
		line += `,"id":` + string(c.id)
	}
	s.write(c, fmt.Appendf(nil, `%s,"error":{"code":%d,"message":%s}}`, line, code, front.AppendText(nil, text)))
}

// broken answers a message after an error of the connection. The message is not sent again, since it may have been executed.
func (s *server) broken(c *call, err error) {
	if c.ctx.Err() != nil { // the client cancelled it, or Serve has ended
		return
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL, whose query may be secret
	}
	reason := safetext.Line(err.Error(), maxText)
	if !c.sent.Load() {
		s.fail(c, jsonrpc.CodeInternalError, s.where+" can't be reached: "+reason+". The request was not executed. Check the URL, the network, and that the server runs.")
		return
	}
	s.fail(c, jsonrpc.CodeInternalError, "The answer of "+s.where+" could not be read: "+reason+". The request may have been executed: check before you send it again.")
}

// endpointAdvice says what to do about a URL that may be wrong.
const endpointAdvice = "Check that the URL is that of an MCP endpoint, such as https://bridge.example.com/mcp."

// refusal says why an HTTP answer is no answer to a message, and what to do.
func (s *server) refusal(resp *http.Response) string {
	status := fmt.Sprintf("%s answered with HTTP %d", s.where, resp.StatusCode)
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		text := status + ": it refuses this caller."
		if s.options.Refused != "" {
			text += " " + s.options.Refused
		}
		return text
	case code >= 300 && code < 400:
		target := "another URL"
		if location, err := resp.Location(); err == nil {
			target = safetext.Line(whereOf(location.String()), maxText)
		}
		return status + ": it redirects to " + target + ", which is not followed. If you trust that URL, use it instead."
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		text := status + ": it is overloaded or not ready."
		if after := resp.Header.Get("Retry-After"); after != "" {
			return text + " Try again after " + safetext.Line(after, 40) + " (seconds, or a date)."
		}
		return text + " Try again later."
	case code >= 500:
		return status + ": the server, or a proxy before it, failed. The request may have been executed: check before you send it again."
	}
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || !strings.Contains(mediaType, "/") {
		mediaType = "no media type"
	}
	return status + " and " + mediaType + " instead of a message of JSON-RPC. " + endpointAdvice
}
