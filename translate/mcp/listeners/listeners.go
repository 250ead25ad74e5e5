// Package listeners serves the subscriptions of clients: it counts them, reads the lists of skills again for them, and sends them
// what changes and which tasks end.
package listeners

import (
	"context"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
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
