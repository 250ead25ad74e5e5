package cache

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Config is the configuration of a cache. It has no defaults.
type Config struct {
	// MaxSize is how many bytes of documents are kept, by the costs that Parse
	// returns and their overhead. At least 1. A larger document is not kept.
	MaxSize int64
	// TTL is how long a document is fresh if its origin states no freshness.
	// Zero: it is revalidated each time.
	TTL time.Duration
	// MaxTTL bounds how long a document is fresh, even if its origin or TTL say
	// longer. More than 0. After a document is too old to be served, it stays in
	// memory for MaxTTL, so that it can be renewed.
	MaxTTL time.Duration
	// StaleIfError is how long a document that is no longer fresh is served
	// while its origin fails (RFC 5861, section 4; see the package
	// documentation). Zero: not at all.
	StaleIfError time.Duration
	// NegativeTTL is how long a failure is remembered. Zero: not at all.
	NegativeTTL time.Duration
}

// Cache is a cache of documents. Its methods may be called concurrently.
type Cache struct {
	config   Config
	store    *store
	counters counters

	mu       sync.Mutex
	open     map[key]*flight      // the flights that callers may join
	flights  map[*flight]struct{} // all flights that have not ended, disowned ones included
	limiters map[string]*limiter  // by group
	closed   bool
}

// New makes a cache. Its error names the invalid field of the configuration.
func New(config Config) (*Cache, error) {
	switch {
	case config.MaxSize < 1:
		return nil, fmt.Errorf("cache: MaxSize is %d bytes, but must be at least 1", config.MaxSize)
	case config.MaxTTL <= 0:
		return nil, fmt.Errorf("cache: MaxTTL is %v, but must be more than 0", config.MaxTTL)
	case min(config.TTL, config.StaleIfError, config.NegativeTTL) < 0:
		return nil, fmt.Errorf("cache: TTL is %v, StaleIfError is %v and NegativeTTL is %v, but none may be negative",
			config.TTL, config.StaleIfError, config.NegativeTTL)
	}
	store, err := newStore(config.MaxSize)
	if err != nil {
		return nil, err
	}
	return &Cache{
		config: config, store: store,
		open: make(map[key]*flight), flights: make(map[*flight]struct{}), limiters: make(map[string]*limiter),
	}, nil
}

// Close frees the documents. It cancels the fetches for which no caller waits, and
// waits until they have ended. The other fetches end when their callers have left or have the document. Get works after Close, but keeps
// nothing. Further calls do nothing.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	var aborted []*flight
	for f := range c.flights {
		if f.callers == 0 {
			c.abort(f)
			aborted = append(aborted, f)
		}
	}
	c.mu.Unlock()
	for _, f := range aborted {
		<-f.ended
	}
	c.store.close()
}

// NegativeTTL is for how long a failure is remembered.
func (c *Cache) NegativeTTL() time.Duration { return c.config.NegativeTTL }

// Fresh returns a document that is fresh at a time, about now, or nil, without asking the
// origin. It costs less than Get, since it needs no [Request].
func (c *Cache) Fresh(url, partition string, now time.Time) *Document {
	kept := c.store.get(key{url, partition}).document()
	if kept == nil || !now.Before(kept.hit.ExpiresAt) {
		return nil
	}
	c.counters.documents[Hit].Add(1)
	return kept.hit
}

// Peek returns the document that is kept, fresh or not, or nil; and the failure
// that is remembered for the owner, or nil. It returns no failure while Get returns
// a stale document instead. It does not ask the origin, and is not counted.
func (c *Cache) Peek(url, partition string, owner uint64) (*Document, error) {
	e := c.store.get(key{url, partition})
	var doc *Document
	kept, now := e.document(), time.Now()
	if kept != nil {
		doc = kept.hit
	}
	if f := e.failureFor(owner, now); f != nil && (f.stale == nil || !now.Before(kept.staleUntil)) {
		return doc, f.remembered
	}
	return doc, nil
}

// Stale returns the document that Get would return if the origin failed now, for the reason err: one that is fresh, or not too old to be
// served; nil: there is none. It does not ask the origin, and is not counted.
func (c *Cache) Stale(url, partition string, owner uint64, err error) *Document {
	e, now := c.store.get(key{url, partition}), time.Now()
	kept := e.document()
	switch f := e.failureFor(owner, now); {
	case kept == nil:
		return nil
	case now.Before(kept.hit.ExpiresAt):
		return kept.hit
	case f != nil && f.stale == nil:
		return nil
	}
	return kept.staleFor(err)
}

// Get returns a document, from the cache or from its origin.
//
// It returns ctx.Err() as soon as ctx has ended, together with [ErrQueued] or
// [ErrParsing] if one of them applies. Other errors are failures to get the document: a
// [*StatusError] if the origin answered with a status other than 200, an error of Fetch
// or Parse, or a panic of these; and a [*FailureError] around them if the failure is
// remembered.
func (c *Cache) Get(ctx context.Context, req Request) (*Document, error) {
	k := key{req.URL, req.Partition}
	for {
		err, began, joined := ctx.Err(), false, false
		var doc *Document
		if err == nil {
			doc, err = c.answer(c.store.get(k), &req)
		}
		if doc == nil && err == nil {
			doc, began, err = c.share(ctx, k, req)
			joined = !began
		}
		if doc == nil && err == nil {
			continue // the flight had an error that concerns another owner
		}
		if doc != nil && joined && !req.AskedSince.IsZero() {
			continue // the flight may have begun before
		}
		if !began && req.Done != nil {
			req.Done()
		}
		return doc, err
	}
}

