package document

import (
	"bytes"
	"context"
	"runtime"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// renderings are texts that were made of a descriptor.
type renderings struct {
	owner  string // key of the source, for turns
	making sync.Mutex

	mu   sync.RWMutex
	kept map[any]jsontext.Value // by their forms
	size int                    // of the texts, in bytes; equal ones share their memory
}

// maxRenderings bounds the texts of a descriptor that are kept.
const maxRenderings = 16

// renderTurns limits how many texts are made of descriptors at a time. Making one takes up to some 100 ms of processor time, and can't
// be interrupted.
var renderTurns = share.NewQueue(max(1, runtime.GOMAXPROCS(0)/4))

// Rendering returns a text that render makes of the descriptor, such as a JSON Schema for models. It is made once for each form, and kept as
// long as the descriptor, unless the texts of all forms are more than twice as long as what they are made of: then it is made again. A form is comparable
// and has a type of its own, like the key of a context's value, and few values, which clients do not choose.
//
// Sources have turns in which their texts are made. The error is that of a context that has ended: no text is returned for a client that has
// gone. The text must not be changed.
func (d *Descriptor) Rendering(ctx context.Context, form any, render func() jsontext.Value) (jsontext.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	of := &d.renderings
	if text, known := of.find(form); known {
		return text, nil
	}
	if !renderTurns.Take(ctx, of.owner, share.Line{}) {
		return nil, ctx.Err()
	}
	defer renderTurns.End(of.owner)
	of.making.Lock()
	defer of.making.Unlock()
	if text, known := of.find(form); known {
		return text, nil
	}
	return of.keep(form, render(), 2*d.size()), nil
}

func (r *renderings) find(form any) (text jsontext.Value, known bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	text, known = r.kept[form]
	return text, known
}

// keep keeps a text if all texts together have no more than most bytes, and returns it. The caller holds r.making.
func (r *renderings) keep(form any, text jsontext.Value, most int) jsontext.Value {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := r.size + len(text)
	for _, other := range r.kept {
		if bytes.Equal(other, text) {
			text, size = other, r.size
			break
		}
	}
	if size > most || len(r.kept) == maxRenderings {
		return text
	}
	if r.kept == nil {
		r.kept = map[any]jsontext.Value{}
	}
	if size > r.size && cap(text) > len(text)+len(text)/4 {
		text = bytes.Clone(text)
	}
	r.kept[form], r.size = text, size
	return text
}

// size returns the length of the parts of the descriptor that are shown to models, in bytes, and at least 2 KiB.
func (d *Descriptor) size() int {
	size := 2<<10 + len(d.Name) + len(d.Description) + len(d.Output.Schema)
	for i := range d.Inputs {
		in := &d.Inputs[i]
		size += 64 + 2*len(in.Name) + len(in.Type) + len(in.Description) + len(in.Schema) + len(in.Default)
	}
	return size
}
