package cache

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"
)

// defaultTimeout bounds a fetch for which the request names no bound: flights
// have no other end.
const defaultTimeout = 30 * time.Second

// grace is for how long Fetch may go on after its context has ended. Within it,
// its own account of what happened is worth waiting for.
const grace = time.Second

// attempt is the work of one flight: the origin is asked, and what it says is
// made of.
type attempt struct {
	config Config
	key    key
	req    Request
	known  *entry // what was known before; may be nil
}

// reply is an answer of the origin, and when it was asked for and received.
type reply struct {
	*Response
	requested, received time.Time
}

func (a attempt) run(ctx context.Context) outcome {
	timeout := a.req.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	base := a.known.document()
	if base != nil && !base.selection.matches(a.req.Header) {
		base = nil // another variant: neither its validators nor its staleness concern this request
	}
	r, conditional, err := a.ask(ctx, base)
	if err == nil && conditional && r.StatusCode == http.StatusNotModified && a.isOther(base, r) {
		r, conditional, err = a.ask(ctx, nil)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("fetching %s: %w", redacted(a.key.url), err)
		return a.fail(err, base)
	case r.StatusCode == http.StatusOK:
		return a.accept(r)
	case r.StatusCode == http.StatusNotModified && conditional:
		return a.renew(base, r)
	}
	status := &StatusError{StatusCode: r.StatusCode, Header: r.Header, URL: a.finalURL(r), Body: r.Body}
	affected := selectionOf(r.Header, a.req.Header)
	if status.trouble() {
		return a.trouble(status, affected, base)
	}
	return a.refuse(status, affected)
}

// ask makes one request, conditional if there is a document to renew and it
// has a validator.
func (a attempt) ask(ctx context.Context, base *kept) (r reply, conditional bool, err error) {
	var validators http.Header
	if base != nil {
		validators = base.header
	}
	header, conditional := sentHeader(a.req.Header, validators)

	r.requested = time.Now()
	r.Response, err = a.fetch(ctx, header)
	r.received = time.Now()
	if err == nil && r.Response == nil {
		err = errors.New("no answer, and no error either, came from Fetch")
	}
	return r, conditional, err
}

// fetch calls Fetch, and leaves it behind if it has not returned some time after
// ctx has ended: no caller waits for it any longer, and what it may return
// later is not used.
func (a attempt) fetch(ctx context.Context, header http.Header) (*Response, error) {
	type result struct {
		response *Response
		err      error
	}
	returned := make(chan result, 1)
	go func() {
		last := result{err: errGoexit}
		defer func() { returned <- last }()
		var response *Response
		err := guarded(func() (err error) {
			response, err = a.req.Fetch(ctx, header)
			return err
		})
		last = result{response, err}
	}()
	select {
	case last := <-returned:
		return last.response, last.err
	case <-ctx.Done():
	}
	select {
	case last := <-returned:
		return last.response, last.err
	case <-time.After(grace):
		return nil, fmt.Errorf("%w, but Fetch did not return", ctx.Err())
	}
}

// accept makes a document of a 200 answer. Bytes that were parsed before are
// not parsed again.
func (a attempt) accept(r reply) outcome {
	document := &kept{
		digest:    sha256.Sum256(r.Body),
		selection: selectionOf(r.Header, a.req.Header),
	}
	doc := Document{URL: a.finalURL(r), Via: r.Via, State: Fetched, FetchedAt: r.received}
	if old := a.known.document(); old != nil && old.digest == document.digest && old.hit.URL == doc.URL && slices.Equal(old.hit.Via, doc.Via) {
		doc.Value, document.valueCost = old.hit.Value, old.valueCost
		return a.settle(document, doc, r.Header, r)
	}
	err := guarded(func() (err error) {
		doc.Value, document.valueCost, err = a.req.Parse(r.Response)
		return err
	})
	if err != nil {
		return a.refuse(fmt.Errorf("the document at %s is invalid: %w", redacted(doc.URL), err), document.selection)
	}
	return a.settle(document, doc, r.Header, r)
}

