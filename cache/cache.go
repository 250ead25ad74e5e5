package cache

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Config shapes a cache. There are no defaults: zero means what it says.
type Config struct {
	// MaxSize is how many bytes of documents are kept, counting what Parse says
	// they cost and their overhead. At least 1. A document that alone is larger
	// is not kept.
	MaxSize int64
	// TTL is for how long a document is fresh whose origin states nothing.
	// Zero: it is revalidated each time.
	TTL time.Duration
	// MaxTTL is the longest a document is fresh, whatever its origin or TTL
	// say. More than 0. A document stays in memory for as long again after its
	// last use, so that it can be renewed.
	MaxTTL time.Duration
	// StaleIfError is for how long past its freshness a document is served when
	// the origin is in trouble (RFC 5861, section 4). Zero: never.
	StaleIfError time.Duration
	// NegativeTTL is for how long a failure is remembered. Zero: not at all.
	NegativeTTL time.Duration
}

func (config Config) validate() error {
	if config.MaxSize < 1 {
		return fmt.Errorf("cache: MaxSize is %d bytes, but must be at least 1", config.MaxSize)
	}
	if config.MaxTTL <= 0 {
		return fmt.Errorf("cache: MaxTTL is %v, but must be more than 0", config.MaxTTL)
	}
	for _, setting := range []struct {
		name  string
		value time.Duration
	}{
		{"TTL", config.TTL},
		{"StaleIfError", config.StaleIfError},
		{"NegativeTTL", config.NegativeTTL},
	} {
		if setting.value < 0 {
			return fmt.Errorf("cache: %s is %v, but must not be negative", setting.name, setting.value)
		}
	}
	return nil
}

