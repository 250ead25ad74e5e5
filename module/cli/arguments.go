package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Arguments are the skill inputs of a command line.
type Arguments struct {
	pairs []pair
	whole jsontext.Value // the value of --args; nil: there are only pairs
}

// A pair is key=value or key:=json.
type pair struct {
	key, text string
	isJSON    bool // key:=json
}

// ParseArguments parses pairs. Whether key=value is a string or JSON depends on the
// skill's inputs, and is decided later.
func ParseArguments(words []string) (Arguments, error) {
	var a Arguments
	for _, word := range words {
		key, text, found := strings.Cut(word, "=")
		key, isJSON := strings.CutSuffix(key, ":")
		switch {
		case !utf8.ValidString(word):
			return a, fmt.Errorf("argument %q is not valid UTF-8", word)
		case !found || key == "":
			return a, fmt.Errorf("argument %q is not of the form key=value or key:=json", word)
		case slices.ContainsFunc(a.pairs, func(p pair) bool { return p.key == key }):
			return a, fmt.Errorf("argument %q is given twice", key)
		case isJSON && !jsontext.Value(text).IsValid():
			return a, fmt.Errorf("argument %q: %q is not valid JSON; write key=value for a string", key, text)
		}
		a.pairs = append(a.pairs, pair{key, text, isJSON})
	}
	return a, nil
}

// ReadArguments reads the value of --args: a JSON object, @file, or - for standard
// input.
func ReadArguments(text string) (Arguments, error) {
	raw := []byte(text)
	var err error
	switch file, isFile := strings.CutPrefix(text, "@"); {
	case text == "-":
		raw, err = io.ReadAll(os.Stdin)
	case isFile:
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return Arguments{}, fmt.Errorf("--args: %w", err)
	}
	value := jsontext.Value(bytes.TrimSpace(raw))
	if err := json.Unmarshal(value, new(jsontext.Value)); err != nil {
		return Arguments{}, fmt.Errorf("--args is not valid JSON: %w; write '{…}', @file, or - for standard input", err)
	}
	if value.Kind() != '{' {
		return Arguments{}, errors.New("--args is not a JSON object, such as {\"text\": \"…\"}")
	}
	return Arguments{whole: value}, nil
}

// Object returns the value of --args.
func (a Arguments) Object() jsontext.Value { return a.whole }

// object returns the arguments as a JSON object. The value of key=value is a string if the input
// accepts strings or is unknown, otherwise JSON.
func (a Arguments) object(params []document.Parameter) (object jsontext.Value, err error) {
	if a.whole != nil {
		return a.whole, nil
	}
	object = jsontext.Value("{")
	safe := inputs.ModelNames(params)
	for i, p := range a.pairs {
		at := inputs.ByName(params, safe, p.key)
		value := jsontext.Value(p.text)
		switch {
		case !p.isJSON && (at < 0 || acceptsString(&params[at])):
			value, err = jsontext.AppendQuote(nil, p.text)
		case !value.IsValid():
			err = fmt.Errorf("argument %q: %q is not valid JSON, and this input is of type %s", p.key, p.text, strings.Join(types(&params[at]), " or "))
		}
		if err != nil {
			return nil, err
		}
		if i > 0 {
			object = append(object, ',')
		}
		if object, err = jsontext.AppendQuote(object, p.key); err != nil {
			return nil, err
		}
		object = append(append(object, ':'), value...)
	}
	return append(object, '}'), nil
}

// acceptsString reports whether a parameter accepts strings, or is of a type that JSON Schema does not have.
func acceptsString(p *document.Parameter) bool {
	return slices.ContainsFunc(types(p), func(t string) bool { return t == "string" || jsonvalue.TypesNamed(t) == 0 })
}

// types returns the types of a parameter's schema, or else the type that the descriptor states,
// which may be no type of JSON Schema.
func types(p *document.Parameter) []string {
	var schema struct {
		Type any `json:"type"`
	}
	_ = json.Unmarshal(p.Schema, &schema) // without a valid one, there is no type
	if own := jsonvalue.TypesOf(schema.Type).Names(); len(own) > 0 {
		return own
	}
	return []string{p.Type}
}
