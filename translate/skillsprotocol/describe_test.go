package skillsprotocol_test

import (
	"bytes"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

const weather = `{
  "protocol": {"version": "1.0.0"},
  "id": "example-corp/weather-forecast", "name": "Weather Forecast", "version": "2.1.0", "capability_type": "api",
  "description": "Forecasts the weather.",
  "provider": {"name": "Example Co.", "url": "https://example.com", "contact": "support@example.com"},
  "endpoint": {"url": "https://api.example.com/v2/forecast", "method": "POST"},
  "inputs": [
    {"name": "location", "type": "string", "description": "City name.", "required": true},
    {"name": "days", "type": "number", "description": "Days (1-14).", "required": false, "default": 7.0, "schema": {"minimum": 1}}
  ],
  "output": {"content_type": "application/json", "description": "The forecast.", "schema": {"type":  "object"}},
  "auth": {"type": "oauth2", "description": "Sign in.", "oauth2": {"authorization_url": "https://a.example", "token_url": "https://t.example", "scopes": {"write:x": "W", "read:\"x": "R"}}},
  "access": "restricted", "tags": ["weather", "forecast"], "documentation_url": "https://example.com/docs"
}`

// describe makes a Description of a descriptor document, as a bridge would.
func describe(t *testing.T, text string) *translate.Description {
	t.Helper()
	d := &translate.Description{Name: "example-corp.weather-forecast", Namespace: "example-corp", Descriptor: new(document.Descriptor), Document: jsontext.Value(text)}
	if err := json.Unmarshal(d.Document, d.Descriptor); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDescribe(t *testing.T) {
	d := describe(t, weather)
	d.State, d.Since, d.Timeout = catalog.Available, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), 30*time.Second
	d.Typical, d.P95 = 1500*time.Millisecond, time.Microsecond
	manifest := func(schema string) string {
		return `{"skill":{"manifest":{"name":"example-corp.weather-forecast","display_name":"Weather Forecast","version":"2.1.0",` +
			`"description":"Forecasts the weather.","kind":"action","state":"available","state_since":"2026-01-02T03:04:05Z",` +
			`"timing":{"typical_ms":1500,"p95_ms":1,"timeout_ms":30000},"inputs":{"type":"object","properties":{"location":{"type":"string","description":"City name."},` +
			`"days":{"type":"number","description":"Days (1-14).","minimum":1,"default":7.0}},"required":["location"]},` +
			`"output":{"content_type":"application/json",` + schema + `"description":"The forecast."},` +
			`"auth":{"type":"oauth2","description":"Sign in.","oauth2":{"authorization_url":"https://a.example","token_url":"https://t.example",` +
			`"scopes":{"read:\"x":"R","write:x":"W"}}},"access":"restricted","capability_type":"api","tags":["weather","forecast"],` +
			`"documentation_url":"https://example.com/docs",` +
			`"provider":{"name":"Example Co.","url":"https://example.com","contact":"support@example.com"}}`
	}
	for params, want := range map[string]string{
		`{"name":"x"}`:                                       manifest("") + `}}`,
		`{"name":"x","detail":"summary"}`:                    manifest("") + `}}`,
		`{"name":"x","detail":"manifest","version":"2.1.0"}`: manifest(`"schema":{"type":  "object"},`) + `}}`,
	} {
		b := &fakeBridge{description: d}
		if got := result(t, b, "describe_skill", params); got != want {
			t.Errorf("%s:\n got %s\nwant %s", params, got, want)
		}
		if b.described[0].Name != "x" || (b.described[0].Version == "2.1.0") != strings.Contains(params, "version") {
			t.Errorf("%+v", b.described[0])
		}
	}
	full := result(t, &fakeBridge{description: d}, "describe_skill", `{"name":"x","detail":"full"}`)
	if !strings.HasPrefix(full, manifest(`"schema":{"type":  "object"},`)+`,"documentation":"# Weather Forecast`) {
		t.Error(full)
	}
}

func TestDescribeCustomAuth(t *testing.T) {
	d := describe(t, `{"auth":{"type":"custom","custom":{"instructions":"Sign it.","parameters":[
		{"name":"secret_key","type":"string","description":"Key.","required":true},{"name":"b","type":"string","description":"","required":false}]}}}`)
	got := result(t, &fakeBridge{description: d}, "describe_skill", `{"name":"x"}`)
	const want = `"auth":{"type":"custom","custom":{"instructions":"Sign it.","parameters":[` +
		`{"name":"secret_key","type":"string","description":"Key.","required":true},{"name":"b","type":"string","description":"","required":false}]}}`
	if !strings.Contains(got, want) || !strings.Contains(got, `"tags":[]`) || strings.Contains(got, "documentation_url") {
		t.Error(got)
	}
	d = describe(t, `{"auth":{"type":"api_key","header":"X-Key"}}`)
	if got := result(t, &fakeBridge{description: d}, "describe_skill", `{"name":"x"}`); !strings.Contains(got, `"auth":{"type":"api_key","header":"X-Key"}`) {
		t.Error(got)
	}
}

type file struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Content string `json:"content"`
}

