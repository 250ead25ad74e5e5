package cache

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// errGoexit is what those waiting get when Fetch or Parse ends its goroutine.
var errGoexit = errors.New("cache: Fetch or Parse called runtime.Goexit")

// flight is one attempt to get a document, shared by all callers that ask for it
// meanwhile. It is ours rather than golang.org/x/sync/singleflight because it
// has to know its callers (so that Close can end those without any),
// to be disowned (so that a Delete is not undone by an older answer), and to
// survive runtime.Goexit, which leaves those waiting on DoChan waiting forever.
type flight struct {
	key    key
	owner  uint64
	ctx    context.Context // not a caller's: a flight outlives the caller that began it
	cancel context.CancelFunc
	done   chan struct{} // closed when outcome is set

	start  func()   // begins it, in a goroutine
	group  *group   // nil: it is in none
	atOnce int      // of the group, in the air
	shares []string // of the group, that it counts in

	outcome outcome
	parsing atomic.Bool // there is an answer to be parsed, or parsed

	// Guarded by flights.mu.
	waiting  int
	queued   *list.Element // its place in its line; nil: it has started
	disowned bool          // its outcome is not to be kept
	landed   []func()      // to be called when it has
}

// group is the flights of a [Request.Group], there for as long as there are any.
type group struct {
	name   string
	flying map[*flight]struct{}
	shares map[string]int           // how many of them count in each share
	turns  *list.List               // of lines, whose flights start in turn
	lines  map[string]*list.Element // by their names
}

// line is where the flights that count in the same shares wait, in the order in which
// they came.
type line struct {
	name    string
	waiting *list.List // of flights; there is at least one
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
	groups map[string]*group
	closed bool
}

func newFlights() *flights {
	return &flights{open: make(map[key]*flight), all: make(map[*flight]struct{}), groups: make(map[string]*group)}
}

// board joins the flight of a key, or prepares a new one, which the caller has
// to take off. With flights.mu held.
func (fs *flights) board(ctx context.Context, k key, req *Request) (f *flight, joined bool) {
	if f, joined = fs.open[k]; joined {
		f.waiting++
		return f, true
	}
	f = &flight{key: k, owner: req.Owner, done: make(chan struct{}), waiting: 1, outcome: outcome{err: errGoexit}}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	fs.open[k] = f
	fs.all[f] = struct{}{}
	if req.AtOnce > 0 {
		f.group, f.atOnce, f.shares = fs.group(req.Group), req.AtOnce, req.Shares
	}
	return f, false
}

func (fs *flights) group(name string) *group {
	if fs.groups[name] == nil {
		fs.groups[name] = &group{
			name: name, flying: make(map[*flight]struct{}), shares: make(map[string]int),
			turns: list.New(), lines: make(map[string]*list.Element),
		}
	}
	return fs.groups[name]
}

// takeOff starts a flight, or queues it where too many of its group are in the air. Of
// these, one without a caller gives way. With flights.mu held.
func (fs *flights) takeOff(f *flight) {
	g := f.group
	if g == nil {
		go f.start()
		return
	}
	g.enqueue(f)
	if g.startNext() {
		return
	}
	for other := range g.flying {
		if other.waiting == 0 && !other.disowned && g.inTheWay(other, f) {
			fs.abort(other)
			return
		}
	}
}

// lineOf is the name of the line of a flight.
func lineOf(f *flight) string { return strings.Join(f.shares, "\n") }

func (g *group) enqueue(f *flight) {
	name := lineOf(f)
	if g.lines[name] == nil {
		g.lines[name] = g.turns.PushBack(&line{name, list.New()})
	}
	f.queued = g.lines[name].Value.(*line).waiting.PushBack(f)
}

// dequeue takes a flight out of its line. The next of that has its turn last.
func (g *group) dequeue(f *flight) {
	turn := g.lines[lineOf(f)]
	l := turn.Value.(*line)
	l.waiting.Remove(f.queued)
	f.queued = nil
	if l.waiting.Len() > 0 {
		g.turns.MoveToBack(turn)
		return
	}
	g.turns.Remove(turn)
	delete(g.lines, l.name)
}

// mayStart reports whether there is room for a flight: no more flights count in a share
// than there is room for others.
func (g *group) mayStart(f *flight) bool {
	free := f.atOnce - len(g.flying)
	for _, share := range f.shares {
		if g.shares[share] >= free {
			return false
		}
	}
	return free > 0
}

