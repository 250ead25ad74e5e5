package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// errAnswerSize is the error of a message of the server that is larger than maxAnswer.
var errAnswerSize = errors.New("the answer is larger than " + strconv.Itoa(maxAnswer>>20) + " MiB")

// exchange sends a message to the server and writes the answer, or the messages of a stream. A request gets exactly one answer,
// unless the client cancels it.
func (s *server) exchange(c *call) {
	negotiated := ""
	if version := s.version.Load(); version != nil {
		negotiated = *version
	}
	ctx := httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { c.sent.Store(true) }})
	r, err := c.request(ctx, s.options.URL, negotiated)
	if err != nil { // only a URL can be faulty
		s.fail(c, jsonrpc.CodeInternalError, err.Error())
		return
	}
	resp, err := s.do(r)
	if err != nil {
		s.broken(c, err)
		return
	}
	defer resp.Body.Close()
	if !c.wantsAnswer() {
		_, _ = io.CopyN(io.Discard, resp.Body, bufferSize) // so that the connection can be used again
		if resp.StatusCode >= http.StatusMultipleChoices {
			s.warn("the notification " + strconv.Quote(c.method) + " was refused: " + s.refusal(resp))
		}
		return
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && mediaType == "text/event-stream" {
		s.stream(c, resp.Body)
		return
	}
	s.whole(c, resp)
}

// whole writes the answer of a body that is one message.
func (s *server) whole(c *call, resp *http.Response) {
	if status := resp.StatusCode; status == http.StatusUnauthorized || status >= 300 && status < 400 {
		s.fail(c, jsonrpc.CodeInternalError, s.refusal(resp))
		return
	}
	body, err := s.readWhole(c, resp.Body)
	switch {
	case err != nil:
		s.broken(c, err)
	case len(body) > maxAnswer:
		s.broken(c, errAnswerSize)
	case len(bytes.TrimSpace(body)) == 0 && resp.StatusCode < 300: // Caddy answers so where it serves nothing
		s.fail(c, jsonrpc.CodeInternalError, fmt.Sprintf("%s answered with HTTP %d and an empty body: probably nothing serves MCP there. %s "+
			"If it is one, the request may have been executed without answering.", s.where, resp.StatusCode, endpointAdvice))
	default:
		r, ok := parseReply(body, c.id)
		if !ok || !r.isResponse {
			s.fail(c, jsonrpc.CodeInternalError, s.refusal(resp))
			return
		}
		s.respond(c, r)
	}
}

// readWhole reads a body; of one that is longer than maxAnswer, one byte more than that.
func (s *server) readWhole(c *call, r io.Reader) ([]byte, error) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(r, smallAnswer)); err != nil || body.Len() < smallAnswer {
		return body.Bytes(), err
	}
	if err := s.hold(c); err != nil {
		return nil, err
	}
	_, err := body.ReadFrom(io.LimitReader(r, maxAnswer+1-smallAnswer))
	return body.Bytes(), err
}

// stream writes the messages of server-sent events until the answer.
func (s *server) stream(c *call, body io.Reader) {
	lines := newLineReader(body, maxAnswer)
	lines.hold = func() error { return s.hold(c) }
	for {
		data, err := lines.nextEvent()
		if err != nil {
			s.broken(c, err)
			return
		}
		r, ok := parseReply(data, c.id)
		switch {
		case !ok:
			s.warn("left out an event of " + s.where + " that is no message of JSON-RPC")
		case r.isResponse:
			s.respond(c, r)
			return
		default:
			s.write(c, r.text)
		}
		s.release(c)
	}
}

// respond writes the response to a request.
func (s *server) respond(c *call, r message) {
	if c.method == methodInitialize {
		version := jsonrpc.Text(jsonrpc.ValueOf(jsonrpc.ValueOf(r.text, "result"), "protocolVersion"))
		if isVersion(version) {
			s.version.Store(&version) // before the client can use it
		}
	}
	s.write(c, r.text)
}

// nextEvent returns the data of the next of the server-sent events (HTML Standard, section 9.2) that has some. Names and ids of events do not count
// in MCP. The error is io.ErrUnexpectedEOF at the end of the stream; an event that the stream ends in does not count.
func (l *lineReader) nextEvent() ([]byte, error) {
	var data []byte
	for {
		line, tooLong, err := l.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case tooLong:
			return nil, errAnswerSize
		case len(line) == 0 && len(bytes.TrimSpace(data)) > 0: // else it only has an id
			return data, nil
		case len(line) == 0:
			data = nil
		}
		field, value, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("\ufeff")), []byte(":"))
		if string(field) != "data" {
			continue
		}
		if len(data)+len(line) > smallAnswer {
			if err := l.hold(); err != nil {
				return nil, err
			}
		}
		if data = append(data, bytes.TrimPrefix(value, []byte(" "))...); len(data) > maxAnswer {
			return nil, errAnswerSize
		}
		data = append(data, '\n')
	}
}

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
