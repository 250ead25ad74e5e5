package stdio

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
)

const (
	methodCancelled  = "notifications/cancelled"
	methodInitialize = "initialize"
	methodPing       = "ping"
	methodListen     = "subscriptions/listen"
)

// message is a message of the client or of the server, of which only what the transport needs is read. The server checks the rest.
type message struct {
	text   []byte
	id     jsontext.Value // as it was sent; nil: there is none that an answer can have
	method string         // empty: it is missing or not a string

	isNotification bool
	isResponse     bool

	version  jsontext.Value // that params._meta names; nil: it names none
	name     jsontext.Value // that the header Mcp-Name repeats, if it is a string
	requests jsontext.Value // the id of the request that the notification cancels
}

// validJSON reports whether a text is one JSON value in UTF-8. Whether names in it are unique is up to the server.
func validJSON(text []byte) bool {
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true))
}

// split returns the messages of a line of the client: one, or those of a batch, of which each is sent and answered by itself. It returns false if the
// text is not JSON.
func split(line []byte) (all []jsontext.Value, ok bool) {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	if !validJSON(line) {
		return []jsontext.Value{nil}, false
	}
	if all = slices.Collect(jsonrpc.Items(line)); len(all) == 0 {
		all = []jsontext.Value{line}
	}
	return all, true
}

// read reads one message.
func (m *message) read() {
	var params, answer jsontext.Value
	ids := 0
	for name, value := range jsonrpc.Members(m.text) {
		switch string(jsonrpc.Unquote(name)) {
		case "id":
			ids++
			m.id = value
		case "method":
			m.method = jsonrpc.Text(value)
		case "params":
			params = value
		case "result", "error":
			answer = value
		}
	}
	m.isNotification = ids == 0 && m.method != ""
	m.isResponse = m.method == "" && answer != nil
	if ids > 1 || !isID(m.id) {
		m.id = nil
	}
	m.version = jsonrpc.ValueOf(jsonrpc.ValueOf(params, "_meta"), wire.MetaVersion)
	if member, named := wire.NameParams[m.method]; named {
		m.name = jsonrpc.ValueOf(params, member)
	}
	if canceled := jsonrpc.ValueOf(params, "requestId"); m.method == methodCancelled && isID(canceled) {
		m.requests = canceled
	}
}

// wantsAnswer reports whether an answer to the message is passed on to the client. Some faulty messages without an id are answered,
// too.
func (m *message) wantsAnswer() bool { return !m.isNotification && !m.isResponse }

// isID reports whether a value can be the id of a request: a string or a whole number.
func isID(v jsontext.Value) bool {
	return v.Kind() == '"' || v.Kind() == '0' && !bytes.ContainsAny(v, ".eE")
}

// keyOf returns what equal ids have in common, however they are written.
func keyOf(id jsontext.Value) string {
	if id.Kind() == '"' {
		return `"` + jsonrpc.Text(id)
	}
	return string(id)
}

// parseReply reads a message of the server and makes it one line. If it is a response and id is not nil, the line has that id, byte
// for byte: some servers and proxies change large numbers, or leave the id out of errors. It returns false if the text is no message.
func parseReply(text []byte, id jsontext.Value) (m message, ok bool) {
	m.text = bytes.TrimPrefix(bytes.TrimSpace(text), []byte("\ufeff"))
	if !validJSON(m.text) {
		return m, false
	}
	m.read()
	if m.method == "" && !m.isResponse {
		return m, false
	}
	if m.isResponse && id != nil && !bytes.Equal(m.id, id) {
		m.text = withID(m.text, id)
	}
	jsonrpc.Flatten(m.text)
	return m, true
}

// withID returns a response with another id.
func withID(response []byte, id jsontext.Value) []byte {
	text := make([]byte, 0, len(response)+len(id)+len(`,"id":`))
	text = append(append(text, `{"jsonrpc":"2.0","id":`...), id...)
	for name, value := range jsonrpc.Members(response) {
		if member := string(jsonrpc.Unquote(name)); member != "id" && member != "jsonrpc" {
			text = append(append(append(append(text, ','), name...), ':'), value...)
		}
	}
	return append(text, '}')
}

// request returns the HTTP request for a message. negotiated is the version that the answer to initialize had; empty: there was none.
func (m *message) request(ctx context.Context, url, negotiated string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(m.text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case m.version != nil:
		// A version that no header can have is no version of MCP; the server refuses the request without it.
		if version := jsonrpc.Text(m.version); isVersion(version) {
			r.Header.Set(wire.HeaderVersion, version)
		}
		if m.method != "" {
			r.Header.Set(wire.HeaderMethod, encodeHeader(m.method))
		}
		if m.name.Kind() == '"' {
			r.Header.Set(wire.HeaderName, encodeHeader(jsonrpc.Text(m.name)))
		}
	case negotiated != "" && m.method != methodInitialize:
		r.Header.Set(wire.HeaderVersion, negotiated)
	}
	return r, nil
}

// isVersion reports whether a text can be a version of MCP in a header.
func isVersion(text string) bool {
	return text != "" && len(text) <= 64 && isVisible(text) && !strings.Contains(text, " ")
}

// encodeHeader returns a text as the value of a header: as it is, if it survives there, else in base64.
func encodeHeader(text string) string {
	const prefix, suffix = "=?base64?", "?="
	if text != "" && isVisible(text) && strings.TrimSpace(text) == text && !strings.HasPrefix(text, prefix) {
		return text
	}
	return prefix + base64.StdEncoding.EncodeToString([]byte(text)) + suffix
}

// isVisible reports whether a text has only visible ASCII characters and spaces.
func isVisible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
