package wire

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// RepeatedArgument returns the name of an argument that is there twice, and the problem in words; empty: none is.
func RepeatedArgument(arguments jsonrpc.Member) (name, problem string) {
	name, twice := repeated(arguments.Members, arguments.Value)
	if !twice {
		return "", ""
	}
	return name, "The argument \"" + name + "\" is there more than once."
}

// RepeatedInArguments is RepeatedArgument that also returns the name of an argument with a member that is there twice, at any depth.
func RepeatedInArguments(arguments jsonrpc.Member) (name, problem string) {
	if name, problem = RepeatedArgument(arguments); problem != "" {
		return name, problem
	}
	path := repeatedWithin(arguments.Value)
	if path == "" {
		return "", ""
	}
	for name = range path.Tokens() {
		break
	}
	return safetext.Line(name, MaxQuoted), "In the arguments, \"" + safetext.Line(string(path), MaxQuoted) + "\" is there more than once."
}

// repeatedWithin returns where a value, or a value in it, has a member twice; empty: nowhere. The members of the value itself were compared before,
// so a value without objects in it is not read.
func repeatedWithin(value jsontext.Value) jsontext.Pointer {
	if bytes.Count(value, []byte("{")) < 2 || value.IsValid() {
		return ""
	}
	_, err := jsontext.NewDecoder(bytes.NewReader(value)).ReadValue()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return syntax.JSONPointer
	}
	return ""
}

// repeatedIn returns the name of a member that an object, or a value in it, has twice, cleaned.
func repeatedIn(object jsontext.Value) (name string, twice bool) {
	if object.Kind() != '{' {
		return "", false
	}
	if name, twice = repeated(nil, object); twice {
		return name, true
	}
	path := repeatedWithin(object)
	return safetext.Line(path.LastToken(), MaxQuoted), path != ""
}

// fewNames is how many names are compared with each other. With more of them, there is a set.
const fewNames = 16

// repeated returns the name of the first member that an object has twice, cleaned. members may be nil, if they are not known.
func repeated(members []jsonrpc.Member, object jsontext.Value) (name string, twice bool) {
	var first [fewNames][]byte
	few := first[:0]
	var set map[string]bool
	see := func(quoted jsontext.Value) {
		text := jsonrpc.Unquote(quoted)
		if set == nil && len(few) < fewNames {
			twice = slices.ContainsFunc(few, func(other []byte) bool { return string(other) == string(text) })
			few = append(few, text)
		} else {
			if set == nil {
				set = make(map[string]bool, 2*fewNames)
				for _, other := range few {
					set[string(other)] = true
				}
			}
			twice = set[string(text)]
			set[string(text)] = true
		}
		if twice {
			name = safetext.Line(string(text), MaxQuoted)
		}
	}
	for i := 0; i < len(members) && !twice; i++ {
		see(members[i].Name)
	}
	if members == nil {
		jsonrpc.EachMember(object, func(quoted, _ jsontext.Value) bool {
			see(quoted)
			return !twice
		})
	}
	return name, twice
}
