package cache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// defaultTimeout bounds a flight whose request states no timeout.
const defaultTimeout = 30 * time.Second

// errGoexit is the error of a Fetch or Parse that ends its goroutine.
var errGoexit = errors.New("cache: Fetch or Parse called runtime.Goexit")

// attempt requests a document from its origin and turns the answer into an outcome.
type attempt struct {
	config  Config
	key     key
	req     Request
	known   *entry // what was known before; nil: nothing
	parsing atomic.Bool
}

// outcome is the result of an attempt.
type outcome struct {
	doc  *Document
	err  error
	own  bool   // err concerns only the owner of the request
	next *entry // what to keep; nil: nothing
}

// reply is an answer of the origin.
type reply struct {
	*Response
	url                 string // of the answer, after redirects
	conditional         bool   // whether the request was conditional
	requested, received time.Time
}

// run gets the document. Only a request with AskedSince asks for a fresh one, which stays if it can't be confirmed.
func (a *attempt) run(ctx context.Context) outcome {
	o := a.get(ctx)
	fresh := a.known.document()
	if fresh == nil || !time.Now().Before(fresh.hit.ExpiresAt) || o.err == nil && o.doc.State != Stale {
		return o
	}
	kept := outcome{doc: fresh.hit, next: a.known}
	if o.next != nil && o.next.failure != nil {
		kept.next = &entry{key: a.key, kept: fresh, failure: o.next.failure}
	}
	return kept
}

func (a *attempt) get(ctx context.Context) outcome {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.req.Timeout, defaultTimeout))
	defer cancel()
	base := a.known.document()
	r, err := a.ask(ctx, base)
	if err == nil && r.renews() && (!r.isFrom(base) || contradicts(base.header, r.Header)) {
		r, err = a.ask(ctx, nil) // the 304 does not confirm base: ask without conditions
	}
	switch {
	case err != nil:
		return a.fail(fmt.Errorf("fetching %s: %w", redacted(a.key.url), err), base)
	case r.StatusCode == http.StatusOK:
		return a.accept(r, base)
	case r.renews():
		doc, header := *base.hit, make(http.Header) // RFC 9111, sections 3.2 and 4.3.4
		doc.State = Revalidated
		maps.Copy(header, base.header)
		maps.Copy(header, r.Header)
		return a.settle(&kept{digest: base.digest, valueCost: base.valueCost}, doc, header, r)
	}
	status := &StatusError{StatusCode: r.StatusCode, Header: r.Header, URL: r.url, Body: r.Body}
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		if !a.redirected(&r) { // the origin does not offer the document, or not to this client, any more
			return a.refuse(status)
		}
	}
	// Others, such as a 204 or 400, say nothing about the document: a proxy, a page about maintenance or a wrong deployment answers with them.
	return a.trouble(status, base)
}

// redirected reports whether another URL than that of the document has answered. Its status says nothing about the document: a redirect to a page
// about maintenance, or to a login, may lead anywhere. Fragments, which are never sent, tell the files of one archive apart.
func (a *attempt) redirected(r *reply) bool {
	asked, _, _ := strings.Cut(a.key.url, "#")
	answered, _, _ := strings.Cut(r.url, "#")
	return len(r.Via) > 0 || answered != asked
}

func (r reply) renews() bool { return r.conditional && r.StatusCode == http.StatusNotModified }

// isFrom reports whether the answer comes from the URL of a document.
func (r reply) isFrom(base *kept) bool {
	return r.url == base.hit.URL && slices.Equal(r.Via, base.hit.Via)
}

// ask makes one request. It is conditional if base is a document with a validator.
func (a *attempt) ask(ctx context.Context, base *kept) (r reply, err error) {
	conditions := conditionsFor(base)
	r.conditional, r.requested = len(conditions) > 0, time.Now()
	err = guarded(func() (err error) {
		if r.Response, err = a.req.Fetch(ctx, conditions); r.Response == nil && err == nil {
			err = errors.New("no answer and no error from Fetch")
		}
		return err
	})
	r.received = time.Now()
	if err != nil {
		return r, err
	}
	r.url = a.key.url
	if r.URL != "" && r.URL != a.key.url { // if they are equal, r.URL is not kept in memory
		r.url = r.URL
	}
	return r, nil
}

