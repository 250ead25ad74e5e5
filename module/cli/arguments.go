package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Arguments are those of a call as they stand on a command line.
type Arguments struct {
	Pairs []string       // key=value or key:=json
	JSON  jsontext.Value // all of them; nil: Pairs
}

// ReadArguments reads the value of --args: a JSON object, @file, or - for standard
// input.
func ReadArguments(text string, stdin io.Reader) (jsontext.Value, error) {
	raw := []byte(text)
	var err error
	switch file, isFile := strings.CutPrefix(text, "@"); {
	case text == "-":
		raw, err = io.ReadAll(stdin)
	case isFile:
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("--args: %w", err)
	}
	value := jsontext.Value(bytes.TrimSpace(raw))
	if !value.IsValid() {
		return nil, errors.New("--args is not valid JSON; write '{…}', @file, or - for standard input")
	}
	if value.Kind() != '{' {
		return nil, errors.New("--args is not a JSON object, such as {\"text\": \"…\"}")
	}
	return value, nil
}

// object makes the JSON object of the arguments. Values are strings where the
// skill wants strings, else JSON.
func (a Arguments) object(inputs []skillsharing.Parameter) (object jsontext.Value, unknown []string, err error) {
	if a.JSON != nil {
		return a.JSON, nil, nil
	}
	object = jsontext.Value("{")
	var seen []string
	for _, pair := range a.Pairs {
		key, text, found := strings.Cut(pair, "=")
		key, forced := strings.CutSuffix(key, ":")
		if !found || key == "" {
			return nil, nil, fmt.Errorf("argument %q has no name: write key=value, or key:=json", pair)
		}
		if slices.Contains(seen, key) {
			return nil, nil, fmt.Errorf("argument %q is given twice", key)
		}
		at := slices.IndexFunc(inputs, func(p skillsharing.Parameter) bool { return p.Name == key })
		if at < 0 {
			unknown = append(unknown, key)
		}
		value := jsontext.Value(text)
		switch {
		case !forced && (at < 0 || takesString(&inputs[at])):
			value, err = jsontext.AppendQuote(nil, text)
			if err != nil {
				return nil, nil, fmt.Errorf("argument %q is not valid UTF-8", key)
			}
		case !value.IsValid():
			return nil, nil, notJSON(key, text, forced, inputs, at)
		}
		if len(seen) > 0 {
			object = append(object, ',')
		}
		seen = append(seen, key)
		if object, err = jsontext.AppendQuote(object, key); err != nil {
			return nil, nil, fmt.Errorf("the name of argument %q is not valid UTF-8", key)
		}
		object = append(append(object, ':'), value...)
	}
	return append(object, '}'), unknown, nil
}

func notJSON(key, text string, forced bool, inputs []skillsharing.Parameter, at int) error {
	if forced {
		return fmt.Errorf("argument %q: %q is not valid JSON", key, text)
	}
	return fmt.Errorf("argument %q: %q is not valid JSON, and this input is of type %s", key, text, strings.Join(types(&inputs[at]), " or "))
}

// takesString reports whether a bare text is a value of the parameter.
func takesString(p *skillsharing.Parameter) bool {
	return slices.ContainsFunc(types(p), func(t string) bool { return !slices.Contains(notStrings, t) })
}

// notStrings are the other types that JSON Schema has.
var notStrings = []string{"null", "boolean", "integer", "number", "array", "object"}

// types are the JSON types of a parameter: those that its schema states, else its
// own, which need not be one of JSON's.
func types(p *skillsharing.Parameter) []string {
	var schema struct {
		Type jsontext.Value `json:"type"`
	}
	if p.Schema == nil || json.Unmarshal(p.Schema, &schema) != nil || schema.Type == nil {
		return []string{p.Type}
	}
	var one string
	if json.Unmarshal(schema.Type, &one) == nil {
		return []string{one}
	}
	var several []string
	if json.Unmarshal(schema.Type, &several) == nil && len(several) > 0 {
		return several
	}
	return []string{p.Type}
}
