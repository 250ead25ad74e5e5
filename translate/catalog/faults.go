package catalog

import (
	"container/list"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Faults remember why skills of a source could not be used when that was last tried:
// the newest of them, in a bounded room. They may outlive a [Bridge]: the caller that makes
// another with the same source can hand them on to it. They are safe for concurrent
// use, and the zero value is empty.
type Faults struct {
	count atomic.Int64 // of those known, since most calls find none

	mu    sync.Mutex
	known map[string]*list.Element // by the skills' ids
	order list.List                // of faults, the oldest first
	size  int                      // of all, in bytes
}

// fault is why one skill could not be used.
type fault struct {
	id      string
	failure *run.Failure
}

// Bounds of what is remembered, in bytes: documents choose the ids and most of what is
// said about them.
const (
	maxFaults       = 1 << 20 // of one source
	maxFaultText    = 500
	maxFaultDetails = 1 << 10
	faultOverhead   = 512
)

func (f *fault) size() int { return faultOverhead + 2*len(f.id) + textOf(f.failure) }

// note notes why a skill that is listed can't be used; nil: it can.
func (f *Faults) note(l *Listed, failure *run.Failure) {
	if l.Section.Kind == SkillSource && l.ID != "" {
		return // the skill of a run, and not what the source offers now
	}
	if failure == nil && f.count.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(l.ID)
	if failure != nil {
		f.add(&fault{strings.Clone(l.ID), shortened(failure)})
	}
	f.count.Store(int64(len(f.known)))
}

// shortened is what is remembered of a failure: what is shown of it. What is too long is
// left out.
func shortened(failure *run.Failure) *run.Failure {
	short := *failure
	short.SkillID, short.ExecutionID = strings.Clone(short.SkillID), ""
	short.Cause, short.Message, short.URL = nil, cut(short.Message, maxFaultText), cut(short.URL, maxFaultText)
	if textOf(&short)-len(short.Message)-len(short.URL) > maxFaultDetails {
		short.Demand, short.Violations, short.Reach, short.Provider = nil, nil, nil, nil
	}
	short.Rewrite(strings.Clone, jsontext.Value.Clone) // which keep no document in memory
	return &short
}

// textOf is how much text there is in a failure, in bytes.
func textOf(failure *run.Failure) int {
	size, seen := 0, *failure
	seen.Rewrite(func(text string) string {
		size += len(text)
		return text
	}, func(v jsontext.Value) jsontext.Value {
		size += len(v)
		return v
	})
	return size
}

// cut is a text of so many bytes at most, which keeps no longer one in memory.
func cut(text string, most int) string {
	if len(text) <= most {
		return strings.Clone(text)
	}
	return safetext.Clip(text, most)
}

func (f *Faults) add(added *fault) {
	if f.known == nil {
		f.known = make(map[string]*list.Element)
	}
	f.known[added.id] = f.order.PushBack(added)
	f.size += added.size()
	for f.size > maxFaults {
		f.forget(f.order.Front().Value.(*fault).id)
	}
}

func (f *Faults) forget(id string) {
	known := f.known[id]
	if known == nil {
		return
	}
	f.size -= known.Value.(*fault).size()
	f.order.Remove(known)
	delete(f.known, id)
}

// of returns why a skill could not be used; nil: it could, or that was not tried.
func (f *Faults) of(id string) *run.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.known[id]; known != nil {
		return known.Value.(*fault).failure
	}
	return nil
}

// keep forgets those of the skills that a source does not list any more, or lists with
// another version than before, if that is known: they may have been mended.
func (f *Faults) keep(now, before *nameTable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.known {
		listed := now.byID[id]
		if listed == nil || before != nil && before.byID[id] != nil && before.byID[id].Version != listed.Version {
			f.forget(id)
		}
	}
	f.count.Store(int64(len(f.known)))
}
