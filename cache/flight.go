package cache

import (
	"context"
	"fmt"
)

// flight is an attempt to get a document, shared by all callers that ask for it
// meanwhile. golang.org/x/sync/singleflight does not know how many callers wait,
// so it could neither abort flights without callers nor take them out of a queue.
type flight struct {
	attempt
	ctx     context.Context // not a caller's: a flight outlives the caller that began it
	cancel  context.CancelFunc
	ended   chan struct{} // closed when outcome is set
	outcome outcome

	// Guarded by Cache.mu.
	callers   int
	disowned  bool     // its outcome is not kept
	limiter   *limiter // nil: it has no group
	queued    bool     // in the limiter: it has not started
	overtaken bool     // while it was queued, a later flight started in its first share
}

// join joins the flight that gets the same document, or begins one. With c.mu held.
func (c *Cache) join(ctx context.Context, k key, req Request, known *entry) (f *flight, began bool) {
	if f := c.open[k]; f != nil {
		f.callers++
		return f, false
	}
	f = &flight{
		attempt: attempt{config: c.config, key: k, req: req, known: known},
		callers: 1, ended: make(chan struct{}), outcome: outcome{err: errGoexit},
	}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.open[k] = f
	c.flights[f] = struct{}{}
	if req.AtOnce <= 0 {
		go c.fly(f)
		return f, true
	}
	if c.limiters[req.Group] == nil {
		c.limiters[req.Group] = &limiter{running: make(map[*flight]struct{}), shares: make(map[string]int)}
	}
	f.limiter = c.limiters[req.Group]
	f.queued = true
	f.limiter.waiting.Add(f.line(), f)
	c.proceed(f.limiter)
	return f, true
}

// proceed starts the flights that have room, and aborts flights without callers for which
// others wait. With c.mu held.
func (c *Cache) proceed(l *limiter) {
	for f := l.next(); f != nil; f = l.next() {
		go c.fly(f)
	}
	for _, f := range l.superfluous() {
		c.abort(f)
	}
}

// fly is the goroutine of a flight.
func (c *Cache) fly(f *flight) {
	defer func() {
		c.mu.Lock()
		c.remove(f)
		c.mu.Unlock()
		f.end()
	}()
	o := f.run(f.ctx)
	if o.next != f.known {
		c.mu.Lock() // so that a Delete comes either before or after
		if !f.disowned {
			c.store.put(f.key, o.next)
		}
		c.mu.Unlock()
		c.store.flush() // the next caller must find the entry
	}
	c.counters.count(o.doc, o.err, &c.counters.failed)
	f.outcome = o
}

// leave removes a caller whose context has ended, and returns its error. The flight
// continues, because its document may be needed again, unless it has not started, the cache
// is closed or others wait for its place.
func (c *Cache) leave(f *flight, err error) error {
	c.mu.Lock()
	queued := f.queued
	f.callers--
	if f.callers == 0 {
		switch {
		case queued:
			c.remove(f)
			defer f.end()
		case c.closed:
			c.abort(f)
		case f.limiter != nil:
			c.proceed(f.limiter)
		}
	}
	c.mu.Unlock()
	switch {
	case queued:
		return fmt.Errorf("%w while %w", err, ErrQueued)
	case f.parsing.Load():
		return fmt.Errorf("%w while %w", err, ErrParsing)
	}
	return err
}

// abort ends a flight without callers. With c.mu held.
func (c *Cache) abort(f *flight) {
	c.disown(f)
	f.cancel()
}

// disown prevents that callers join a flight and that its outcome is kept. With c.mu held.
func (c *Cache) disown(f *flight) {
	f.disowned = true
	if c.open[f.key] == f {
		delete(c.open, f.key)
	}
}

// remove forgets a flight. With c.mu held.
func (c *Cache) remove(f *flight) {
	c.abort(f)
	delete(c.flights, f)
	l := f.limiter
	if l == nil {
		return
	}
	if l.remove(f) {
		c.proceed(l)
	}
	if len(l.running) == 0 && l.waiting.IsEmpty() {
		delete(c.limiters, f.req.Group)
	}
}

// end releases the callers of a flight that was removed.
func (f *flight) end() {
	if f.req.Done != nil {
		f.req.Done()
	}
	close(f.ended)
}
