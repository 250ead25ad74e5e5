package wire

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// PromptInputs returns the inputs of a skill that the arguments of its prompt mean: texts, which are JSON for inputs of other types than string. If
// an argument is wrong, it returns its name and the problem in words.
func PromptInputs(texts jsontext.Value, inputs []document.Parameter) (object jsontext.Value, argument, problem string) {
	w := front.Writer{Buf: make([]byte, 0, len(texts)+2)}
	w.Open()
	jsonrpc.EachMember(texts, func(name, value jsontext.Value) bool {
		argument = string(jsonrpc.Unquote(name))
		at := slices.IndexFunc(inputs, func(in document.Parameter) bool { return in.Name == argument })
		switch {
		case jsonrpc.IsNull(value):
		case at < 0:
			problem = "is no argument of the prompt"
		case value.Kind() != '"':
			problem = "must be a string"
		default:
			w.Next()
			w.Buf = append(append(w.Buf, name...), ':')
			w.Buf = append(w.Buf, inputOf(&inputs[at], value)...)
		}
		return problem == ""
	})
	w.Close()
	return w.Buf, argument, problem
}

// inputOf returns the input that a text means.
func inputOf(in *document.Parameter, quoted jsontext.Value) jsontext.Value {
	if in.Type == "string" {
		return quoted
	}
	value := jsontext.Value(Text(quoted))
	if !value.IsValid() { // the check of the inputs says what is wrong
		return quoted
	}
	return value
}

// ValuesOf returns the values of an argument of a prompt, if it has only some.
func ValuesOf(in *document.Parameter) (values []string) {
	if cmp.Or(Text(Member(in.Schema, "type")), in.Type) == "boolean" {
		return []string{"false", "true"}
	}
	for _, v := range jsonrpc.Items(Member(in.Schema, "enum")) {
		if v.Kind() == '"' {
			values = append(values, Text(v))
		} else {
			values = append(values, string(v))
		}
	}
	return values
}
