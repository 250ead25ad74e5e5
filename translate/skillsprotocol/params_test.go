package skillsprotocol

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// The names of params are those that the decoder found: large arguments are not scanned for them again.
func TestNamesOfCollectedParams(t *testing.T) {
	one := jsonrpc.Member{Name: jsontext.Value(`"nam"`), Value: jsontext.Value(`1`)}
	read := func(members ...jsonrpc.Member) params {
		return readParams(&jsonrpc.Request{Method: methodExecute, Params: jsontext.Value(`{"in":"the text"}`), Members: members})
	}
	if p := read(one); !slices.Equal(p.ignored, []string{"nam"}) {
		t.Errorf("%q, %v", p.ignored, p.failure)
	}
	if p := read(one, one); p.failure == nil || p.failure.Argument.Name != "nam" {
		t.Error(p.failure)
	}
}
