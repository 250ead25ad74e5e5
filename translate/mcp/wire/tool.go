package wire

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// maxToolDescription is how many characters of a tool's description the APIs of all language models take; OpenAI's refuses longer ones.
const maxToolDescription = 1024

// Tools say how tools are defined.
type Tools struct {
	Modern     bool // for a modern client
	Structured bool // with the schemas of outputs
}

// Tool adds the definition of the tool of a skill as a value, or to an array. tool is its name, name that of the skill for the bridge, and output the JSON
// Schema of the output; nil: none. connects says that calls ask the user to connect an account first. What is dear is kept with the descriptor. The error
// is that of a context that has ended.
func (w *Writer) Tool(ctx context.Context, how Tools, tool, name string, d *document.Descriptor, output jsontext.Value, connects bool) error {
	description, err := front.Description(ctx, d, maxToolDescription, connects)
	if err != nil {
		return err
	}
	input, err := front.InputSchema(ctx, d, front.HeaderKeyword)
	if err != nil {
		return err
	}
	if output, err = how.outputSchema(ctx, d, output); err != nil {
		return err
	}
	w.Open()
	w.Text("name", tool)
	w.Text("title", safetext.Line(d.Name, MaxQuoted))
	w.Raw("description", description)
	w.Raw("inputSchema", input)
	w.Raw("outputSchema", output)
	w.Raw("annotations", jsontext.Value("{"+annotations[strings.ToUpper(d.Endpoint.Method)]+`"openWorldHint":true}`))
	w.OpenMember("_meta")
	w.OpenMember(MetaSkill)
	w.Text("name", name)
	w.Text("version", safetext.Line(d.Version, MaxQuoted))
	w.Text("capabilityType", string(d.CapabilityType))
	w.Close()
	w.Close()
	w.Close()
	return nil
}

// annotations are hints about a tool, by the HTTP method of its endpoint (RFC 9110, section 9.2).
var annotations = map[string]string{"GET": `"readOnlyHint":true,`, "PUT": `"idempotentHint":true,`, "DELETE": `"destructiveHint":true,`}

// wrappedForm is the form of the schema of an output in an object.
type wrappedForm struct{}

// outputSchema returns the schema of structured outputs, made from that of the descriptor; nil: there is none.
func (how Tools) outputSchema(ctx context.Context, d *document.Descriptor, schema jsontext.Value) (jsontext.Value, error) {
	switch {
	case !how.Structured || !IsJSON(d.Output.ContentType) || schema == nil:
		return nil, nil
	case how.Modern || IsOfObjects(schema):
		return front.OutputSchema(ctx, d, front.HeaderKeyword)
	}
	// In the legacy versions, structured content is an object.
	return d.Rendering(ctx, wrappedForm{}, func() jsontext.Value {
		return front.CleanSchema(inputs.InputSchema([]document.Parameter{{Name: "result", Required: true, Schema: schema}}), front.HeaderKeyword)
	})
}

// IsOfObjects reports whether a schema permits only objects, by its type.
func IsOfObjects(schema jsontext.Value) bool {
	return jsonrpc.Text(jsonrpc.ValueOf(schema, "type")) == "object"
}

// The names of the built-in tools, which are no skills.
const (
	GetRun        = "get_run"
	SearchSkills  = "search_skills"
	DescribeSkill = "describe_skill"
	CallSkill     = "call_skill"
)

// The bounds of limit, the argument of search_skills.
const (
	SearchLimit    = 10 // the default
	MaxSearchLimit = 50
)

// GetRunTool is the definition of get_run.
const GetRunTool = `{"name":"` + front.GetRun + `","title":"Follow a run","description":"` + front.GetRunDescription + `","inputSchema":` + front.GetRunSchema +
	`,"annotations":{"readOnlyHint":true,"openWorldHint":true}}`

// SearchTools are the definitions of the tools with which a model finds and calls skills that are not listed, in the order of their
// names, with that of get_run.
const SearchTools = `{"name":"call_skill","title":"Call a skill","description":"Runs a skill and answers with its output. Call describe_skill first to ` +
	`learn its arguments.","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The name, as search_skills gives it."},` +
	`"arguments":{"type":"object","description":"The arguments, as the inputSchema of describe_skill says."}},"required":["name"]},` +
	`"annotations":{"openWorldHint":true}},` +
	`{"name":"describe_skill","title":"Describe a skill","description":"Answers with the description of a skill and the schemas of its arguments and output.",` +
	`"inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The name, as search_skills gives it."}},"required":["name"]},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":true}},` + GetRunTool + `,` +
	`{"name":"search_skills","title":"Search skills","description":"Finds skills by the words of a task, best first. Search before you say that ` +
	`something can't be done.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"A few words: what is to be done, and with what."},` +
	`"limit":{"type":"integer","minimum":1,"maximum":50,"description":"How many skills to return at most; 10 if it is not given."}},"required":["query"]},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":true}}`

