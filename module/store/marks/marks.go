// Package marks keeps in memory which runs callers have canceled, of those that all instances have in their database.
package marks

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

const (
	// Most bounds the marks.
	Most = 10_000
	// MostOfOne bounds the marks of one owner.
	MostOfOne = 1000
	// mostUnsaved bounds the marks of one owner that wait for the database.
	mostUnsaved = 100
	// patience is how long a call waits for the marks of others to be read, and firstPatience for the first time.
	patience, firstPatience = 200 * time.Millisecond, 2 * time.Second
	// readEvery is the least time between two readings, and readAgain after one that failed.
	readEvery, readAgain = 100 * time.Millisecond, time.Second
	// readTimeout bounds one reading.
	readTimeout = 10 * time.Second
)

// Store is the database. It refuses more than [Most] marks, and more than [MostOfOne] of one owner.
type Store interface {
	// Mark adds a mark for a time, and returns until when it is kept. added is false if there is no room.
	Mark(ctx context.Context, owner, name string, keep time.Duration) (added bool, until time.Time, err error)
	// Marked returns until when marks are kept, by owner and name, one after the other.
	Marked(ctx context.Context) (map[string]time.Time, error)
}

// Marks are things without values that say what callers have canceled. Each instance has them in memory: they are read when the first one is asked for,
// and again when others may have added some, so that asking costs no statement.
type Marks struct {
	store    Store
	announce func()

	mu      sync.Mutex
	known   map[string]time.Time // until when, by owner and name
	unsaved map[string]unsaved   // those of known that the database does not have yet
	news    bool                 // others may have added some since the last reading, or it has failed
	reading chan struct{}        // closed when the reading in progress has ended; nil: there is none
	began   time.Time            // the last reading
	next    time.Time            // the earliest time of the next one
	tried   bool                 // a reading has ended
	bug     error                // its panic, for the next call that asks

	share.Signal // is sent when Until may return something else
}

// unsaved is a mark that waits for the database.
type unsaved struct {
	owner, name string
	until       time.Time
}

// New returns the marks of a store, with a function that tells other instances of new ones.
func New(store Store, announce func()) *Marks {
	return &Marks{store: store, announce: announce, known: map[string]time.Time{}, unsaved: map[string]unsaved{}, news: true}
}

// Changed says that others may have added marks.
func (m *Marks) Changed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.news = true
	m.Send()
}

// ofOwner counts the marks of an owner.
func ofOwner[V any](marks map[string]V, owner string) (n int) {
	for name := range marks {
		if strings.HasPrefix(name, owner) {
			n++
		}
	}
	return n
}

// Add marks a name of an owner, for a time. full is the bound if there is no room. With an error, only this instance knows the mark until the database can be
// used. All owners are of one length, and all names, since they are digests.
func (m *Marks) Add(ctx context.Context, owner, name string, keep time.Duration) (full int, err error) {
	added, until, err := m.save(ctx, owner, name, keep)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil && ofOwner(m.unsaved, owner) >= mostUnsaved:
		return mostUnsaved, nil
	case err != nil && len(m.unsaved) >= Most:
		return Most, nil
	case err != nil:
		until = time.Now().Add(keep)
		m.unsaved[owner+name], m.news = unsaved{owner, name, until}, true
	case !added && ofOwner(m.known, owner) >= MostOfOne:
		return MostOfOne, nil
	case !added:
		return Most, nil
	}
	m.known[owner+name] = until
	m.Send()
	return 0, err
}

// save writes a mark, if there is room.
func (m *Marks) save(ctx context.Context, owner, name string, keep time.Duration) (added bool, until time.Time, err error) {
	added, until, err = m.store.Mark(ctx, owner, name, keep)
	if added && err == nil {
		m.announce()
	}
	return added, until, err
}

// Until returns until when a name of an owner is marked; zero: it is not. What another instance has marked is known after a moment.
func (m *Marks) Until(ctx context.Context, owner, name string) time.Time {
	m.mu.Lock()
	wait := patience
	if !m.tried {
		wait = firstPatience
	}
	if now := time.Now(); m.news && m.reading == nil && !now.Before(m.next) {
		m.reading, m.began, m.news = make(chan struct{}), now, false
		go m.read(context.WithoutCancel(ctx), m.reading)
	}
	reading, until := m.reading, m.began.Add(wait)
	m.mu.Unlock()
	if reading != nil {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-reading:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	bug := m.bug
	m.bug, until = nil, m.known[owner+name]
	m.mu.Unlock()
	panics.Raise(bug)
	return until
}

// Save writes the marks that could not be written when they were added, until the database fails again.
func (m *Marks) Save(ctx context.Context) error {
	m.mu.Lock()
	waiting := maps.Clone(m.unsaved)
	m.mu.Unlock()
	for name, of := range waiting {
		if _, _, err := m.save(ctx, of.owner, of.name, max(time.Until(of.until), time.Millisecond)); err != nil {
			return err
		}
		m.mu.Lock()
		delete(m.unsaved, name)
		m.mu.Unlock()
	}
	return nil
}

// read writes the marks that are not saved yet, and reads those of all.
func (m *Marks) read(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var found map[string]time.Time
	var err error
	bug := panics.Recovered(func() {
		if err = m.Save(ctx); err == nil {
			found, err = m.store.Marked(ctx)
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.bug, m.next = bug, now.Add(readEvery)
	if bug != nil || err != nil {
		m.news, m.next = true, now.Add(readAgain)
	}
	maps.DeleteFunc(m.known, func(_ string, until time.Time) bool { return now.After(until) })
	maps.Copy(m.known, found)
	m.reading, m.tried = nil, true
	m.Send()
	close(done)
}
