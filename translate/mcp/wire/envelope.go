package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// EnvelopeData returns the data of errors of package jsonrpc: invalid requests and panics.
func EnvelopeData(_ int, reason string, limit *jsonrpc.Limit) jsontext.Value {
	var w front.Writer
	w.Open()
	w.Text("reason", reason)
	if limit != nil && limit.Name != "" {
		w.Raw("details", front.LimitDetails(limit.Name, limit.Max))
	}
	w.Close()
	return w.Buf
}
