package discovery

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// wanted is the document that a look-up is for.
type wanted struct {
	address
	id    string    // of the expected skill; empty: any
	asked time.Time // as in [cache.Request]
}

// document reads a document through the cache.
func (r *Reader) document(ctx context.Context, of wanted, parse func(*cache.Response) (any, error)) (*cache.Document, *run.Failure) {
	kind, u, id := of.kind, of.u, of.id
	atOnce, shares := 0, []string(nil) // indexes are not limited: there are few, and descriptors depend on them
	if kind == descriptorDocument {
		atOnce, shares = r.Limits.Reads, sharesOf(u, id)
	}
	m := r.constant().misses
	l := &lookup{Reader: r, phase: kind.phase(), first: u, id: id} // used only if the cache makes a request for this call
	for i, owner := range shares {
		part := &l.memory[i]
		part.Pool, part.Owner, part.Most = &r.constant().reading.of[i], owner, maxReading*cmp.Or(r.Limits.DocumentSize, r.MaxResponseSize)
	}
	release := hold(ctx)
	doc, err := r.Cache.Get(ctx, cache.Request{
		Group: r.Partition, AtOnce: atOnce, Shares: shares,
		Done: func() {
			m.end(l.requests, l.redirects, l.how)
			l.Release()
			release()
		},
		URL: of.text, AskedSince: of.asked,
		Partition: r.partition(kind),
		Owner:     r.constant().number,
		Timeout:   discoveryTimeout + time.Second/10, // callers that wait as long leave before, and know why
		Fetch: func(ctx context.Context, conditions http.Header) (*cache.Response, error) {
			known, _ := r.peek(&of.address)
			ofOther := known != nil && isOther(known.Value, id)
			l.kept, l.redirects = known != nil && !ofOther, len(l.requests)
			l.how = outcomeFailure // also after a panic
			header := exchange.SharedHeader.Clone()
			if r.Site && kind == descriptorDocument {
				header["Accept"] = []string{"text/markdown, application/gzip, application/zip, */*;q=0.5"}
			}
			maps.Copy(header, conditions)
			response, err := l.get(ctx, header)
			err = ownError(err)
			own, isOwn := errors.AsType[*cache.OwnError](err)
			switch {
			case errors.Is(err, context.Canceled), isOwn && own.Passing:
				l.how = outcomeNone
			case err != nil:
			case response.StatusCode == http.StatusOK && r.RepeatsSecret(response.Body):
				return nil, &cache.OwnError{Err: secretError(kind.phase())}
			case !ofOther && (response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNotModified):
				l.how = outcomeSuccess
			}
			return response, err
		},
		// The value depends only on the answer and the limits, which are the same for all readers that share the cache.
		Parse: func(response *cache.Response) (any, int64, error) {
			if len(response.Body) >= largeDocument {
				r.constant().parsing[kind.phase()] <- struct{}{}
				defer func() { <-r.constant().parsing[kind.phase()] }()
			}
			value, err := parse(response)
			if err == nil {
				err = replaces(r.Cache.Stale(of.text, r.partition(kind), r.constant().number, nil), value, id)
			}
			if l.how = outcomeSuccess; err != nil || isOther(value, id) { // a document about another skill counts as a failure
				l.how = outcomeFailure
			}
			cost := documentCost(response.Body)
			if s, ok := value.(*Skill); ok && s.Files != nil {
				cost = documentCost(s.Document) + s.Files.Size() // the archive itself is not kept
			}
			return value, cost, passing(err, response.Header)
		},
	})
	if err != nil && timeIsUp(ctx) {
		if known := r.Cache.Stale(of.text, r.partition(kind), r.constant().number, late(kind.phase())); known != nil {
			doc, err = known, nil // as if the origin had failed; the reading goes on for the next caller
		}
	}
	if err != nil {
		return nil, r.documentFailure(ctx, kind.phase(), u, err)
	}
	if e := r.judgeDocument(ctx, &of.address, doc); e != nil {
		return nil, e
	}
	var stale *run.Failure
	if doc.State == cache.Stale {
		r.warnOfStale(ctx, kind.phase(), u, doc.Err)
		stale = r.documentFailure(ctx, kind.phase(), u, doc.Err)
	}
	usageOf(doc).stale.Store(stale)
	return doc, nil
}

// maxParsed is how many indexes of a source with at least largeDocument bytes are parsed at a time; the same for descriptors. Parsing one takes many times
// its size in memory.
const maxParsed, largeDocument = 2, 64 << 10

// timeIsUp reports whether a context has ended since its time is over. A context that was canceled may say so by its cause.
func timeIsUp(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// documentCost estimates the memory that a parsed document takes, in bytes, with what is made of a descriptor later (see
// [document.Descriptor.Rendering]).
func documentCost(body []byte) int64 { return 2<<10 + 4*int64(len(body)) }

// isOther reports whether a document is the descriptor of another skill than the expected one.
func isOther(value any, id string) bool {
	s, ok := value.(*Skill)
	return ok && id != "" && s.ID != id
}

// replaces returns why a new document does not replace the one in the cache, if there is one that may be used still; nil: it does. A
// descriptor of another skill does not replace that of the expected one. If the one in the cache is of another skill, too, the new one
// replaces it: an entry of an index with the descriptor URL of another skill decides nothing about that skill.
func replaces(known *cache.Document, value any, id string) error {
	if known == nil || isOther(known.Value, id) || !isOther(value, id) {
		return nil
	}
	return WrongID(value.(*Skill), id)
}

// sharesOf returns the shares (see [cache.Request]) of a descriptor: its host and its
// publisher. So neither a host that does not answer, nor a publisher with many such hosts,
// can take all concurrent reads of a source.
func sharesOf(u *url.URL, id string) []string {
	shares := []string{"host " + u.Hostname()}
	if publisher := publisherOf(id); publisher != "" {
		shares = append(shares, "publisher "+publisher)
	}
	return shares
}

// publisherOf returns the publisher in the id of a skill: acme in acme/pay, com.example in
// com.example.pay, and acme in acme.pay. The name of a publisher in a registry may be another
// one.
func publisherOf(id string) string {
	if name, _, found := strings.Cut(id, "/"); found {
		return name
	}
	labels := strings.SplitN(id, ".", 3)
	return strings.Join(labels[:max(1, len(labels)-1)], ".")
}

// HoldKey is the key of a value that the context of a call may have. The value has a
// method Hold() (release func()). Hold is called before a document is read, and release
// after it was read, which may be after the end of the call.
type HoldKey struct{}

func hold(ctx context.Context) (release func()) {
	if h, ok := ctx.Value(HoldKey{}).(interface{ Hold() (release func()) }); ok {
		return h.Hold()
	}
	return func() {}
}
