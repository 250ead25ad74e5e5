package translate

import (
	"container/list"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
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

func (f *fault) size() int {
	e := f.failure
	return faultOverhead + 2*len(f.id) + len(e.Message) + len(e.Details) + len(e.URL)
}

// note notes why a skill that is listed can't be used; nil: it can.
func (f *Faults) note(l *listed, failure *run.Failure) {
	if l.source.Kind == SkillSource && l.id != "" {
		return // the skill of a run, and not what the source offers now
	}
	if failure == nil && f.count.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(l.id)
	if failure != nil {
		f.add(&fault{strings.Clone(l.id), shortened(failure)})
	}
	f.count.Store(int64(len(f.known)))
}

// shortened is what is remembered of a failure: what is shown of it.
func shortened(failure *run.Failure) *run.Failure {
	short := &run.Failure{
		Kind: failure.Kind, Phase: failure.Phase, By: failure.By, HTTPStatus: failure.HTTPStatus, Executed: failure.Executed, Demand: failure.Demand,
		Message: cut(failure.Message, maxFaultText), URL: cut(failure.URL, maxFaultText), Refused: cut(failure.Refused, maxFaultText),
	}
	if len(failure.Details) <= maxFaultDetails {
		short.Details, short.DetailsSource = failure.Details.Clone(), failure.DetailsSource
	}
	return short
}

// cut is a text of so many bytes at most, which keeps no longer one in memory.
func cut(text string, most int) string {
	if len(text) <= most {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
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
