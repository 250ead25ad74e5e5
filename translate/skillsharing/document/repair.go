package document

import (
	"bytes"
	"cmp"
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
		key, now := string(jsonrpc.Unquote(name)), jsonrpc.Text(value)
		before, again := said[key]
		if said[key] = now; (key == "status" || key == "execution_id") && (strings.ContainsRune(now, utf8.RuneError) || again && before != now) {
			return nil
		}
	}
	return lastMembers(whole)
}

// lastMembers returns a valid text without white space whose objects have the last of several members of one name. It copies the text once, however
// deep that nests.
func lastMembers(text jsontext.Value) jsontext.Value {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	others := earlierMembers(d, nil)
	slices.SortFunc(others, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	kept, at := make(jsontext.Value, 0, len(text)), 0
	for _, other := range others {
		if other[0] >= at { // or it is within another one
			kept, at = append(kept, text[at:other[0]]...), other[1]
		}
	}
	return append(kept, text[at:]...)
}

// earlierMembers reads a valid value and appends where those members begin and end, each with its comma, that have the name of a later one.
func earlierMembers(d *jsontext.Decoder, all [][2]int) [][2]int {
	token, _ := d.ReadToken()
	kind := token.Kind()
	if kind != '{' && kind != '[' {
		return all
	}
	var begins []int
	last := map[string]int{}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		if kind == '{' {
			name, _ := d.ReadValue()
			begins = append(begins, int(d.InputOffset())-len(name))
			key := string(jsonrpc.Unquote(name))
			if before, again := last[key]; again {
				all = append(all, [2]int{begins[before], begins[before+1]})
			}
			last[key] = len(begins) - 1
		}
		all = earlierMembers(d, all)
	}
	_, _ = d.ReadToken()
	return all
}
