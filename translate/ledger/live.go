package ledger

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// live is an entry that this instance has to do with: a call of it submits or follows the run, its next poll is planned, it is being changed, or someone
// watches it. An entry without that takes no memory.
type live struct {
	share.Spot // among the planned polls

	of      Identity
	entry   *Entry        // the newest known version; nil: it is not in memory
	version int64         // of it; 0: none is known
	users   int           // changes, polls and calls in progress
	calls   int           // calls that follow the run, so that it is not polled
	turn    chan struct{} // nil: it is not in use
	watches []*watch
	news    []*Entry // versions that are told next
	telling bool
	poll    planned
}

// watch is someone who hears of new versions of an entry.
type watch struct{ tell func(*Entry) }

// lives are the live entries of this instance.
type lives struct {
	store   Store
	pending pending

	mu          sync.Mutex // guards what follows, and the fields of each live
	all         map[Identity]*live
	named       map[string]*live // those whose versions are known, by id
	subscribers []func(*Entry)
	polls       polls
	missed      int64     // how often announcements may have been missed
	fresh       bool      // there are watches since the last look
	renewed     time.Time // when the lease was renewed; zero: the instance has none
	instance    string    // that it was renewed for
	returned    time.Time // when it could be renewed again, after a while in which it could not
}

// Subscribe calls a function, which must be quick, for each version that this instance makes of an entry, or learns of while it follows or watches it. The
// calls for an entry are in the order of its versions. Versions of other instances may be left out if there is a newer one.
func (l *lives) Subscribe(tell func(*Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribers = append(l.subscribers, tell)
}

// enter returns the live entry, with one more user. The lock is held.
func (l *lives) enter(id Identity) *live {
	n := l.all[id]
	if n == nil {
		n = &live{of: id}
		l.all[id] = n
	}
	if n.turn == nil {
		n.turn = make(chan struct{}, 1)
	}
	n.users++
	return n
}

// use is enter and leave without the lock, also for calls that follow the run.
func (l *lives) use(id Identity, calls int) (n *live, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = l.enter(id)
	n.calls += calls
	l.plan(n)
	return n, sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		n.calls -= calls
		l.leave(n)
	})
}

// leave says that a user no longer needs the live entry. The lock is held.
func (l *lives) leave(n *live) {
	n.users--
	l.tidy(n)
}

// tidy plans or cancels the next poll of a live entry, and forgets the entry if nothing is left to do. The lock is held.
func (l *lives) tidy(n *live) {
	l.plan(n)
	if n.users > 0 || len(n.watches) > 0 || n.telling {
		return
	}
	if n.turn = nil; !n.Waits() {
		delete(l.all, n.of)
		delete(l.named, n.of.ID)
	} else if n.entry != nil && len(n.entry.Notes)+len(n.entry.Outcome) > 1<<10 {
		n.entry = nil
	}
}

// learn makes an entry the newest known version of it, unless a newer one is known, and tells all who want to hear of it. made says that this instance has
// made the version, or adopted the run; another version is of interest only if the entry is live.
func (l *lives) learn(e *Entry, made bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := e.Identity()
	n := l.all[id]
	if !made && (n == nil || n.version == 0) {
		return
	}
	n = l.enter(id)
	defer l.leave(n)
	if e.Version <= n.version {
		if e.Version == n.version {
			n.entry, n.poll.missed = cmp.Or(n.entry, e), l.missed
		}
		return
	}
	n.entry, n.version, n.poll.missed = e, e.Version, l.missed
	l.named[e.ID] = n
	if n.news = append(n.news, e); n.telling {
		return
	}
	n.telling = true
	var bug error
	for len(n.news) > 0 {
		next := n.news[0]
		n.news = n.news[1:]
		bug = cmp.Or(bug, l.tell(next, slices.Clone(n.watches)))
	}
	n.telling, n.news = false, nil
	panics.Raise(bug) // after the others have heard
}

// learnAfter is learn for a version that the store had after it was asked about a known one. If that is not older, the store has lost it: it was restored, or a
// replica has taken over that lacks it.
func (l *lives) learnAfter(known int64, e *Entry) {
	lost := e.Version <= known
	if lost {
		l.mu.Lock()
		if n := l.all[e.Identity()]; n != nil && n.version >= e.Version {
			n.entry, n.version = nil, e.Version-1
		}
		l.mu.Unlock()
	}
	l.learn(e, lost)
}

// tell tells of a version, and returns a panic of who is told. The lock is held, but not meanwhile.
func (l *lives) tell(e *Entry, watches []*watch) (bug error) {
	subscribers := l.subscribers
	l.mu.Unlock()
	defer l.mu.Lock()
	for _, w := range watches {
		bug = cmp.Or(bug, panics.Recovered(func() { w.tell(e) }))
	}
	for _, tell := range subscribers {
		bug = cmp.Or(bug, panics.Recovered(func() { tell(e) }))
	}
	return bug
}

// tellWatches tells those who watch an entry here, and no subscribers, of what is not stored; nil: the entry is gone.
func (l *lives) tellWatches(id Identity, e *Entry) {
	l.mu.Lock()
	n := l.all[id]
	var watches []*watch
	if n != nil {
		if watches = slices.Clone(n.watches); e == nil {
			n.entry, n.version = nil, 0
			l.tidy(n)
		}
	}
	l.mu.Unlock()
	for _, w := range watches {
		w.tell(e)
	}
}

