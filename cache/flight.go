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
	waiting   int
	queued    *list.Element // its place in its line; nil: it has started
	overtaken bool          // it waited, and one that came later started in its first share
	disowned  bool          // its outcome is not to be kept
	landed    []func()      // to be called when it has
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

func (l *line) first() *flight { return l.waiting.Front().Value.(*flight) }

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

// takeOff starts a flight, or queues it where too many of its group are in the air. With
// flights.mu held.
func (fs *flights) takeOff(f *flight) {
	if f.group == nil {
		go f.start()
		return
	}
	f.group.enqueue(f)
	fs.proceed(f.group)
}

// proceed does what a change in a group calls for: those that can start do, and of those
// without a caller, which are in the way of others, some give way. With flights.mu held.
func (fs *flights) proceed(g *group) {
	for g.startNext() {
	}
	fs.giveWay(g)
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

// full reports whether a share has no room for another flight beside those that count in
// it. Half of all places are for shares without a flight; of the others, a share takes no
// more than it leaves free. So it takes many shares, not a few large ones, to take all.
func (g *group) full(inShare, atOnce int) bool {
	free := atOnce - len(g.flying)
	return inShare > 0 && inShare >= free-atOnce/2
}

// mayStart reports whether there is room for a flight beside those in the air, and beside
// the places that are kept in some shares.
func (g *group) mayStart(f *flight, kept map[string]int) bool {
	if len(g.flying) >= f.atOnce {
		return false
	}
	for _, share := range f.shares {
		if g.full(g.shares[share]+kept[share], f.atOnce) {
			return false
		}
	}
	return true
}

// inTheWay reports whether there is more room for a flight that waits once another one
// has landed.
func (g *group) inTheWay(other, f *flight) bool {
	full := false // a share of f's
	for _, share := range f.shares {
		if g.full(g.shares[share], f.atOnce) {
			full = true
			if slices.Contains(other.shares, share) {
				return true
			}
		}
	}
	return !full && len(g.flying) >= f.atOnce
}

// startNext starts a flight, if there is room for one: the first of the line whose turn
// it is. For one that was overtaken, a place is kept in the last of its shares: else it
// could wait without end for two shares that have room in turn. With flights.mu held.
func (g *group) startNext() bool {
	kept := make(map[string]int)
	for turn := g.turns.Front(); turn != nil; turn = turn.Next() {
		next := turn.Value.(*line).first()
		if g.mayStart(next, kept) {
			g.overtake(turn)
			g.begin(next)
			return true
		}
		if next.overtaken {
			kept[next.shares[len(next.shares)-1]]++
		}
	}
	return false
}

// overtake marks those that waited for their turn before the one that is to start.
func (g *group) overtake(turn *list.Element) {
	next := turn.Value.(*line).first()
	for turn = turn.Prev(); turn != nil; turn = turn.Prev() {
		other := turn.Value.(*line).first()
		if len(other.shares) > 1 && slices.Contains(next.shares, other.shares[0]) {
			other.overtaken = true
		}
	}
}

func (g *group) begin(f *flight) {
	g.dequeue(f)
	g.flying[f] = struct{}{}
	for _, share := range f.shares {
		g.shares[share]++
	}
	go f.start()
}

// giveWay aborts flights without a caller that are in the way of others that wait: for
// each of these one, unless one that was aborted already is in its way. With flights.mu held.
func (fs *flights) giveWay(g *group) {
	var aborted, left []*flight
	for f := range g.flying {
		switch {
		case f.ctx.Err() != nil:
			aborted = append(aborted, f)
		case f.waiting == 0:
			left = append(left, f)
		}
	}
	for turn := g.turns.Front(); turn != nil && len(left) > 0; turn = turn.Next() {
		inTheWay := func(f *flight) bool { return g.inTheWay(f, turn.Value.(*line).first()) }
		if slices.ContainsFunc(aborted, inTheWay) {
			continue
		}
		if i := slices.IndexFunc(left, inTheWay); i >= 0 {
			fs.abort(left[i])
			aborted = append(aborted, left[i])
			left = slices.Delete(left, i, i+1)
		}
	}
}

// makeRoom takes a flight out of its group. With flights.mu held.
func (fs *flights) makeRoom(f *flight) {
	g := f.group
	if g == nil {
		return
	}
	wasQueued := f.queued != nil
	if wasQueued {
		g.dequeue(f)
	} else {
		delete(g.flying, f)
		for _, share := range f.shares {
			if g.shares[share]--; g.shares[share] == 0 {
				delete(g.shares, share)
			}
		}
	}
	if !wasQueued || f.overtaken { // else nothing has become free
		fs.proceed(g)
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
		case fs.closed:
			fs.abort(f)
		case f.group != nil:
			fs.giveWay(f.group)
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