// guarded turns a panic of a function into an error.
func guarded(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	return call()
}

// accept turns a 200 answer into a document. A body that was parsed before is not
// parsed again.
func (a *attempt) accept(r reply, base *kept) outcome {
	document := &kept{digest: sha256.Sum256(r.Body)}
	doc := Document{URL: r.url, Via: r.Via, State: Fetched, FetchedAt: r.received}
	if base != nil && base.digest == document.digest && r.isFrom(base) {
		doc.Value, document.valueCost = base.hit.Value, base.valueCost
		return a.settle(document, doc, r.Header, r)
	}
	a.parsing.Store(true)
	err := guarded(func() (err error) {
		doc.Value, document.valueCost, err = a.req.Parse(r.Response)
		return err
	})
	if err != nil {
		return a.fail(fmt.Errorf("the document at %s is invalid: %w", redacted(doc.URL), err), base)
	}
	document.valueCost = min(max(document.valueCost, 0), maxValueCost)
	return a.settle(document, doc, r.Header, r)
}

// settle sets until when a document is fresh, may be served stale, and is kept, as its header
// allows.
func (a *attempt) settle(document *kept, doc Document, header http.Header, r reply) outcome {
	v := a.config.judge(header, r.requested, r.received)
	doc.ExpiresAt = v.expires
	o := outcome{doc: &doc}
	if !v.keep {
		return o
	}
	hit := doc
	hit.State = Hit
	document.hit, document.asked = &hit, r.requested
	document.header = lastingOf(header, v.omit)
	document.staleUntil = v.staleUntil
	last := slices.MaxFunc([]time.Time{v.expires, v.staleUntil, r.received}, time.Time.Compare)
	document.keepUntil = last.Add(a.config.MaxTTL)
	o.next = &entry{key: a.key, kept: document}
	return o
}

// fail returns the outcome of an error of Fetch or Parse.
func (a *attempt) fail(err error, base *kept) outcome {
	refusal, ok := errors.AsType[interface {
		error
		Permanent() bool
	}](err)
	refused := ok && refusal.Permanent()
	_, own := errors.AsType[*OwnError](err)
	if refused && !own {
		return a.refuse(err)
	}
	if refused {
		base = nil // other owners may use the document, but not this one
	}
	o := a.trouble(err, base)
	o.own = own
	return o
}

// trouble returns the outcome of an error that says nothing about the document. base is
// kept, and served instead of the error if it is not too old.
func (a *attempt) trouble(err error, base *kept) outcome {
	o := outcome{doc: base.staleFor(err), next: a.known}
	if f := a.failure(err); f != nil {
		f.stale = o.doc
		o.next = &entry{key: a.key, kept: a.known.document(), failure: f}
		err = f.first()
	}
	if o.doc == nil {
		o.err = err
	}
	return o
}

// refuse returns the outcome of an error that says that there is no valid document.
func (a *attempt) refuse(err error) outcome {
	f := a.failure(err)
	if f == nil {
		return outcome{err: err}
	}
	return outcome{err: f.first(), next: &entry{key: a.key, failure: f}}
}

// failure returns the error to remember, or nil. A canceled context is not remembered,
// because it says nothing about the document.
func (a *attempt) failure(err error) *failure {
	own, isOwn := errors.AsType[*OwnError](err)
	if a.config.NegativeTTL == 0 || errors.Is(err, context.Canceled) || isOwn && own.Passing {
		return nil
	}
	f := &failure{
		remembered: &FailureError{Err: err, RetryAt: time.Now().Add(a.config.NegativeTTL), Repeated: true},
		size:       int64(len(err.Error())),
	}
	if isOwn {
		f.owner = a.req.Owner
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		f.size += int64(len(status.Body)+len(status.URL)) + headerSize(status.Header)
	}
	return f
}

// first returns the error for the request that failed. Later requests get f.remembered.
func (f *failure) first() error {
	return &FailureError{Err: f.remembered.Err, RetryAt: f.remembered.RetryAt}
}