func readFile(t *testing.T, d *translate.Description, path string) string {
	t.Helper()
	f := decode[file](t, result(t, &fakeBridge{description: d}, "read_skill_file", `{"name":"x","path":"`+path+`"}`))
	if f.Name != d.Name || f.Path != path {
		t.Errorf("%+v", f)
	}
	return f.Content
}

func TestDescriptorFile(t *testing.T) {
	if got := readFile(t, describe(t, weather), "descriptor.json"); got != weather {
		t.Error(got)
	}
}

func TestSkillFile(t *testing.T) {
	got := readFile(t, describe(t, weather), "SKILL.md")
	for _, want := range []string{
		"# Weather Forecast\n\nForecasts the weather.\n\n- Name for `execute_skill`: `example-corp.weather-forecast`\n- Version: `2.1.0`\n",
		"| `location` | `string` | yes |  | City name. |\n| `days` | `number` | no | `7.0` | Days (1-14). (constrained by a schema: see `inputs` of describe_skill) |\n",
		"```json\n{\n  \"jsonrpc\": \"2.0\",\n  \"id\": \"1\",\n  \"method\": \"execute_skill\",\n  \"params\": {\n    \"name\": \"example-corp.weather-forecast\",\n" +
			"    \"args\": {\n      \"location\": \"text\"\n    }\n  }\n}\n```",
		"## Output\n\nMedia type: `application/json`\n\nThe forecast.\n\n```json\n{\n  \"type\": \"object\"\n}\n```\n",
		"## Authentication\n\nThe provider asks for `oauth2`. The bridge adds the credential",
		"Scopes the provider knows: `read:\"x`, `write:x`\n",
		"The provider says: Sign in.\n",
		"## Provider\n\n- Name: Example Co.\n- URL: `https://example.com`\n- Contact: `support@example.com`\n- Documentation: `https://example.com/docs`\n\nEverything",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\n\n\n") {
		t.Errorf("empty lines in\n%s", got)
	}
	bare := readFile(t, describe(t, `{"name":"N","auth":{"type":"none"},"output":{"content_type":"text/plain"},"provider":{"name":"P"}}`), "SKILL.md")
	if !strings.Contains(bare, "None: `args` may be left out.") || !strings.Contains(bare, "## Authentication\n\nNone.\n") || strings.Contains(bare, "\n\n\n") {
		t.Error(bare)
	}
}

// hostile tries to break out of any Markdown construct.
const hostile = "a | b\n\n# Owned\n\n- item\n```\n~~~ `x` <b>html</b> [l](http://e.example) ![i](x) **bold** \\| \\# &lt; | --- |\u202e\n1. one"