// OnChange calls a function, which must be quick, for each version that is newer than a known one; nil: the entry is gone.
func (l *lives) OnChange(known *Entry, tell func(*Entry)) (stop func()) {
	w, id := &watch{tell}, known.Identity()
	if l.pending.find(id) == nil { // else known is not what is stored
		l.learn(known, false)
	}
	l.mu.Lock()
	n := l.enter(id)
	n.users--
	n.watches = append(n.watches, w)
	unwritten := l.pending.find(id)
	if n.version == 0 {
		if n.version, l.named[id.ID] = known.Version, n; unwritten == nil { // else known is not what is stored
			n.entry, n.poll.missed = known, l.missed
		}
	}
	l.fresh = l.fresh || known.Version > 0 // else it is not stored
	l.hurry(n)
	newer := n.entry
	l.mu.Unlock()
	if unwritten != nil {
		tell(unwritten.entry)
	} else if newer != nil && newer.Version > known.Version {
		tell(newer)
	}
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		n.watches = slices.DeleteFunc(slices.Clone(n.watches), func(other *watch) bool { return other == w })
		l.tidy(n)
	})
}

// Follows reports whether this instance is the one that follows the run of an entry, or submits it.
func (l *lives) Follows(e *Entry) bool { return !e.State.Ended() && e.Follower == l.store.Instance() }

// follow makes this instance the one that follows the run of a next version, if none does. A run that needs no follower loses it in the store.
func (l *lives) follow(next, e *Entry) {
	if next.Follower == "" || next.State.Followed() && !e.State.Followed() {
		next.Follower = l.store.Instance()
	}
}

// maxBehind is how many versions a reader of a [Feed] may be behind. Then its feed ends.
const maxBehind = 64

// Feed are the versions of an entry that follow a known one.
type Feed struct {
	// Versions is closed after the last one, and if the entry is gone.
	Versions <-chan *Entry
	// Close ends the feed.
	Close func()
}

// Feed returns the versions of an entry that are newer than a known one, whichever instance makes them. Of those that another instance makes in short time,
// there may be only the newest. Close has to be called.
func (l *lives) Feed(known *Entry) *Feed {
	versions := make(chan *Entry, maxBehind)
	var mu sync.Mutex
	var ended bool
	return &Feed{versions, l.OnChange(known, func(e *Entry) {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		if ended = e == nil || len(versions) == maxBehind; !ended {
			versions <- e
			ended = e.State.Ended()
		}
		if ended {
			close(versions)
		}
	})}
}

// Watch yields each stored version of a [Feed], until the entry has ended or the context ends. It yields nil last if the feed ends before.
func (l *lives) Watch(ctx context.Context, known *Entry) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		feed := l.Feed(known)
		defer feed.Close()
		for {
			select {
			case e := <-feed.Versions:
				if e != nil && e.Version <= known.Version && !e.State.Ended() {
					continue
				}
				if !yield(e) || e == nil || e.State.Ended() {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// Wake wakes the receiver of a channel with one place.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const (
	// lookEvery is the interval in which new watches are looked at, and lookAll that for all.
	lookEvery, lookAll = time.Second, 5 * time.Second
	lookTimeout        = 10 * time.Second
	// mostWanted is how many runs one look tells others that someone waits for.
	mostWanted = 100
)

// looking looks for changes of watched entries that other instances have made.
func (l *instance) looking() {
	changes := l.store.Changes()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-l.closed.Done():
			return
		case ids := <-changes:
			if ids == nil {
				l.mu.Lock()
				l.missed++ // runs are read again before their next polls
				l.mu.Unlock()
			}
			l.guarded(func() { l.look(ids) })
		case <-ticker.C:
			l.mu.Lock()
			due := l.fresh || time.Since(last) >= lookAll
			l.fresh = false
			l.mu.Unlock()
			if due {
				last = time.Now()
				l.guarded(func() { l.look(nil) })
			}
		}
	}
}

// look asks by one statement for newer versions of those of some entries that are known; nil: of all that are watched.
func (l *instance) look(ids []string) {
	known := map[Identity]int64{}
	var elsewhere []string
	l.mu.Lock()
	if ids == nil {
		for id, n := range l.all {
			if len(n.watches) > 0 && n.version > 0 {
				known[id] = n.version
				if n.entry != nil && n.entry.State.Followed() && !l.Follows(n.entry) && len(elsewhere) < mostWanted {
					elsewhere = append(elsewhere, id.ID)
				}
			}
		}
	}
	for _, id := range ids {
		if n := l.named[id]; n != nil {
			known[n.of] = n.version
			n.poll.wanted = time.Now().Add(2 * lookAll)
			l.hurry(n)
		}
	}
	l.mu.Unlock()
	if len(elsewhere) > 0 {
		l.store.Announce(elsewhere) // so that their followers ask the providers as if someone waited there
	}
	if len(known) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.closed, lookTimeout)
	defer cancel()
	newer, err := l.store.Newer(ctx, known)
	l.failed(err)
	for _, e := range newer {
		if e.Version > 0 {
			l.learnAfter(known[e.Identity()], e)
		} else if known[e.Identity()] > 0 && l.pending.find(e.Identity()) == nil { // it was in the store
			l.tellWatches(e.Identity(), nil)
		}
	}
}