// Request is a wish for a document.
type Request struct {
	// URL and Partition are what the document is known by. The partition is an
	// opaque text that stands for everything else the answer depends on, such
	// as a hash of the credential.
	URL       string
	Partition string
	// Owner is the client that asks, where each of several may be refused for reasons of
	// its own: an [OwnError] of one concerns no other. 0: there is only one.
	Owner uint64
	// Group and AtOnce bound the flights of the requests that have the same Group: so
	// many are in the air at a time, and further ones wait for as long as a caller waits
	// for them. A flight without a caller gives way to one that has callers. AtOnce 0:
	// there is no bound.
	Group  string
	AtOnce int
	// Shares name what else flights of the group have in common, such as a host. Half of
	// AtOnce is for flights whose shares no other one counts in, and of the other half no
	// share takes more than it leaves free: a quarter of AtOnce if there is no other
	// share, and less the more there are. So there is room for a flight with new shares,
	// unless flights of more than AtOnce/2 different shares are in the air. Flights that
	// wait start in turn, those with different shares one after another. One that was
	// overtaken in the first of its shares has a place kept for it in the last.
	Shares []string
	// Left is called if Get ends before the flight that it has begun. What Left returns
	// is called when the flight has landed. May be nil.
	Left func() (landed func())
	// Header is what is sent, apart from conditions and credentials, under
	// canonical names. It is compared with what Vary names, and neither changed
	// nor used after Get has returned.
	Header http.Header
	// Timeout bounds a flight from its start: one fetch or, if the first answer is about
	// another document than the one known, two. Zero or less: 30 seconds.
	// A Fetch that goes on is left behind after another second.
	Timeout time.Duration
	// Fetch performs one GET with the header given, which is Request.Header
	// with If-None-Match and If-Modified-Since set as needed and which Fetch
	// may change. It follows redirects as it likes and reads the body, within
	// bounds of its own. ctx is not the caller's, but has the values of one
	// caller's. Fetch must return soon after ctx has ended: if it does not
	// within a second, it is left behind, its answer is dropped, and further
	// ones are started when the document is asked for again.
	//
	// Every status is an answer, not an error. An error means that the origin
	// is in trouble, unless errors.As finds an interface{ Permanent() bool } in
	// it which returns true. Such an error is a refusal, like a 403: the
	// document that was known is dropped, and the error is returned, and
	// remembered for Config.NegativeTTL, instead of a stale document. An [OwnError]
	// drops nothing.
	Fetch func(ctx context.Context, header http.Header) (*Response, error)
	// Parse judges a 200 answer and returns what is to be kept, with its cost
	// in bytes. An error means that the document is invalid. It is not called
	// for a body that is known from the same final URL already, by the same way, so it
	// must go by these.
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

// Document is a document and where it came from. It is shared: neither it nor
// its value may be changed.
type Document struct {
	Value     any      // what Parse made of it
	URL       string   // where it was found, after redirects
	Via       []string // the URLs that redirected there, but for the one asked for
	State     State
	FetchedAt time.Time // when its content was received
	ExpiresAt time.Time // until when it is fresh; not after FetchedAt or the last revalidation if it never is
	Err       error     // why it is stale, if State is Stale
}

// State is where a document came from.
type State uint8

// The states of a document.
const (
	Hit         State = iota + 1 // it was fresh, and the origin was not asked
	Fetched                      // the origin sent it
	Revalidated                  // the origin confirmed it with a 304
	Stale                        // it is no longer fresh, but the origin is in trouble
)

// String returns the state's name in lower case, fit for a metric's label.
func (s State) String() string {
	switch s {
	case Hit:
		return "hit"
	case Fetched:
		return "fetched"
	case Revalidated:
		return "revalidated"
	case Stale:
		return "stale"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Cache is a cache of documents. Its methods may be called concurrently.
type Cache struct {
	config  Config
	store   *store
	flights *flights
	close   func()

	counters counters
}

// New makes a cache. An error names the field of the configuration that is bad.
func New(config Config) (*Cache, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	store, err := newStore(config.MaxSize)
	if err != nil {
		return nil, err
	}
	c := &Cache{config: config, store: store, flights: newFlights()}
	c.close = sync.OnceFunc(func() {
		c.flights.close()
		c.store.close()
	})
	return c, nil
}

// Close frees what is kept. It ends fetches without a caller and
// waits for them, but not longer than a second for one that ignores the end of
// its context; those that callers wait for end with the last caller. Get
// works after Close, but keeps nothing. Further calls do nothing.
func (c *Cache) Close() { c.close() }

// NegativeTTL is for how long a failure is remembered.
func (c *Cache) NegativeTTL() time.Duration { return c.config.NegativeTTL }

// Fresh returns a document that is fresh, without asking its origin, or nil if
// there is none. It does what Get does in most cases, for less: nothing has to be
// prepared for a fetch. The header is that of the request, as in [Request].
func (c *Cache) Fresh(url, partition string, header http.Header) *Document {
	e := c.store.get(key{url: url, partition: partition})
	if e == nil || e.kept == nil || !time.Now().Before(e.kept.hit.ExpiresAt) || !e.kept.selection.matches(header) {
		return nil
	}
	c.counters.hits.Add(1)
	return e.kept.hit
}

// Peek tells what is known of a document, without asking its origin and without
// counting: the document that is kept, fresh or not, or nil; and why it can't be had
// at the moment, if the last attempt failed a short time ago. The owner is that of a
// [Request].
func (c *Cache) Peek(url, partition string, owner uint64) (*Document, error) {
	e := c.store.get(key{url: url, partition: partition})
	if e == nil {
		return nil, nil
	}
	var doc *Document
	if e.kept != nil {
		doc = e.kept.hit
	}
	if e.failure != nil && e.failure.concerns(owner) && time.Now().Before(e.failure.remembered.RetryAt) {
		return doc, e.failure.remembered
	}
	return doc, nil
}

// Get returns a document, from the cache or from its origin.
//
// It returns ctx.Err() as soon as ctx has ended, in a [*QueuedError] if the flight had
// not started by then, and in a [*ParsingError] if it had got an answer. Other errors are failures to
// get the document: errors.As finds a [*StatusError] if the origin answered
// with a status that is no document, what Fetch or Parse returned, or a
// [*PanicError]; and a [*FailureError] around these if the failure is remembered.
func (c *Cache) Get(ctx context.Context, req Request) (*Document, error) {
	k := key{url: req.URL, partition: req.Partition}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if doc, decided, err := c.store.get(k).answer(time.Now(), req.Header, req.Owner); decided {
			c.counters.decided(doc, err)
			return doc, err
		}
		if doc, again, err := c.share(ctx, k, req); !again {
			return doc, err
		}
	}
}

// Delete forgets a document, or a failure to get it: the next Get fetches it
// anew. A fetch that is under way still serves the callers that wait for it,
// but is not kept.
func (c *Cache) Delete(url, partition string) {
	k := key{url: url, partition: partition}
	c.flights.mu.Lock()
	if f := c.flights.open[k]; f != nil {
		c.flights.disown(f)
	}
	c.store.put(k, nil)
	c.flights.mu.Unlock()
	c.store.flush()
}