func TestSkillFileKeepsItsStructure(t *testing.T) {
	want := outline(t, readFile(t, describe(t, weather), "SKILL.md"))

	quoted, err := jsontext.AppendQuote(nil, hostile)
	if err != nil {
		t.Fatal(err)
	}
	var replaced string
	for _, text := range []string{
		`"Weather Forecast"`, `"2.1.0"`, `"Forecasts the weather."`, `"Example Co."`, `"https://example.com"`, `"support@example.com"`,
		`"City name."`, `"location"`, `"The forecast."`, `"Sign in."`, `"write:x"`, `"weather"`, `"https://example.com/docs"`, `7.0`, `"restricted"`,
	} {
		if !strings.Contains(weather, text) {
			t.Fatalf("%s is not there", text)
		}
		document := strings.Replace(weather, text, string(quoted), 1)
		if got := outline(t, readFile(t, describe(t, document), "SKILL.md")); got != want {
			t.Errorf("%s broke the page:\n%s\nwant\n%s", text, got, want)
		}
		replaced = document
	}
	if page := readFile(t, describe(t, replaced), "SKILL.md"); strings.ContainsRune(page, '\u202e') {
		t.Error("a bidirectional control got through")
	}
	for _, start := range []string{"# h", "- item", "+ item", "* item", "1. one", "12) twelve", "===", "---", "> quote", "    code", "```", "|a|", "<div>", "[a]: b"} {
		quoted, err := jsontext.AppendQuote(nil, start)
		if err != nil {
			t.Fatal(err)
		}
		document := strings.Replace(weather, `"Forecasts the weather."`, string(quoted), 1)
		if got := outline(t, readFile(t, describe(t, document), "SKILL.md")); got != want {
			t.Errorf("%q broke the page:\n%s", start, got)
		}
	}
}

// The text of a document is rendered unchanged.
func TestSkillFileKeepsItsText(t *testing.T) {
	quoted, err := jsontext.AppendQuote(nil, hostile)
	if err != nil {
		t.Fatal(err)
	}
	line := html.EscapeString(strings.Join(strings.Fields(strings.ReplaceAll(hostile, "\u202e", "")), " "))
	line = strings.NewReplacer("&#39;", "'", "&#34;", "&quot;").Replace(line)
	for original, want := range map[string]string{
		`"Forecasts the weather."`: "<p>" + line + "</p>",
		`"City name."`:             "<td>" + line + "</td>",
		`"location"`:               "<td><code>" + line + "</code></td>",
		`"2.1.0"`:                  "<code>" + line + "</code>",
	} {
		page := readFile(t, describe(t, strings.Replace(weather, original, string(quoted), 1)), "SKILL.md")
		var b strings.Builder
		if err := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Convert([]byte(page), &b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: %s\nis not in\n%s", original, want, b.String())
		}
	}
}