// renew makes a document of a 304 answer and the one it confirms.
func (a attempt) renew(base *kept, r reply) outcome {
	header := renewed(base.header, r.Header)
	document := &kept{
		digest:    base.digest,
		valueCost: base.valueCost,
		selection: selectionOf(header, a.req.Header),
	}
	doc := *base.hit
	doc.State = Revalidated
	return a.settle(document, doc, header, r)
}

// settle completes a document with what its header allows.
func (a attempt) settle(document *kept, doc Document, header http.Header, r reply) outcome {
	v := a.config.judge(header, r.requested, r.received)
	doc.ExpiresAt = v.expires
	o := outcome{doc: &doc, selection: document.selection}
	if !v.keep {
		return o
	}
	hit := doc
	hit.State = Hit
	document.hit = &hit
	document.header = lastingOf(header)
	document.valueCost = max(document.valueCost, 0)
	document.staleUntil = v.staleUntil
	document.keepUntil = latest(v.expires, v.staleUntil, r.received).Add(a.config.MaxTTL)
	o.next = &entry{key: a.key, kept: document}
	return o
}

// fail is the outcome of an error of Fetch.
func (a attempt) fail(err error, base *kept) outcome {
	_, own := errors.AsType[*OwnError](err)
	refused := permanent(err)
	if refused && !own {
		return a.refuse(err, selection{})
	}
	if refused {
		base = nil // others may use it, but not in place of what this one is refused
	}
	o := a.trouble(err, selection{}, base)
	o.own = own
	return o
}

// trouble is the outcome when the origin could not be asked properly: the
// document, if there is one, is not called into question, and may stand in.
func (a attempt) trouble(err error, affected selection, base *kept) outcome {
	o := outcome{err: err, selection: affected, next: a.known}
	var stale *Document
	if base != nil && time.Now().Before(base.staleUntil) {
		copied := *base.hit
		copied.State, copied.Err = Stale, err
		stale = &copied
		o.doc, o.err = stale, nil
		o.selection = base.selection
	}
	if f := a.failure(err, affected); f != nil {
		f.stale = stale
		o.next = &entry{key: a.key, kept: a.known.document(), failure: f}
		o.remember(f)
	}
	return o
}

// refuse is the outcome when there is no valid document any more.
func (a attempt) refuse(err error, affected selection) outcome {
	o := outcome{err: err, selection: affected}
	if f := a.failure(err, affected); f != nil {
		o.next = &entry{key: a.key, failure: f}
		o.remember(f)
	}
	return o
}

// remember adds to the error for how long it is remembered.
func (o *outcome) remember(f *failure) {
	if o.err != nil {
		o.err = &FailureError{Err: o.err, RetryAt: f.remembered.RetryAt}
	}
}

// failure is what is remembered of an error; nil if nothing. That a caller's
// context was cancelled says nothing about the document.
func (a attempt) failure(err error, affected selection) *failure {
	own, isOwn := errors.AsType[*OwnError](err)
	if a.config.NegativeTTL == 0 || errors.Is(err, context.Canceled) || isOwn && own.Passing {
		return nil
	}
	var owner uint64
	if isOwn {
		owner = a.req.Owner
	}
	size := int64(len(err.Error()))
	if status, ok := errors.AsType[*StatusError](err); ok {
		size += int64(len(status.Body)+len(status.URL)) + headerSize(status.Header)
	}
	return &failure{
		remembered: &FailureError{Err: err, RetryAt: time.Now().Add(a.config.NegativeTTL), Repeated: true},
		selection:  affected,
		owner:      owner,
		size:       size,
	}
}

// isOther reports whether a 304 is about something else than the document that
// was to be renewed.
func (a attempt) isOther(base *kept, r reply) bool {
	return a.finalURL(r) != base.hit.URL || !slices.Equal(r.Via, base.hit.Via) || contradicts(base.header, r.Header)
}

func (a attempt) finalURL(r reply) string {
	if r.URL == "" || r.URL == a.key.url { // of two equal texts one need not be kept
		return a.key.url
	}
	return r.URL
}

// guarded calls a function of the caller's and turns its panic into an error.
func guarded(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return call()
}

// permanent reports whether an error of Fetch says of itself that it is a
// refusal rather than trouble.
func permanent(err error) bool {
	refusal, ok := errors.AsType[interface {
		error
		Permanent() bool
	}](err)
	return ok && refusal.Permanent()
}

func latest(times ...time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}