// TextArgument returns an argument of a built-in tool that is a text; problem says why it is none.
func TextArgument(arguments jsontext.Value, name, about string) (value, problem string) {
	v := jsonrpc.ValueOf(arguments, name)
	switch value = jsonrpc.Text(v); {
	case v == nil:
		return "", name + " is required: " + about + "."
	case value == "":
		return "", name + " must be a text: " + about + "."
	}
	return value, ""
}

// NumberArgument returns an argument of a built-in tool that is a whole number of at least least, or standard if it is absent.
func NumberArgument(arguments jsontext.Value, name string, least, standard uint64) (n uint64, problem string) {
	v := jsonrpc.ValueOf(arguments, name)
	if v == nil {
		return standard, ""
	}
	f, err := strconv.ParseFloat(string(v), 64) // 1000.0 is a whole number, too
	if v.Kind() != '0' || f < float64(least) || f != math.Trunc(f) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, name + " must be a whole number of " + strconv.FormatUint(least, 10) + " or more."
	}
	return uint64(min(f, math.MaxInt32)), ""
}

// argumentsForm is the form of the arguments of a prompt.
type argumentsForm struct{}

// Prompt adds the definition of the prompt of a skill, whose texts are kept with the descriptor. The error is that of a context that has ended.
func (w *Writer) Prompt(ctx context.Context, name string, d *document.Descriptor, connects bool) error {
	description, err := front.Description(ctx, d, MaxDescription, connects)
	if err != nil {
		return err
	}
	arguments, err := d.Rendering(ctx, argumentsForm{}, func() jsontext.Value { return argumentsOf(d.Inputs) })
	if err != nil {
		return err
	}
	w.Open()
	w.Text("name", name)
	w.Text("title", safetext.Line(d.Name, MaxQuoted))
	w.Raw("description", description)
	w.Raw("arguments", arguments)
	w.Close()
	return nil
}

// argumentsOf returns the arguments of the prompt of a skill with inputs.
func argumentsOf(params []document.Parameter) jsontext.Value {
	w := front.Writer{Buf: []byte{'['}}
	for i := range params {
		in := &params[i]
		w.Open()
		w.Text("name", in.Name)
		w.Optional("description", safetext.Line(in.Description, MaxQuoted))
		w.Bool("required", in.Required)
		w.Close()
	}
	w.CloseArray()
	return w.Buf
}

// PromptInputs returns the inputs of a skill that the arguments of its prompt mean: texts, which are JSON for inputs of other types than string. If
// an argument is wrong, it returns its name and the problem in words.
func PromptInputs(texts jsontext.Value, inputs []document.Parameter) (object jsontext.Value, argument, problem string) {
	w := front.Writer{Buf: make([]byte, 0, len(texts)+2)}
	w.Open()
	for name, value := range jsonrpc.Members(texts) {
		argument = string(jsonrpc.Unquote(name))
		at := slices.IndexFunc(inputs, func(in document.Parameter) bool { return in.Name == argument })
		switch {
		case jsonrpc.IsNull(value):
		case at < 0:
			return nil, argument, "is no argument of the prompt"
		case value.Kind() != '"':
			return nil, argument, "must be a string"
		default:
			w.Next()
			w.Buf = append(append(w.Buf, name...), ':')
			w.Buf = append(w.Buf, inputOf(&inputs[at], value)...)
		}
	}
	w.Close()
	return w.Buf, argument, ""
}

// inputOf returns the input that a text means.
func inputOf(in *document.Parameter, quoted jsontext.Value) jsontext.Value {
	if in.Type == "string" {
		return quoted
	}
	value := jsontext.Value(jsonrpc.Text(quoted))
	if !value.IsValid() { // the check of the inputs says what is wrong
		return quoted
	}
	return value
}

// ValuesOf returns the values of an argument of a prompt, if it has only some.
func ValuesOf(in *document.Parameter) (values []string) {
	if cmp.Or(jsonrpc.Text(jsonrpc.ValueOf(in.Schema, "type")), in.Type) == "boolean" {
		return []string{"false", "true"}
	}
	for v := range jsonrpc.Items(jsonrpc.ValueOf(in.Schema, "enum")) {
		if v.Kind() == '"' {
			values = append(values, jsonrpc.Text(v))
		} else {
			values = append(values, string(v))
		}
	}
	return values
}

// NewCursor returns the cursor of the page of a list after a name. Each list has a letter.
func NewCursor(list, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + "1:" + after))
}

// ParseCursor returns the name after which a page of a list begins. ok is false if the cursor is none of the list.
func ParseCursor(list, cursor string) (after string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	after, ok = strings.CutPrefix(string(raw), list+"1:")
	return after, ok && err == nil && catalog.IsToolName(after) && NewCursor(list, after) == cursor // the decoder skips line ends
}
