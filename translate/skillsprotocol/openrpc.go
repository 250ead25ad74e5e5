package skillsprotocol

import (
	_ "embed"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// The OpenRPC document of the endpoint, with an empty version and the default lifetime of run tokens and of what is kept of runs.
//
//go:embed openrpc.json
var openRPC string

// discover answers rpc.discover, the service discovery method of OpenRPC.
func (f *Front) discover() (jsontext.Value, *jsonrpc.Error) {
	version := string(front.AppendText(nil, f.Version))
	document := jsontext.Value(strings.NewReplacer(`"version": ""`, `"version": `+version, "24 hours", inWords(f.Tokens.Lifetime())).Replace(openRPC))
	if err := document.Compact(); err != nil {
		return nil, internalError(err)
	}
	return document, nil
}
