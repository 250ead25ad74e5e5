package cache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errGoexit is what those waiting get when Fetch or Parse ends its goroutine.
var errGoexit = errors.New("cache: Fetch or Parse called runtime.Goexit")

// flight is one attempt to get a document, shared by all who ask for it
// meanwhile. It is ours rather than golang.org/x/sync/singleflight because it
// has to know who still waits (so that Close can end what nobody waits for),
// to be disowned (so that a Delete is not undone by an older answer), and to
// survive runtime.Goexit, which leaves those waiting on DoChan waiting forever.
type flight struct {
	key    key
	owner  uint64
	ctx    context.Context // not a caller's: a flight outlives the caller that began it
	cancel context.CancelFunc
	done   chan struct{} // closed when outcome is set

	outcome outcome

	// Guarded by flights.mu.
	waiting  int
	disowned bool // its outcome is not to be kept
}

// outcome is how a flight ended.
type outcome struct {
	doc       *Document
	err       error
	selection selection // whom it may be given to
	own       bool      // it concerns its owner only
	next      *entry    // what is known now; nil if nothing is to be kept
}

// flights are the flights of a cache.
type flights struct {
	mu     sync.Mutex
	open   map[key]*flight      // those that may be joined
	all    map[*flight]struct{} // and those that were disowned, until they end
	closed bool
}

func newFlights() *flights {
	return &flights{open: make(map[key]*flight), all: make(map[*flight]struct{})}
}

// board joins the flight of a key, or prepares a new one, which the caller has
// to start. With flights.mu held.
func (fs *flights) board(ctx context.Context, k key, owner uint64) (f *flight, joined bool) {
	if f, joined = fs.open[k]; joined {
		f.waiting++
		return f, true
	}
	f = &flight{key: k, owner: owner, done: make(chan struct{}), waiting: 1, outcome: outcome{err: errGoexit}}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	fs.open[k] = f
	fs.all[f] = struct{}{}
	return f, false
}

// leave takes a caller that no longer waits off a flight. The flight goes on,
// as its document may be wanted again, unless the cache is closed.
func (fs *flights) leave(f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.waiting--
	if fs.closed && f.waiting == 0 {
		fs.abort(f)
	}
}

// abort ends a flight that nobody waits for. With flights.mu held.
func (fs *flights) abort(f *flight) {
	fs.disown(f)
	f.cancel()
}

// disown keeps others from joining a flight, and its outcome from being kept.
// With flights.mu held.
func (fs *flights) disown(f *flight) {
	f.disowned = true
	if fs.open[f.key] == f {
		delete(fs.open, f.key)
	}
}

// land ends a flight and releases those who wait.
func (fs *flights) land(f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.disown(f)
	delete(fs.all, f)
	f.cancel()
	close(f.done)
}

// close aborts the flights that nobody waits for and waits for their end. The
// others go on for as long as someone waits for them.
func (fs *flights) close() {
	fs.mu.Lock()
	fs.closed = true
	var aborted []*flight
	for f := range fs.all {
		if f.waiting == 0 {
			fs.abort(f)
			aborted = append(aborted, f)
		}
	}
	fs.mu.Unlock()
	for _, f := range aborted {
		<-f.done
	}
}

// share gets a document by joining a flight or starting one. again is true if
// the flight was for a request that differs in what the answer varies on, or its
// outcome concerns another owner only.
func (c *Cache) share(ctx context.Context, k key, req Request) (doc *Document, again bool, err error) {
	c.flights.mu.Lock()
	// A flight may have landed since the store was last looked at.
	known := c.store.get(k)
	if doc, decided, err := known.answer(time.Now(), req.Header, req.Owner); decided {
		c.flights.mu.Unlock()
		c.counters.decided(doc, err)
		return doc, false, err
	}
	f, joined := c.flights.board(ctx, k, req.Owner)
	c.flights.mu.Unlock()
	if !joined {
		// The flight may outlive this call, after which the header is the caller's again.
		req.Header = req.Header.Clone()
		go c.fly(f, attempt{config: c.config, key: k, req: req, known: known})
	}

	select {
	case <-ctx.Done():
		c.flights.leave(f)
		return nil, false, ctx.Err()
	case <-f.done:
	}
	if joined && (!f.outcome.selection.matches(req.Header) || f.outcome.own && f.owner != req.Owner) {
		return nil, true, nil
	}
	return f.outcome.doc, false, f.outcome.err
}

// fly is the goroutine of a flight.
func (c *Cache) fly(f *flight, a attempt) {
	defer c.flights.land(f)
	o := a.run(f.ctx)
	if o.next != a.known {
		c.keep(f, o.next)
	}
	c.counters.asked(o)
	f.outcome = o
}

// keep stores what a flight found out, unless it was disowned. The lock makes
// that one step: a Delete comes either before it or after it.
func (c *Cache) keep(f *flight, next *entry) {
	c.flights.mu.Lock()
	if !f.disowned {
		c.store.put(f.key, next)
	}
	c.flights.mu.Unlock()
	// Whoever comes after the flight has landed must find the entry.
	c.store.flush()
}
