package discovery

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// document reads a document through the cache, where it is known by the text of its URL.
// The id, if it is not empty, is that of the skill that is expected.
func (c *Reader) document(ctx context.Context, kind documentKind, u *url.URL, text, id string, parse func(*cache.Response) (any, error)) (*cache.Document, *run.Failure) {
	atOnce, shares := 0, []string(nil) // of indexes there are few, and without them there are no descriptors
	if kind == descriptorDocument {
		atOnce, shares = c.Limits.Reads, sharesOf(u, id)
	}
	m := &c.constant().misses
	l := &lookup{id: id} // of the flight, if this call begins it
	release := hold(ctx)
	doc, err := c.Cache.Get(ctx, cache.Request{
		Group: c.Partition, AtOnce: atOnce, Shares: shares,
		Done: func() {
			l.land(m)
			release()
		},
		URL:       text,
		Partition: c.partition(kind),
		Owner:     c.constant().number,
		Timeout:   discoveryTimeout,
		Fetch: func(ctx context.Context, conditions http.Header) (*cache.Response, error) {
			how := landedBadly // also if it panics
			defer func() { l.fetched(m, how) }()
			known, _ := c.Cache.Peek(text, c.partition(kind), c.constant().number)
			l.again(known)
			header := exchange.SharedHeader.Clone()
			maps.Copy(header, conditions)
			response, err := (&retrieval{Reader: c, phase: kind.phase(), first: u, lookup: l}).get(ctx, header)
			switch {
			case errors.Is(err, context.Canceled):
				how = landedNowhere
			case err == nil && (response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNotModified):
				how = landedWell
			}
			if err == nil && response.StatusCode == http.StatusOK && c.RepeatsSecret(response.Body) {
				how = landedBadly
				return nil, &cache.OwnError{Err: secretError(kind.phase())}
			}
			return response, ownError(err)
		},
		// It depends on nothing but the answer and the limits, which all clients that share the cache have in common.
		Parse: func(response *cache.Response) (any, int64, error) {
			value, err := parse(response)
			l.parsed(m, value, err)
			return value, documentCost(response.Body), err
		},
	})
	if err != nil {
		return nil, c.documentFailure(ctx, kind.phase(), u, err)
	}
	if e := c.judgeDocument(ctx, kind, text, doc); e != nil {
		return nil, e
	}
	if doc.State == cache.Stale {
		c.warnOfStale(ctx, kind.phase(), u, doc.Err)
	}
	return doc, nil
}

// documentCost estimates the memory that a parsed document takes, in bytes.
func documentCost(body []byte) int64 { return 2<<10 + 4*int64(len(body)) }

// lookup counts the requests that one look-up of a document in the cache makes.
type lookup struct {
	large bool // it has a place among the large ones

	id       string    // of the skill that is wanted; empty: any
	kept     bool      // the cache has its document from its URL
	requests []request // to hosts that are not the source's own
	passed   int       // how many of them have led on to others

	mu       sync.Mutex // a request may outlast the look-up
	returned bool       // it has got an answer, which may be a document
	other    bool       // the document is another skill's: as good as none
	landed   bool
}

// again begins to ask, perhaps after an answer that was of no use.
// Known is the document in the cache, or nil.
func (l *lookup) again(known *cache.Document) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.other = known != nil && l.isOther(known.Value)
	l.kept, l.returned = known != nil && !l.other, false
	l.passOn()
}

// passOn says that the requests so far were answered with redirects.
func (l *lookup) passOn() { l.passed = len(l.requests) }

func (l *lookup) isOther(value any) bool {
	s, ok := value.(*Skill)
	return ok && l.id != "" && s.ID != l.id
}

// fetched says how asking has ended.
func (l *lookup) fetched(m *misses, how landing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if how == landedWell && !l.landed {
		l.returned = true
		return
	}
	m.end(l.requests, l.passed, max(how, landedBadly)) // also of an answer that came too late
	l.requests = nil
}

// parsed says what the answer is, if it is one that was not known.
func (l *lookup) parsed(m *misses, value any, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		m.end(l.requests, l.passed, landedBadly)
		l.requests = nil
		return
	}
	l.other = l.isOther(value)
}

// land ends the look-up.
func (l *lookup) land(m *misses) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.landed = true
	if l.returned {
		how := landedWell
		if l.other {
			how = landedBadly
		}
		m.end(l.requests, l.passed, how)
		l.requests = nil
	}
}

// sharesOf are the shares of a source's reads that a descriptor counts in: of its host,
// and of the publisher of the skill. So one host that hangs, and one publisher with any
// number of hosts that do, leave room for others.
func sharesOf(u *url.URL, id string) []string {
	shares := []string{"host " + u.Hostname()}
	if publisher := publisherOf(id); publisher != "" {
		shares = append(shares, "publisher "+publisher)
	}
	return shares
}

// publisherOf is the publisher of a skill, by its id: acme of acme/pay,
// com.example of com.example.pay, and acme of acme.pay. A registry gives different
// publishers different ones, if it gives them names at all.
func publisherOf(id string) string {
	if name, _, found := strings.Cut(id, "/"); found {
		return name
	}
	labels := strings.SplitN(id, ".", 3)
	return strings.Join(labels[:max(1, len(labels)-1)], ".")
}

// HoldKey is the key of a value that the context of a call may have. The value has a
// method Hold() (release func()). Hold is called before a document is read, and release
// when that has ended, which may be after the call.
type HoldKey struct{}

func hold(ctx context.Context) (release func()) {
	if h, ok := ctx.Value(HoldKey{}).(interface{ Hold() (release func()) }); ok {
		return h.Hold()
	}
	return func() {}
}
