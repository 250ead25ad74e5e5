package document

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// maxRepaired is the size of the largest JSON text of which a repaired copy is made, in bytes: the names of an object are in memory meanwhile, and
// U+FFFD has three bytes.
const maxRepaired = 1 << 20

// Repaired returns a copy of a JSON text without bytes that are not UTF-8 and halves of surrogate pairs, in whose places is U+FFFD, and with the last of
// several members of one name. It returns nil if the text has other faults, or does not say clearly which run it is about, or its state.
func Repaired(text []byte) []byte {
	whole := jsontext.Value(bytes.Clone(text))
	if len(text) > maxRepaired || whole.Format(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	said := map[string]string{}
	for name, value := range jsonrpc.Members(whole) {
		if key := string(jsonrpc.Unquote(name)); key == "status" || key == "execution_id" {
			now, _ := Text(value)
			before, again := said[key]
			if said[key] = now; strings.ContainsRune(now, utf8.RuneError) || again && before != now {
				return nil
			}
		}
	}
	return lastMembers(whole)
}

// lastMembers returns a value whose objects have the last of several members of one name.
func lastMembers(value jsontext.Value) jsontext.Value {
	if value.IsValid() {
		return value
	}
	var parts [][]byte
	for item := range jsonrpc.Items(value) {
		parts = append(parts, lastMembers(item))
	}
	places := map[string]int{}
	for name, member := range jsonrpc.Members(value) {
		key := string(jsonrpc.Unquote(name))
		if before, again := places[key]; again {
			parts[before] = nil
		}
		places[key] = len(parts)
		parts = append(parts, slices.Concat(name, jsontext.Value(":"), lastMembers(member)))
	}
	parts = slices.DeleteFunc(parts, func(part []byte) bool { return part == nil })
	return slices.Concat(value[:1], bytes.Join(parts, []byte(",")), value[len(value)-1:])
}
