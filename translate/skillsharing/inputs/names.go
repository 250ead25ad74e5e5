package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// maxModelName is the longest name of an input in bytes that the APIs of language models accept.
const maxModelName = 64

func isModelCharacter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.'
}

// isModelName reports whether the APIs of language models accept a name of an input. They check only the names of the inputs themselves, not
// those of properties in their schemas.
func isModelName(name string) bool {
	return name != "" && len(name) <= maxModelName && !strings.ContainsFunc(name, func(r rune) bool { return !isModelCharacter(r) })
}

// ModelNames returns the names that parameters have in [InputSchema], by their places: of a name that the APIs of language models do not accept,
// the characters that they do, and a hash of the name, which is so long that no other parameter has the result. The result is nil if all parameters have
// their own names.
func ModelNames(params []document.Parameter) map[int]string {
	var names map[int]string
	var taken map[string]bool
	for i := range params {
		if isModelName(params[i].Name) {
			continue
		}
		if names == nil {
			names, taken = map[int]string{}, make(map[string]bool, len(params))
			for j := range params {
				taken[params[j].Name] = true
			}
		}
		names[i] = modelName(params[i].Name, taken)
		taken[names[i]] = true
	}
	return names
}

func modelName(name string, taken map[string]bool) (safe string) {
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:])
	plain := strings.Map(func(r rune) rune {
		if isModelCharacter(r) {
			return r
		}
		return '_'
	}, safetext.Clip(name, maxModelName))
	for digits := 6; digits < maxModelName; digits++ {
		if safe = plain[:min(len(plain), maxModelName-1-digits)] + "_" + hash[:digits]; !taken[safe] {
			break
		}
	}
	return safe
}

// ByName returns the place of the parameter with a name of its own or, if there is none, in [InputSchema]; -1: there is none. names are those of
// [ModelNames].
func ByName(params []document.Parameter, names map[int]string, name string) int {
	at := slices.IndexFunc(params, func(p document.Parameter) bool { return p.Name == name })
	if at >= 0 {
		return at
	}
	for place, shown := range names {
		if shown == name {
			return place
		}
	}
	return -1
}

// naming is the name under which an input is given.
type naming uint8

const (
	notGiven naming = iota
	byOwnName
	byModelName
)

// as returns an input for failures, which name it as the caller does.
func (in *Inputs) as(i int, how naming) *input {
	p := &in.inputs[i]
	if how == byOwnName || p.model == "" {
		return p
	}
	shown := *p
	shown.name = p.model
	return &shown
}

// usual returns how a caller names inputs that have two names: as in [InputSchema], unless it has given one by its own.
func (in *Inputs) usual(given []naming) naming {
	for i, how := range given {
		if how == byOwnName && in.inputs[i].model != "" {
			return byOwnName
		}
	}
	return byModelName
}

// Restored returns arguments with the inputs' own names instead of those in [InputSchema]. An input that is given under both names is a
// failure. Names within the arguments are not changed.
func (in *Inputs) Restored(arguments jsonrpc.Object) (jsonrpc.Object, *run.Failure) {
	if in.byModelName == nil {
		return arguments, nil
	}
	var given map[int]bool
	renamed := false
	text := jsontext.Value{'{'}
	for name, value := range arguments.All() {
		i, named := in.find(name)
		if named != notGiven && given[i] {
			return arguments, in.as(i, byModelName).fault(run.Ambiguous, "", fmt.Sprintf("is given twice, also as %q", safetext.Clip(in.inputs[i].name, jsonvalue.MaxActual)))
		}
		if named != notGiven {
			if given == nil {
				given = map[int]bool{}
			}
			given[i] = true
			if named == byModelName {
				name, renamed = jsonvalue.Quoted(in.inputs[i].name), true
			}
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(append(append(text, name...), ':'), value...)
	}
	if !renamed {
		return arguments, nil
	}
	return jsonrpc.Object{Text: append(text, '}')}, nil
}
