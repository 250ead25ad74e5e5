// Package listeners serves the subscriptions of clients: it counts them, reads the lists of skills again for them, and sends them
// what changes and which tasks end.
package listeners

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Bounds of subscriptions.
const (
	Most       = 1000
	MostOfOne  = 16 // of one principal; all anonymous callers count as one
	refreshing = 10 * time.Second
)

// Listeners are the open subscriptions. The zero value is ready for use, also by several goroutines.
type Listeners struct {
	open share.Pool

	mu      sync.Mutex
	sources map[string]*list // by source: those that were read, of the configured ones
}

// list is the list of a source.
type list struct {
	next  time.Time // when it is read again
	fresh time.Time // until when it is; zero: it is not known
}

// Enter counts a subscription, if there is room for it.
func (l *Listeners) Enter(principal string) (release func(), ok bool) {
	subscription := &share.Part{Pool: &l.open, Owner: principal, Most: Most, OfOne: MostOfOne}
	return func() { subscription.Set(0) }, subscription.Set(1)
}

// Refresh reads the lists of sources again that are stale, each for all listeners together. Listeners may have different sources. read
// returns until when each list that it could read is fresh. Refresh returns when to do so again.
func (l *Listeners) Refresh(ctx context.Context, sources []string, read func(context.Context, []string) map[string]time.Time) (next time.Time) {
	now := time.Now()
	due, stale := l.due(sources, now)
	var fresh map[string]time.Time
	if len(due) > 0 {
		fresh = read(ctx, due)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, source := range due {
		of := l.sources[source]
		if of.fresh = fresh[source]; of.fresh.After(of.next) || !stale[i] && of.fresh.After(now) {
			of.next = of.fresh // if the list was fresh, the source was not asked
		}
	}
	next = now.Add(Longest)
	for _, source := range sources {
		if at := l.sources[source].next; at.Before(next) {
			next = at
		}
	}
	return next
}

// due returns which of some sources are to be read now, and which of these are stale, as far as it is known. Others do not read them for a while.
func (l *Listeners) due(sources []string, now time.Time) (due []string, stale []bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sources == nil {
		l.sources = map[string]*list{}
	}
	for _, source := range sources {
		of := l.sources[source]
		if of == nil {
			of = &list{}
			l.sources[source] = of
		}
		if now.Before(of.next) {
			continue
		}
		due, stale = append(due, source), append(stale, !of.fresh.IsZero() && !now.Before(of.fresh))
		of.next = now.Add(refreshing) // also if the reading lasts, or fails
	}
	return due, stale
}

// Room is memory for the notification of a task, from when the output of its run is read until the notification is written.
type Room struct {
	exchange.PatientBudget
	Least  int64 // is reserved at least, while the run is read again
	Needed int64 // the most that was asked for
}

// Reserve implements the budget of a call.
func (r *Room) Reserve(size int64) bool {
	r.Needed = max(r.Needed, size)
	return r.PatientBudget.Reserve(max(size, r.Least))
}

// Await implements the budget of a call that waits for memory.
func (r *Room) Await(ctx context.Context, size, most int64) bool {
	r.Needed = max(r.Needed, size)
	return r.PatientBudget.Await(ctx, size, most)
}

// Release does nothing: a call releases the memory at its end, when its output is still used. The PatientBudget in it frees the memory.
func (r *Room) Release() {}

// Read reads a notification, which is counted until the end of the context. If there is no memory for it, Read frees what it has, waits
// until there is enough, and reads it again. So the tasks of a listener, and listeners, take turns. It returns nil if there is none.
func (r *Room) Read(ctx context.Context, read func() jsontext.Value) jsontext.Value {
	for {
		params := read()
		if params != nil {
			context.AfterFunc(ctx, r.PatientBudget.Release)
			return params
		}
		r.PatientBudget.Release()
		if r.Needed <= r.Least || !r.Await(ctx, r.Needed, r.Needed) {
			return nil
		}
		r.Least = r.Needed
	}
}

// mostNamed bounds the ids that are opened, of those that a client names.
const mostNamed = 4 * MostTasks

// Task is a task of a subscription.
type Task struct {
	ID  string
	Ref run.Ref
}

// OwnTasks returns the tasks of a client among those whose ids it names, in their order, each once. open returns the run of an id. It is called
// for all of them at the same time, since it may have to wait for the keys of another instance, and one reading of these is for all ids that
// are waited for then.
func OwnTasks(named []string, open func(id string) (run.Ref, error)) []Task {
	var opened [mostNamed]struct {
		Task
		err      error
		panicked any
	}
	of := make(map[string]bool, min(len(named), mostNamed))
	var group sync.WaitGroup
	for _, id := range named {
		if len(of) == mostNamed {
			break
		}
		if of[id] {
			continue
		}
		o := &opened[len(of)]
		of[id], o.ID = true, id
		group.Go(func() {
			defer func() { o.panicked = recover() }()
			o.Ref, o.err = open(id)
		})
	}
	group.Wait()
	var own []Task
	for i := range len(of) {
		if value := opened[i].panicked; value != nil {
			panic(value) // of the goroutine that answers, which reports it
		}
		if opened[i].err == nil && len(own) < MostTasks {
			own = append(own, opened[i].Task)
		}
	}
	return own
}
