package browse

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// code returns how programs call a skill with example inputs, and the definitions of the skill as a tool. The examples work as they stand, apart
// from credentials. It returns nil if the URL of the endpoint is not known, or the skill's name has characters that the page can't show.
func (m *pageMaker) code(ctx context.Context, d *translate.Description) []Code {
	endpoint := m.page.Endpoint
	if endpoint == "" || plain(d.Name, maxShownName) != d.Name {
		return nil
	}
	name, inputs := quotedJSON(d.Name), sample(d)
	url := quotedJSON(endpoint)
	request := `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":` + name + `,"args":` + inputs + `}}`
	var pythonHeader, scriptHeader string
	if m.needsPrincipal {
		pythonHeader, scriptHeader = `, "Authorization": "<credentials>"`, `, Authorization: "<credentials>"`
	}
	list := []Code{
		{"curl", m.curl(request), "shell", shellSafe.Replace(inputs)},
		{"Python", `import json
from urllib.request import Request, urlopen

request = {
    "jsonrpc": "2.0", "id": 1, "method": "execute_skill",
    "params": {"name": ` + name + `, "args": ` + python.literal(inputs) + `},
}
headers = {"Content-Type": "application/json"` + pythonHeader + `}
with urlopen(Request(` + url + `, json.dumps(request).encode(), headers)) as response:
    answer = json.load(response)
if "error" in answer:
    raise RuntimeError(answer["error"]["message"])
print(answer["result"])
`, "python", python.literal(inputs)},
		{"TypeScript", `const response = await fetch(` + url + `, {
  method: "POST",
  headers: { "Content-Type": "application/json"` + scriptHeader + ` },
  body: JSON.stringify({
    jsonrpc: "2.0", id: 1, method: "execute_skill",
    params: { name: ` + name + `, args: ` + typeScript.literal(inputs) + ` },
  }),
});
const answer = await response.json();
if (answer.error) throw new Error(answer.error.message);
console.log(answer.result);
`, "typescript", typeScript.literal(inputs)},
	}
	tool := d.Tool
	if tool == "" {
		return list
	}
	for _, format := range []struct{ label, format string }{
		{"Anthropic tool", skillsprotocol.FormatAnthropic}, {"OpenAI tool", skillsprotocol.FormatOpenAI}, {"MCP tool", skillsprotocol.FormatMCP},
	} {
		definition, err := skillsprotocol.Tool(ctx, tool, d.Descriptor, format.format)
		if err != nil {
			return list // the client has left
		}
		if text := indented(definition, maxShownTool); text != "" {
			list = append(list, Code{Label: format.label, Text: text})
		}
	}
	return list
}

// readingCode returns how programs read a skill that can't be executed.
func (m *pageMaker) readingCode(d *translate.Description) []Code {
	if m.page.Endpoint == "" || plain(d.Name, maxShownName) != d.Name {
		return nil
	}
	request := `{"jsonrpc":"2.0","id":1,"method":"read_skill_file","params":{"name":` + quotedJSON(d.Name) + `,"path":"` + skillsite.Main + `"}}`
	return []Code{{Label: "curl", Text: m.curl(request)}}
}

// curl returns a shell command that sends a request to the endpoint.
func (m *pageMaker) curl(request string) string {
	option := ""
	if m.needsPrincipal {
		option = " \\\n  -H 'Authorization: <credentials>'"
	}
	return "curl " + quoted(m.page.Endpoint) + option + " \\\n  -H 'Content-Type: application/json' \\\n  -d " + quoted(shellSafe.Replace(request))
}

// sample returns example inputs, without characters that the page would not show as they are.
func sample(d *translate.Description) string {
	inputs := front.SampleInputs(d.Descriptor.Inputs)
	if err := inputs.Compact(); err != nil || len(inputs) > maxShownText || plain(string(inputs), len(inputs)) != string(inputs) {
		return "{}"
	}
	return safetext.Escape(string(inputs), "")
}

// quotedJSON returns a text as JSON, which is also a literal of Python and TypeScript. Characters that are not visible are escaped, since they could
// change what people see.
func quotedJSON(text string) string {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil { // the text is not valid UTF-8
		return strconv.QuoteToASCII(text)
	}
	return safetext.Escape(string(quoted), "")
}

// language is a programming language in which strings and numbers of JSON are literals, too.
type language struct {
	constants *strings.Replacer
	name      func(quoted string) string // of a member
}

var (
	python = language{strings.NewReplacer("true", "True", "false", "False", "null", "None"), func(quoted string) string { return quoted }}
	// In an object literal, a member with this name would set the prototype.
	typeScript = language{strings.NewReplacer(), func(quoted string) string {
		if quoted == `"__proto__"` {
			return `["__proto__"]`
		}
		return quoted
	}}
)

// literal returns a JSON value as an expression.
func (l *language) literal(value string) string {
	var b strings.Builder
	d := jsontext.NewDecoder(bytes.NewBufferString(value))
	for {
		depth := d.StackDepth()
		parent, members := d.StackIndex(depth)
		token, err := d.ReadToken()
		if err != nil {
			return b.String()
		}
		kind := token.Kind()
		isName := parent == '{' && members%2 == 0
		switch {
		case kind == '}' || kind == ']':
		case parent == '{' && !isName:
			b.WriteString(": ")
		case depth > 0 && members > 0:
			b.WriteString(", ")
		}
		switch {
		case kind == '"' && isName:
			b.WriteString(l.name(quotedJSON(token.String())))
		case kind == '"':
			b.WriteString(quotedJSON(token.String()))
		default:
			b.WriteString(l.constants.Replace(token.String()))
		}
	}
}

// shellSafe replaces the characters in strings of JSON that mean something between single quotes to some shells by their JSON escapes: csh replaces
// !, fish \\, PowerShell ends the quotes at ', and cmd, which does not know single quotes, runs what follows & after an odd number of ".
var shellSafe = strings.NewReplacer(`\\`, `\u005c`, `\"`, `\u0022`, `'`, `\u0027`, `!`, `\u0021`)

// quoted quotes a word for shells.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
