package document

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// renderings are texts that were made of a descriptor.
type renderings struct {
	owner  string // key of the source, for turns
	making sync.Mutex
	kept   atomic.Pointer[keptTexts]
}

// keptTexts is immutable.
type keptTexts struct {
	list []rendering
	size int // of the texts, in bytes; equal ones share their memory
}

type rendering struct {
	form any
	text jsontext.Value
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
	text := render()
	return of.keep(form, text, 2*d.size()), nil
}

func (r *renderings) find(form any) (text jsontext.Value, known bool) {
	if kept := r.kept.Load(); kept != nil {
		for i := range kept.list {
			if kept.list[i].form == form {
				return kept.list[i].text, true
			}
		}
	}
	return nil, false
}

// keep keeps a text if all texts together have no more than most bytes, and returns it. The caller holds r.making.
func (r *renderings) keep(form any, text jsontext.Value, most int) jsontext.Value {
	var now keptTexts
	if kept := r.kept.Load(); kept != nil {
		now = *kept
	}
	if same := slices.IndexFunc(now.list, func(other rendering) bool { return bytes.Equal(other.text, text) }); same >= 0 {
		text = now.list[same].text
	} else if now.size += len(text); now.size <= most && cap(text) > len(text)+len(text)/4 {
		text = bytes.Clone(text)
	}
	if now.size <= most && len(now.list) < maxRenderings {
		now.list = append(slices.Clip(now.list), rendering{form, text})
		r.kept.Store(&now)
	}
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
