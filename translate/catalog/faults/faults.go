// Package faults keeps the newest failure of each skill of a source, within bounds, and says what is wrong with names.
package faults

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Faults holds the newest failure of each skill of a source whose descriptor could not be read.
// Its size is bounded; the oldest failures are dropped first. After a reload of the
// configuration, the new source can take over the Faults of the old one. It is safe for
// concurrent use; the zero value is empty.
type Faults struct {
	count atomic.Int64 // len(known), readable without the lock

	mu    sync.Mutex
	known map[string]*fault // by skill id
	size  int               // in bytes
}

// fault is the newest failure of one skill.
type fault struct {
	id      string
	failure *run.Failure
	since   time.Time // of the first of the failures of this kind in a row
	noted   time.Time // of the newest of them
}

// Bounds in bytes. They are needed because documents supply the ids and most of the texts.
const (
	maxFaults       = 1 << 20 // of one source
	maxFaultText    = 500
	maxFaultDetails = 1 << 10
	faultOverhead   = 512
)

func (f *fault) size() int { return faultOverhead + 2*len(f.id) + textSize(f.failure) }

// Empty reports whether there is no failure, without an allocation.
func (f *Faults) Empty() bool { return f.count.Load() == 0 }

// Note stores a failure under an id; nil removes it.
func (f *Faults) Note(id string, failure *run.Failure) {
	if failure == nil && f.Empty() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	since := time.Now()
	if known := f.known[id]; known != nil && failure != nil && known.failure.Kind == failure.Kind {
		since = known.since
	}
	f.forget(id)
	if failure != nil {
		f.add(&fault{strings.Clone(id), shortened(failure), since, time.Now()})
	}
	f.count.Store(int64(len(f.known)))
}

// shortened returns a copy of a failure with only what is shown. Parts that are too long are
// cut or left out.
func shortened(failure *run.Failure) *run.Failure {
	short := *failure
	short.SkillID, short.ExecutionID = strings.Clone(short.SkillID), ""
	short.Cause, short.Message, short.URL = nil, safetext.Clip(short.Message, maxFaultText), safetext.Clip(short.URL, maxFaultText)
	if textSize(&short)-len(short.Message)-len(short.URL) > maxFaultDetails {
		short.Demand, short.Violations, short.Reach, short.Provider = nil, nil, nil, nil
	}
	short.Rewrite(strings.Clone, jsontext.Value.Clone) // copies: the texts may be slices of documents
	return &short
}

// textSize returns the size of the texts of a failure, in bytes.
func textSize(failure *run.Failure) int {
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

func (f *Faults) add(added *fault) {
	if f.known == nil {
		f.known = make(map[string]*fault)
	}
	f.known[added.id] = added
	f.size += added.size()
	for f.size > maxFaults {
		oldest := added
		for _, other := range f.known {
			if other.noted.Before(oldest.noted) {
				oldest = other
			}
		}
		f.forget(oldest.id)
	}
}

func (f *Faults) forget(id string) {
	if known := f.known[id]; known != nil {
		f.size -= known.size()
		delete(f.known, id)
	}
}

// Get returns the failure of a skill, and since when it has failures of this kind; nil: there is none.
func (f *Faults) Get(id string) (*run.Failure, time.Time) { return f.Recent(id, math.MaxInt64) }

// Recent is Get without failures that were noted longer ago than a time.
func (f *Faults) Recent(id string, within time.Duration) (*run.Failure, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.known[id]; known != nil && time.Since(known.noted) < within {
		return known.failure, known.since
	}
	return nil, time.Time{}
}

// Prune removes the failures of the ids for which keep returns false.
func (f *Faults) Prune(keep func(id string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.known {
		if !keep(id) {
			f.forget(id)
		}
	}
	f.count.Store(int64(len(f.known)))
}

// NotFound returns the failure for an unknown name. unread names the sources that could not be
// searched.
func NotFound(name string, candidates []string, unread []string) *run.Failure {
	name = shorten(name)
	message := fmt.Sprintf("skill '%s' not found.", name)
	if len(candidates) > 0 {
		message += fmt.Sprintf(" Did you mean %s?", enumerate(candidates))
	}
	f := run.NotExecuted(run.SkillNotFound, run.PhaseDiscovery, message+notSearched(unread))
	f.Argument = &run.Argument{Field: run.FieldSkill, Reason: run.NotFound, Value: name, Candidates: candidates, Unread: unread}
	return f
}

// Ambiguous returns the failure for a name that several skills match, or that has no namespace
// although there are several sources. unread names those that could not be searched.
func Ambiguous(name string, candidates, unread []string) *run.Failure {
	name = shorten(name)
	f := run.NotExecuted(run.InvalidArguments, run.PhaseDiscovery, fmt.Sprintf("'%s' does not say which skill is meant; say %s.", name, enumerate(candidates))+notSearched(unread))
	f.Argument = &run.Argument{Field: run.FieldSkill, Reason: run.Ambiguous, Candidates: candidates, Unread: unread}
	return f
}

// notSearched returns a sentence, after a space, about sources that could not be searched, or nothing if there are none.
func notSearched(unread []string) string {
	if len(unread) == 0 {
		return ""
	}
	return fmt.Sprintf(" (Not searched, because they can't be read at the moment: %s.)", enumerate(unread))
}

// maxQuotedName bounds an unknown name in a message, in bytes.
const maxQuotedName = 200

func shorten(name string) string { return safetext.Field(name, maxQuotedName) }

// enumerate joins names for a sentence: 'a', 'b' or 'c'.
func enumerate(names []string) string {
	list := "'" + strings.Join(names, "', '") + "'"
	if i := strings.LastIndex(list, "', '"); i >= 0 {
		list = list[:i] + "' or '" + list[i+len("', '"):]
	}
	return list
}
