// Package listeners serves the subscriptions of clients: it counts them, reads the lists of skills again for them, and sends them
// what changes and which tasks end.
package listeners

import (
	"context"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// Bounds of subscriptions.
const (
	Most       = 1000
	MostOfOne  = 16 // of one principal; all anonymous callers count as one
	refreshing = 10 * time.Second
)

// Listeners are the open subscriptions. The zero value is ready for use, also by several goroutines.
type Listeners struct {
	places front.Places

	mu sync.Mutex
	// Anonymous callers see fewer sources than others, so that their lists are read separately.
	anonymous, known lists
}

// lists are the lists that some callers see.
type lists struct {
	next  time.Time // when they are read again
	fresh time.Time // until when they are; zero: it is not known
}

// Enter counts a subscription, if there is room for it.
func (l *Listeners) Enter(principal string) (release func(), ok bool) {
	return l.places.Enter(principal, Most, MostOfOne)
}

// Refresh reads the lists of all sources that a principal may see again if they are stale, for all listeners together that see the same
// ones. read returns until when they are fresh. Refresh returns when to do so again.
func (l *Listeners) Refresh(ctx context.Context, principal string, read func(context.Context) time.Time) time.Time {
	of := &l.known
	if principal == "" {
		of = &l.anonymous
	}
	l.mu.Lock()
	now := time.Now()
	stale := !of.fresh.IsZero() && !now.Before(of.fresh) // as far as it is known
	if now.Before(of.next) {
		defer l.mu.Unlock()
		return of.next
	}
	of.next = now.Add(refreshing) // also if the reading lasts, or fails
	l.mu.Unlock()
	fresh := read(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.fresh = fresh; of.fresh.After(of.next) || !stale && of.fresh.After(now) {
		of.next = of.fresh // if the lists were fresh, the sources were not asked
	}
	return of.next
}
