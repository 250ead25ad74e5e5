// Package warnings writes what an answer says about arguments that a skill does not have, and that are likely to be misspelt, and about a
// provider's answer that was not valid JSON.
package warnings

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// Reason is the reason of the warnings about arguments.
const Reason = "unknown"

const (
	maxName   = 64  // characters of a name; agents choose them
	maxInputs = 256 // inputs among which a similar one is looked for
	maxKept   = 256 // texts
)

// Recent keeps the warnings of recent calls: agents repeat theirs, and looking for similar names takes a large part of the time of a call. The
// zero value is ready for use. It is safe for concurrent use.
type Recent struct {
	texts sync.Map // of jsontext.Value, by key
	count atomic.Int64
}

// key is weak so that descriptors that are used no longer do not stay in memory.
type key struct {
	descriptor weak.Pointer[document.Descriptor]
	names      string // each after its length
}

// About returns the warnings about arguments that the skill of a descriptor does not have, as a JSON array. The descriptor may be nil: it is not
// known.
func (r *Recent) About(d *document.Descriptor, unknown []string) jsontext.Value {
	names := make([]byte, 0, 128)
	for _, name := range unknown {
		names = append(binary.AppendUvarint(names, uint64(len(name))), name...)
	}
	at := key{weak.Make(d), string(names)}
	if text, ok := r.texts.Load(at); ok {
		return text.(jsontext.Value)
	}
	text := about(d, unknown)
	if r.count.Add(1) > maxKept {
		r.texts.Clear()
		r.count.Store(1)
	}
	r.texts.Store(at, text)
	return text
}

// With returns a JSON array of warnings with more of them, about a provider's answer.
func With(list jsontext.Value, faults []string) jsontext.Value {
	if len(faults) == 0 {
		return list
	}
	w := front.Writer{Buf: slices.Clone(list[:len(list)-1])}
	w.AnswerFaults(faults)
	w.CloseArray()
	return w.Buf
}

func about(d *document.Descriptor, unknown []string) jsontext.Value {
	var known []string
	shown := map[string]string{} // by the inputs' own names
	if d != nil && len(d.Inputs) <= maxInputs {
		names := inputs.ModelNames(d.Inputs)
		for i := range d.Inputs {
			known = append(known, d.Inputs[i].Name)
			if name, ok := names[i]; ok {
				known = append(known, name)
				shown[d.Inputs[i].Name] = name
			}
		}
	}
	slices.Sort(known)
	index := near.NewIndex(known)
	w := front.Writer{Buf: []byte{'['}}
	for _, name := range unknown {
		one(&w, Visible(name), index, shown)
	}
	w.CloseArray()
	return w.Buf
}

// one writes a warning.
func one(w *front.Writer, name string, known *near.Index, shown map[string]string) {
	w.Open()
	w.Text("argument", name)
	w.Text("reason", Reason)
	message := "the skill has no input '" + name + "'"
	if similar := near.Find(name, known); len(similar) > 0 {
		meant := cmp.Or(shown[similar[0]], similar[0])
		message += "; did you mean '" + meant + "'?"
		w.Texts("candidates", []string{meant})
	}
	w.Text("message", message)
	w.Close()
}

// Visible returns a name with escapes for what is not visible in it, of at most 64 characters.
func Visible(name string) string {
	if !safetext.Printable(name) {
		name = safetext.Escape(safetext.Clip(name, maxName), "")
	}
	return safetext.Line(name, maxName)
}

// Takes reports whether the skill of a descriptor has an input of a name; nil: it is not known.
func Takes(d *document.Descriptor, name string) bool {
	return d != nil && len(d.Inputs) <= maxInputs && inputs.ByName(d.Inputs, inputs.ModelNames(d.Inputs), name) >= 0
}
