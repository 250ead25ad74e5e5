// Package listeners counts the clients that listen for changes, and says when the lists of skills are read again for them.
package listeners

import (
	"context"
	"sync"
	"time"
)

// Bounds of subscriptions.
const (
	Most       = 1000
	MostOfOne  = 16 // of one principal; all anonymous callers count as one
	refreshing = 10 * time.Second
)

// Listeners are the open subscriptions. The zero value is ready for use, also by several goroutines.
type Listeners struct {
	mu    sync.Mutex
	count int
	of    map[string]int // by principal
	next  time.Time      // when the lists are read again
	fresh time.Time      // until when they are; zero: it is not known
}

// Enter counts a subscription, if there is room for it.
func (l *Listeners) Enter(principal string) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= Most || l.of[principal] >= MostOfOne {
		return nil, false
	}
	if l.of == nil {
		l.of = map[string]int{}
	}
	l.count++
	l.of[principal]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count--
		if l.of[principal]--; l.of[principal] == 0 {
			delete(l.of, principal)
		}
	}, true
}

// Refresh reads the lists of all sources again if they are stale, for all listeners together. read returns until when they are
// fresh. Refresh returns when to do so again.
func (l *Listeners) Refresh(ctx context.Context, read func(context.Context) time.Time) time.Time {
	l.mu.Lock()
	now := time.Now()
	stale := !l.fresh.IsZero() && !now.Before(l.fresh) // as far as it is known
	if now.Before(l.next) {
		defer l.mu.Unlock()
		return l.next
	}
	l.next = now.Add(refreshing) // also if the reading lasts, or fails
	l.mu.Unlock()
	fresh := read(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fresh = fresh; l.fresh.After(l.next) || !stale && l.fresh.After(now) {
		l.next = l.fresh // if the lists were fresh, the sources were not asked
	}
	return l.next
}
