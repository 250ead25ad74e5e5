package stdio

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
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
	for _, tool := range jsonrpc.Items(wire.Member(wire.Member(response, "result"), "tools")) {
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

// maxLists bounds the pages of tools that are asked for because of one call.
const maxLists = 200

// codeHeaderMismatch is the error of a request whose header fields differ from its body. The server has not executed it.
const codeHeaderMismatch = "-32020"

// relearn asks for the tools, as a client does that knows which fields a call needs. It does so if the server refused the call for
// fields that differ: the client has not listed the tool through this process, or the tool has changed since. It reports whether the
// call has other fields now.
func (s *server) relearn(c *call, refusal reply) bool {
	if c.method != methodCall || !c.modern || c.relearned || string(wire.Member(wire.Member(refusal.text, "error"), "code")) != codeHeaderMismatch {
		return false
	}
	c.relearned = true
	before := s.params.of(c.name)
	meta := wire.Member(wire.Member(c.text, "params"), "_meta")
	next := jsontext.Value(nil) // the cursor
	for range maxLists {
		params := append([]byte(`{"_meta":`), meta...)
		if next != nil {
			params = append(append(params, `,"cursor":`...), next...)
		}
		list, _ := parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + methodTools + `","params":` + string(params) + `}}`))
		result, err := s.list(c, &list)
		if err != nil {
			return false
		}
		for _, tool := range jsonrpc.Items(wire.Member(result, "tools")) {
			if wire.Text(wire.Member(tool, "name")) == c.name {
				return !bytes.Equal(before, s.params.of(c.name))
			}
		}
		if next = wire.Member(result, "nextCursor"); next.Kind() != '"' {
			return false
		}
	}
	return false
}

// list returns the result of a request for a page of tools, which the client does not see.
func (s *server) list(c *call, page *message) (result jsontext.Value, err error) {
	r, err := page.request(c.ctx, s.options.URL, "", &s.params)
	if err != nil {
		return nil, err
	}
	resp, err := s.do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := s.readWhole(c, resp.Body)
	defer s.release(c)
	if err != nil || len(body) > maxAnswer {
		return nil, errors.Join(err, errAnswerSize)
	}
	answer, _ := parseReply(body, nil)
	s.params.learn(answer.text)
	return wire.Member(answer.text, "result"), nil
}

// of returns the schema of a tool's inputs; nil, if it has no such arguments.
func (p *headerParams) of(tool string) jsontext.Value {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.schemas[tool]
}

// set sets the fields that repeat the arguments of a call.
func (p *headerParams) set(h http.Header, tool string, arguments jsontext.Value) {
	schema := p.of(tool)
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
