package skillsprotocol

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// maxWarned bounds the texts of [warned]. Agents choose the names in them.
const maxWarned = 256

// warned keeps the warnings of recent calls: agents repeat theirs, and looking for similar names takes a large part of the time of a call.
type warned struct {
	texts sync.Map // of jsontext.Value, by warnedKey
	count atomic.Int64
}

// warnedKey is weak so that descriptors that are used no longer do not stay in memory.
type warnedKey struct {
	descriptor weak.Pointer[document.Descriptor]
	names      string // each after its length
}

// of returns the warnings about arguments that a skill does not have, as a JSON array. The skill may be nil.
func (w *warned) of(s *translate.Skill, unknown []string) jsontext.Value {
	if s == nil {
		return warningsAbout(nil, unknown)
	}
	names := make([]byte, 0, 128)
	for _, name := range unknown {
		names = append(binary.AppendUvarint(names, uint64(len(name))), name...)
	}
	key := warnedKey{weak.Make(s.Descriptor), string(names)}
	if text, ok := w.texts.Load(key); ok {
		return text.(jsontext.Value)
	}
	text := warningsAbout(s, unknown)
	if w.count.Add(1) > maxWarned {
		w.texts.Clear()
		w.count.Store(1)
	}
	w.texts.Store(key, text)
	return text
}

func warningsAbout(s *translate.Skill, unknown []string) jsontext.Value {
	b, similar := builder{front.Writer{}}, inputIndex(s)
	b.Buf = append(b.Buf, '[')
	for _, name := range unknown {
		b.unknownInput(name, similar)
	}
	b.CloseArray()
	return b.Buf
}