// outline returns the names of the blocks of a page, and of the inlines that texts of a
// provider must not contain.
func outline(t *testing.T, page string) string {
	t.Helper()
	source := []byte(page)
	root := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Parser().Parse(text.NewReader(source))
	var b strings.Builder
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n.Kind() {
		case ast.KindText, ast.KindString, ast.KindCodeSpan:
			return ast.WalkContinue, nil
		case ast.KindHeading:
			b.WriteString(strings.Repeat("#", n.(*ast.Heading).Level))
		case extast.KindTableCell:
			b.WriteString("|")
			return ast.WalkContinue, nil
		}
		b.WriteString(n.Kind().String() + "\n")
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExampleSatisfiesItsSchema(t *testing.T) {
	for _, input := range []string{
		`"type":"string"`,
		`"type":"integer"`, `"type":"number"`, `"type":"boolean"`, `"type":"object"`, `"type":"array"`, `"type":"null"`,
		`"type":"string","schema":{"minLength":37}`,
		`"type":"string","schema":{"maxLength":2}`,
		`"type":"string","schema":{"maxLength":0}`,
		`"type":"string","schema":{"enum":["x","y"]}`,
		`"type":"string","schema":{"const":"c"}`,
		`"type":"string","schema":{"format":"date-time"}`,
		`"type":"string","schema":{"format":"uuid"}`,
		`"type":"string","schema":{"format":"ipv6"}`,
		`"type":"string","schema":{"pattern":"^z$","examples":["z"]}`,
		`"type":"string","default":"d"`,
		`"type":"integer","schema":{"minimum":5,"maximum":9}`,
		`"type":"integer","schema":{"maximum":-5}`,
		`"type":"integer","schema":{"exclusiveMinimum":5,"exclusiveMaximum":7}`,
		`"type":"integer","schema":{"minimum":2.5}`,
		`"type":"integer","schema":{"minimum":10,"multipleOf":7}`,
		`"type":"integer","schema":{"maximum":-10,"multipleOf":7}`,
		`"type":"number","schema":{"exclusiveMinimum":0,"exclusiveMaximum":0.5}`,
		`"type":"number","schema":{"minimum":0.3,"maximum":0.4,"multipleOf":0.1}`,
		`"type":"number","schema":{"maximum":0}`,
		`"type":"number","schema":{"minimum":1e17}`,
		`"type":"array","schema":{"items":{"type":"integer","minimum":3},"minItems":2}`,
		`"type":"array","schema":{"items":{"type":"string"},"minItems":12}`,
		`"type":"object","schema":{"required":["a","b"],"properties":{"a":{"type":"array","items":{"enum":[1]}},"b":{"type":"object","required":["c"],"properties":{"c":{"type":"boolean"}}}}}`,
		`"type":"object","schema":{"type":["object","null"],"required":["a"]}`,
		`"type":"array","schema":{"items":{"anyOf":[{"type":"null"},{"type":"string"}]},"minItems":1}`,
		`"type":"array","schema":{"items":{"oneOf":[{"type":"integer"},{"type":"string"}]}}`,
		`"type":"array","schema":{"items":{"properties":{"a":{}},"required":["a"]}}`,
		`"type":"array","schema":{"items":{"items":{"type":"string"}}}`,
		`"type":"string","schema":{"type":"integer"}`,
		`"type":"array","schema":{"items":true}`,
	} {
		d := describe(t, `{"inputs":[{"name":"o","type":"string","description":"","required":false},{"name":"i","description":"","required":true,`+input+`}]}`)
		if err := validate(t, inputs.InputSchema(d.Descriptor.Inputs), exampleArgs(t, d)); err != nil {
			t.Errorf("%s: %v", input, err)
		}
	}
}

// Schemas that demand too much or contradict themselves still give a page.
func TestExampleIsBounded(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","minItems":1000000,"items":`, 30) + "{}" + strings.Repeat("}", 30)
	for _, schema := range []string{
		deep,
		`{"minLength":1e300}`, `{"minLength":-5,"maxLength":-7}`, `{"minItems":1e300,"type":"array"}`,
		`{"type":"number","minimum":1e300,"maximum":-1e300}`, `{"type":"number","multipleOf":1e-300,"minimum":1e300}`,
		`{"type":17}`, `{"enum":[]}`, `{"required":["a","a"],"type":"object"}`, `{"anyOf":[]}`, `{"a":1,"a":2}`, `{"type":"object","required":"x"}`,
		`{"enum":["` + strings.Repeat("x", 100_000) + `"]}`,
	} {
		d := &translate.Description{Name: "n", Descriptor: &document.Descriptor{
			Inputs: []document.Parameter{{Name: "i", Type: "string", Required: true, Schema: jsontext.Value(schema)}},
		}}
		if args := exampleArgs(t, d); len(args) > 20_000 {
			t.Errorf("%.60s: %d bytes", schema, len(args))
		}
	}
}

// exampleArgs takes the arguments out of the example in SKILL.md.
func exampleArgs(t *testing.T, d *translate.Description) jsontext.Value {
	t.Helper()
	_, rest, _ := strings.Cut(readFile(t, d, "SKILL.md"), "## Example\n\n```json\n")
	example, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatal("there is no example")
	}
	request := decode[struct {
		Params struct {
			Name string         `json:"name"`
			Args jsontext.Value `json:"args"`
		} `json:"params"`
	}](t, example)
	if request.Params.Name != d.Name {
		t.Errorf("the example calls %q", request.Params.Name)
	}
	return request.Params.Args
}

// resource is a schema that others refer to.
type resource struct{ url, text string }

func validate(t *testing.T, schema, value jsontext.Value, others ...resource) error {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, r := range append(others, resource{"schema.json", string(schema)}) {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(r.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(r.url, document); err != nil {
			t.Fatal(err)
		}
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(instance)
}
