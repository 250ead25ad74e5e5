package acceptor

import (
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// reader reads a JSON text. It accepts no text that [jsonvalue.Read] refuses: it leaves all that is unusual to the library.
type reader struct {
	*strictjson.Reader
	values int // which may still be read
}

// Accepts reports whether a text is certainly the text of a value that the schema accepts, with at most so many values, and so many
// objects and arrays within each other. It takes a few nanoseconds a byte and allocates nothing for usual texts.
func (a *Acceptor) Accepts(text []byte, values, depth int) bool {
	r := reader{strictjson.Borrow(text, depth, false), values}
	defer r.GiveBack()
	return a.value(&r) && r.End()
}

// value reads a value. It reports whether the schema certainly accepts it.
func (a *Acceptor) value(r *reader) bool {
	if r.values == 0 {
		return false
	}
	r.values--
	switch r.Kind() {
	case '{':
		return a.kinds&jsonvalue.TypeObject != 0 && a.acceptsObject(r)
	case '[':
		return a.kinds&jsonvalue.TypeArray != 0 && a.acceptsArray(r)
	}
	raw := r.Value()
	if raw == nil || !a.acceptsScalar(raw) {
		return false
	}
	if a.only != nil {
		_, isListed := a.only[string(raw)]
		return isListed
	}
	return true
}

func (a *Acceptor) acceptsScalar(raw []byte) bool {
	switch raw[0] {
	case '"':
		if a.text == nil {
			return a.kinds&jsonvalue.TypeString != 0
		}
		_, excess, _ := strictjson.String(raw, 0)
		characters := len(raw) - len(`""`) - excess
		return a.kinds&jsonvalue.TypeString != 0 && a.text.least <= characters && characters <= a.text.most
	case 't', 'f':
		return a.kinds&jsonvalue.TypeBoolean != 0
	case 'n':
		return a.kinds&jsonvalue.TypeNull != 0
	}
	_, exponent, isInteger := strictjson.Number(raw, 0)
	kind := jsonvalue.TypeNumber
	if isInteger {
		kind = jsonvalue.TypeInteger
	}
	return kind&a.kinds != 0 && len(raw) <= maxNumber && exponent <= 2 && // a larger exponent may be beyond the doubles
		(a.number == nil || a.number.accept(string(raw), isInteger))
}

func (a *Acceptor) acceptsArray(r *reader) bool {
	n := 0
	for r.Bracket(); r.More(); n++ {
		of := anything
		if a.array != nil {
			if of = a.array.rest; n < len(a.array.first) {
				of = a.array.first[n]
			}
		}
		if !of.value(r) {
			return false
		}
	}
	return r.Bracket() && (a.array == nil || a.array.least <= n && n <= a.array.most)
}

func (a *Acceptor) acceptsObject(r *reader) bool {
	n, required := 0, 0
	for r.Bracket(); r.More(); n++ {
		name := r.Value()
		if name == nil { // it may have an escape sequence, or be there twice
			return false
		}
		of := anything
		if a.object != nil {
			of = a.object.others
			if m, named := a.object.named[string(name[1:len(name)-1])]; named {
				if of = m.value; m.required {
					required++
				}
			}
		}
		if !of.value(r) {
			return false
		}
	}
	return r.Bracket() && (a.object == nil || required == a.object.required && a.object.least <= n && n <= a.object.most)
}