// inTheWay reports whether there is more room for a flight that waits once another one
// has landed.
func (g *group) inTheWay(other, f *flight) bool {
	free, shared := f.atOnce-len(g.flying), false
	for _, share := range f.shares {
		if n := g.shares[share]; n > 0 && n >= free {
			shared = true
			if slices.Contains(other.shares, share) {
				return true
			}
		}
	}
	return free <= 0 && !shared
}

// startNext starts a flight, if there is room for one: the first of the line whose turn
// it is. With flights.mu held.
func (g *group) startNext() bool {
	for turn := g.turns.Front(); turn != nil; turn = turn.Next() {
		next := turn.Value.(*line).waiting.Front().Value.(*flight)
		if !g.mayStart(next) {
			continue
		}
		g.dequeue(next)
		g.flying[next] = struct{}{}
		for _, share := range next.shares {
			g.shares[share]++
		}
		go next.start()
		return true
	}
	return false
}

// holdsUp reports whether a flight keeps one that waits from starting.
func (g *group) holdsUp(f *flight) bool {
	for turn := g.turns.Front(); turn != nil; turn = turn.Next() {
		if g.inTheWay(f, turn.Value.(*line).waiting.Front().Value.(*flight)) {
			return true
		}
	}
	return false
}

// makeRoom takes a flight out of its group and starts those that can start now. With
// flights.mu held.
func (fs *flights) makeRoom(f *flight) {
	g := f.group
	if g == nil {
		return
	}
	if f.queued != nil {
		g.dequeue(f)
	} else {
		delete(g.flying, f)
		for _, share := range f.shares {
			if g.shares[share]--; g.shares[share] == 0 {
				delete(g.shares, share)
			}
		}
	}
	for g.startNext() {
	}
	if len(g.flying) == 0 && g.turns.Len() == 0 {
		delete(fs.groups, g.name)
	}
}

// leave takes a caller that no longer waits off a flight. The flight goes on,
// as its document may be wanted again, unless the cache is closed or the flight is in
// the way of others. Landed, if it is not nil, is called when it has landed. Leave
// reports whether the flight had not even started.
func (fs *flights) leave(f *flight, landed func()) (queued bool) {
	fs.mu.Lock()
	queued = f.queued != nil
	if landed != nil && fs.isUp(f) {
		f.landed = append(f.landed, landed)
		landed = nil
	}
	f.waiting--
	if f.waiting == 0 {
		switch {
		case queued:
			landed = fs.landLocked(f)
		case fs.closed, f.group != nil && f.group.holdsUp(f):
			fs.abort(f)
		}
	}
	fs.mu.Unlock()
	if landed != nil {
		landed()
	}
	return queued
}

// isUp reports whether a flight has not landed. With flights.mu held.
func (fs *flights) isUp(f *flight) bool {
	_, up := fs.all[f]
	return up
}

// abort ends a flight without a caller. With flights.mu held.
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

// land ends a flight and releases its callers.
func (fs *flights) land(f *flight) {
	fs.mu.Lock()
	landed := fs.landLocked(f)
	fs.mu.Unlock()
	landed()
}

// landLocked is land with flights.mu held. What it returns is to be called without.
func (fs *flights) landLocked(f *flight) (landed func()) {
	fs.disown(f)
	delete(fs.all, f)
	fs.makeRoom(f)
	f.cancel()
	close(f.done)
	calls := f.landed
	return func() {
		for _, call := range calls {
			call()
		}
	}
}

// close aborts the flights without a caller and waits for their end. The others go
// on for as long as they have callers.
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
	f, joined := c.flights.board(ctx, k, &req)
	if !joined {
		// The flight may outlive this call, after which the header is the caller's again.
		req.Header = req.Header.Clone()
		a := attempt{config: c.config, key: k, req: req, known: known}
		a.req.Parse = func(r *Response) (any, int64, error) {
			f.parsing.Store(true)
			return req.Parse(r)
		}
		f.start = func() { c.fly(f, a) }
		c.flights.takeOff(f)
	}
	c.flights.mu.Unlock()

	select {
	case <-ctx.Done():
		var landed func()
		if !joined && req.Left != nil {
			landed = req.Left()
		}
		if c.flights.leave(f, landed) {
			return nil, false, &QueuedError{Err: ctx.Err(), AtOnce: f.atOnce}
		}
		if f.parsing.Load() {
			return nil, false, &ParsingError{ctx.Err()}
		}
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