// answer returns what an entry has for a request, a document or an error, and
// counts it. Both are nil if the origin must be asked.
func (c *Cache) answer(e *entry, req *Request) (*Document, error) {
	doc, err := e.answer(time.Now(), req)
	if doc != nil || err != nil {
		c.counters.count(doc, err, &c.counters.remembered)
	}
	return doc, err
}

// share gets a document by joining a flight or beginning one. It returns neither
// a document nor an error if the flight's error concerns another owner.
func (c *Cache) share(ctx context.Context, k key, req Request) (doc *Document, began bool, err error) {
	c.mu.Lock()
	// A flight may have ended after the caller of share looked into the store.
	known := c.store.get(k)
	if doc, err := c.answer(known, &req); doc != nil || err != nil {
		c.mu.Unlock()
		return doc, false, err
	}
	f, began := c.join(ctx, k, req, known)
	c.mu.Unlock()

	select {
	case <-f.ended:
	case <-ctx.Done():
		return nil, began, c.leave(f, ctx.Err())
	}
	if f.outcome.own && f.req.Owner != req.Owner {
		return nil, false, nil
	}
	return f.outcome.doc, began, f.outcome.err
}

// Delete forgets a document, or a failure to get it, so that the next Get
// fetches the document again. A fetch that is in progress still serves the
// callers that wait for it, but its document is not kept.
func (c *Cache) Delete(url, partition string) {
	k := key{url, partition}
	c.mu.Lock()
	if f := c.open[k]; f != nil {
		c.disown(f)
	}
	c.store.put(k, nil)
	c.mu.Unlock()
	c.store.flush()
}

// Request says which document is wanted, and how it is fetched and parsed.
type Request struct {
	// URL and Partition are the key of the document. The partition is an opaque
	// text that stands for everything else the answer depends on, such as a
	// hash of the credential. All requests of a partition must send the same
	// header fields, but for the conditions, since Vary is not compared.
	URL       string
	Partition string
	// Owner identifies the client that asks. An [OwnError] is returned to
	// requests of the same owner only. 0: there is one client.
	Owner uint64
	// Group and AtOnce bound the flights of the requests with the same Group:
	// AtOnce of them run at a time, and further ones wait for as long as a
	// caller waits for them. A running flight without callers is aborted if a
	// flight with callers needs its place. AtOnce 0: there is no bound.
	Group  string
	AtOnce int
	// Shares name what a flight has in common with others of its group, such as
	// a host. Half of AtOnce is reserved for flights whose shares no running
	// flight has. Of the other half, a share takes no more places than it leaves
	// free: a quarter of AtOnce if there is no other share, and less the more
	// there are. So a flight with new shares can start unless flights of more
	// than AtOnce/2 different shares are running. Flights that wait start in
	// turns, those with different shares one after another. For a flight that
	// was overtaken in the first of its shares, a place is reserved in the last.
	// The slice must not be changed.
	Shares []string
	// Done, if it is not nil, is called once: when the flight that Get has begun
	// has ended, before its callers return, even if this caller has left before;
	// or before Get returns if it has begun none.
	Done func()
	// AskedSince, if it is not zero, is for a caller that has a reason to expect a new document: a fresh one for which the origin was
	// last asked before this time is confirmed first. If that fails, the fresh one stays and is returned, and it is not
	// confirmed early again for Config.NegativeTTL.
	AskedSince time.Time
	// Timeout bounds a flight from its start: one fetch or, if the first answer
	// is about another version than the one known, two. 0: 30 seconds.
	Timeout time.Duration
	// Fetch makes one GET request with the conditions, which are If-None-Match
	// and If-Modified-Since fields or none, and returns the answer. It follows
	// redirects by its own rules, and bounds the body itself. ctx has the values
	// of one caller's context, but does not end with it. Fetch must return when
	// ctx has ended.
	//
	// Every status is an answer, not an error: 200 is a document, 401, 403, 404
	// and 410 are refusals unless a redirect led to them, and all others mean that
	// the origin is in trouble. So
	// does an error, unless errors.As finds an interface{ Permanent() bool } in
	// it that returns true. Such an error is a refusal, too: the known
	// document is dropped, and the error is returned, and remembered for
	// Config.NegativeTTL, instead of a stale document. An [OwnError] drops
	// nothing.
	Fetch func(ctx context.Context, conditions http.Header) (*Response, error)
	// Parse reads the document in a 200 answer, and returns the value to keep
	// with its cost in bytes. An error means that the document is invalid, and is treated like one of Fetch.
	// Parse is not called for a body that was already received from the same
	// final URL by the same redirects, so the value must depend on nothing
	// else.
	Parse func(*Response) (value any, cost int64, err error)
}

// Response is an answer of the origin. It must not change once it is returned.
type Response struct {
	StatusCode int
	Header     http.Header // under canonical names
	Body       []byte
	URL        string   // after redirects; empty: the URL asked for
	Via        []string // the URLs that redirected to it, but for the one asked for
}
