package stdio

import (
	"bytes"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
)

// maxSchemas bounds the schemas that are kept, in bytes.
const maxSchemas = 16 << 20

// headerParams knows which arguments of tools the server wants in header fields, too. It learns that from the lists of tools that
// pass. Its zero value knows none.
type headerParams struct {
	mu      sync.Mutex
	schemas map[string]jsontext.Value // of the inputs of tools that have such arguments, by name
	size    int                       // bytes of the schemas
}

// learn reads the response to tools/list.
func (p *headerParams) learn(response jsontext.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.schemas) == 0 && !bytes.Contains(response, []byte(front.HeaderKeyword)) {
		return
	}
	for _, tool := range front.Items(wire.Member(wire.Member(response, "result"), "tools")) {
		name, schema := wire.Text(wire.Member(tool, "name")), wire.Member(tool, "inputSchema")
		p.size -= len(p.schemas[name])
		delete(p.schemas, name)
		if !bytes.Contains(schema, []byte(front.HeaderKeyword)) || p.size+len(schema) > maxSchemas {
			continue
		}
		if p.schemas == nil {
			p.schemas = map[string]jsontext.Value{}
		}
		p.schemas[name] = schema.Clone()
		p.size += len(schema)
	}
}

// set sets the fields that repeat the arguments of a call.
func (p *headerParams) set(h http.Header, tool string, arguments jsontext.Value) {
	p.mu.Lock()
	schema := p.schemas[tool]
	p.mu.Unlock()
	if schema == nil || arguments.Kind() != '{' {
		return
	}
	wire.EachParam(schema, arguments, func(name, said string) bool {
		if isToken(name) {
			h.Set(wire.HeaderParam+name, encodeHeader(said))
		}
		return true
	})
}

// isToken reports whether a text can be the name of a header field, or a part of one (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !letter && (c > '~' || !strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	})
}
