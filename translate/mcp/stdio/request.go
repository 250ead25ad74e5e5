package stdio

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
)

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
