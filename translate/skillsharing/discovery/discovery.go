package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// discoveryTimeout bounds the reading of one document.
const discoveryTimeout = 10 * time.Second

// maxRedirects bounds the hops on the way to a document.
const maxRedirects = 3

// Reader reads the documents of one source of skills, through a cache. It is safe for concurrent use, and must not be
// changed once it is in use.
type Reader struct {
	exchange.Sender
	// Cache keeps documents, apart from those of other partitions.
	Cache *cache.Cache

	constants atomic.Pointer[constant]
}

// Index returns the index of the provider (section 4.3).
func (c *Reader) Index(ctx context.Context) (*document.Index, *run.Failure) {
	if doc := c.fresh(indexDocument, c.constant().index); doc != nil {
		if e := c.judgeDocument(ctx, indexDocument, c.constant().index, doc); e != nil {
			return nil, e
		}
		return doc.Value.(*keptIndex).Index, nil
	}
	return c.index(ctx, indexDocument, c.below(document.WellKnownPath), c.Limits.ParseIndex)
}

// Registry returns what the registry at the client's origin lists (section 4.2).
// An empty type asks for all skills.
func (c *Reader) Registry(ctx context.Context, t document.CapabilityType) (*document.Index, *run.Failure) {
	return c.index(ctx, registryDocument, c.registryURL(t), c.Limits.ParseRegistry)
}

func (c *Reader) registryURL(t document.CapabilityType) *url.URL {
	u := c.below("skills")
	if t != "" {
		q := u.Query()
		q.Set("type", string(t))
		u.RawQuery = q.Encode()
	}
	return u
}

// below is a URL under the client's origin.
func (c *Reader) below(path string) *url.URL {
	base := *c.Origin
	if !strings.HasPrefix(base.Path, "/") {
		base.Path = "/" + base.Path // else JoinPath makes a relative path
	}
	return base.JoinPath(path)
}

func (c *Reader) index(ctx context.Context, kind documentKind, u *url.URL, parse func([]byte) (*document.Index, error)) (*document.Index, *run.Failure) {
	doc, err := c.document(ctx, kind, u, u.String(), "", func(r *cache.Response) (any, error) {
		if e := checkMediaType(run.PhaseDiscovery, r.Header); e != nil {
			return nil, e
		}
		index, err := parse(r.Body)
		if err != nil {
			return nil, err
		}
		return &keptIndex{Index: index}, nil
	})
	if err != nil {
		return nil, err
	}
	return doc.Value.(*keptIndex).Index, nil
}

// Location is where a descriptor is published, to be read many times. There may be
// many of them, so that it is no more than the text that the descriptor is cached by.
type Location string

// NewLocation reads the URL of a descriptor. What is wrong with it is found when
// the descriptor is wanted.
func NewLocation(descriptorURL string) Location {
	u, err := document.ParseEndpointURL(descriptorURL)
	if err != nil {
		return Location(descriptorURL)
	}
	if text := u.String(); text != descriptorURL {
		return Location(text)
	}
	return Location(descriptorURL) // one copy is enough
}

func (l Location) parse() (*url.URL, *run.Failure) {
	u, err := document.ParseEndpointURL(string(l))
	if err != nil {
		return nil, document.InvalidDescriptor("The index names an unusable descriptor URL.", run.Violation{Path: "/descriptor_url", Message: err.Error()})
	}
	return u, nil
}

// Skill returns the skill whose descriptor is published at a location (section
// 4.2).
func (c *Reader) Skill(ctx context.Context, at Location) (*Skill, *run.Failure) {
	s, _, e := c.SkillDocument(ctx, at, "")
	return s, e
}

// SkillDocument is Skill, and says whether the descriptor came from the cache. The id, if it is not
// empty, is that of the skill that is expected; another one is for the caller to judge.
func (c *Reader) SkillDocument(ctx context.Context, at Location, id string) (*Skill, cache.State, *run.Failure) {
	if doc := c.fresh(descriptorDocument, string(at)); doc != nil {
		if e := c.judgeDocument(ctx, descriptorDocument, string(at), doc); e != nil {
			return nil, 0, e
		}
		return doc.Value.(*Skill), cache.Hit, nil
	}
	u, e := at.parse()
	if e != nil {
		return nil, 0, e
	}
	doc, e := c.document(ctx, descriptorDocument, u, string(at), id, func(r *cache.Response) (any, error) {
		if e := checkMediaType(run.PhaseDescriptor, r.Header); e != nil {
			return nil, e
		}
		source, way := u, []*url.URL(nil)
		if r.URL != string(at) { // it was redirected
			var err error
			if source, err = url.Parse(r.URL); err != nil {
				return nil, err
			}
			way = append(way, u)
		}
		for _, text := range r.Via {
			hop, err := url.Parse(text)
			if err != nil {
				return nil, err
			}
			way = append(way, hop)
		}
		limits := c.Limits
		limits.Owner = c.partition(descriptorDocument)
		return newSkill(&limits, r.Body, source, way...)
	})
	if e != nil {
		return nil, 0, e
	}
	return doc.Value.(*Skill), doc.State, nil
}

// Peek tells what is known of a descriptor without asking for it: the document that is
// kept, or nil; and why it can't be had at the moment, or nil.
func (c *Reader) Peek(ctx context.Context, at Location) (*cache.Document, *run.Failure) {
	u, e := at.parse()
	if e != nil {
		return nil, e
	}
	doc, err := c.Cache.Peek(string(at), c.partition(descriptorDocument), c.constant().number)
	if doc != nil {
		if e := c.judgeDocument(ctx, descriptorDocument, string(at), doc); e != nil {
			return nil, e
		}
	}
	if err == nil {
		return doc, nil
	}
	return doc, c.documentFailure(ctx, run.PhaseDescriptor, u, err)
}

// PeekIndex returns the index of a provider that is kept, fresh or not, or nil.
func (c *Reader) PeekIndex() *document.Index {
	return c.peekIndex(c.below(document.WellKnownPath), indexDocument)
}

// PeekRegistry returns a registry's answer that is kept, fresh or not, or nil.
func (c *Reader) PeekRegistry(t document.CapabilityType) *document.Index {
	return c.peekIndex(c.registryURL(t), registryDocument)
}

func (c *Reader) peekIndex(u *url.URL, kind documentKind) *document.Index {
	doc, _ := c.Cache.Peek(u.String(), c.partition(kind), c.constant().number) // a failure to renew it changes nothing
	if doc == nil {
		return nil
	}
	return doc.Value.(*keptIndex).Index
}

// ForgetIndex drops the index of a provider from the cache.
func (c *Reader) ForgetIndex() {
	c.Cache.Delete(c.below(document.WellKnownPath).String(), c.partition(indexDocument))
}

// ForgetRegistry drops a registry's answer from the cache.
func (c *Reader) ForgetRegistry(t document.CapabilityType) {
	c.Cache.Delete(c.registryURL(t).String(), c.partition(registryDocument))
}

// Forget drops a descriptor from the cache: the provider has denied the skill.
func (c *Reader) Forget(at Location) {
	c.Cache.Delete(string(at), c.partition(descriptorDocument))
}

// documentKind says what a document is read as. A hostile index can name any URL
// as that of a descriptor, its own too, so the cache keeps the kinds apart.
type documentKind int

const (
	indexDocument documentKind = iota
	registryDocument
	descriptorDocument
	documentKinds
)

var documentKindNames = [documentKinds]string{"index", "registry", "descriptor"}

func (k documentKind) phase() run.Phase {
	if k == descriptorDocument {
		return run.PhaseDescriptor
	}
	return run.PhaseDiscovery
}

// constant is what does not change from one request for a document to the next.
type constant struct {
	number     uint64 // tells the client from others whose documents are in the same partition
	index      string // its URL
	partitions [documentKinds]string
	large      map[run.Phase]chan struct{} // with room for the large documents that may be read at a time
	misses     misses
}

// clients numbers those that have read a document.
var clients atomic.Uint64

func (c *Reader) constant() *constant {
	if known := c.constants.Load(); known != nil {
		return known
	}
	made := &constant{number: clients.Add(1), index: c.below(document.WellKnownPath).String(), large: newLarge(), misses: misses{perMinute: c.Limits.FailedReads, untried: untriedReads(&c.Limits)}}
	for kind, name := range documentKindNames {
		made.partitions[kind] = name + " " + c.Partition
	}
	if !c.constants.CompareAndSwap(nil, made) {
		return c.constants.Load() // another call was faster
	}
	return made
}

func (c *Reader) partition(kind documentKind) string { return c.constant().partitions[kind] }

// fresh returns a document from the cache if it need not be asked for.
func (c *Reader) fresh(kind documentKind, url string) *cache.Document {
	return c.Cache.Fresh(url, c.partition(kind))
}

// document reads a document through the cache, where it is known by the text of its URL.
// The id, if it is not empty, is that of the skill that is expected.
func (c *Reader) document(ctx context.Context, kind documentKind, u *url.URL, text, id string, parse func(*cache.Response) (any, error)) (*cache.Document, *run.Failure) {
	atOnce, shares := 0, []string(nil) // of indexes there are few, and without them there are no descriptors
	if kind == descriptorDocument {
		atOnce, shares = c.Limits.Reads, sharesOf(u, id)
	}
	m := &c.constant().misses
	r := &reading{id: id} // of the flight, if this call begins it
	release := hold(ctx)
	doc, err := c.Cache.Get(ctx, cache.Request{
		Group: c.Partition, AtOnce: atOnce, Shares: shares,
		Done: func() {
			r.land(m)
			release()
		},
		URL:       text,
		Partition: c.partition(kind),
		Owner:     c.constant().number,
		Timeout:   discoveryTimeout,
		Fetch: func(ctx context.Context, conditions http.Header) (*cache.Response, error) {
			how := landedBadly // also if it panics
			defer func() { r.fetched(m, how) }()
			known, _ := c.Cache.Peek(text, c.partition(kind), c.constant().number)
			r.again(known)
			header := exchange.SharedHeader.Clone()
			maps.Copy(header, conditions)
			response, err := c.fetch(context.WithValue(ctx, readingKey{}, r), kind.phase(), u, header)
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
			r.parsed(m, value, err)
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

// ownError marks an error that is about this client, so that the cache gives it to no
// other one: what the guard, the rules for URLs and the discovery credentials refuse,
// and, for as long as they do, a circuit breaker and the limits.
func ownError(err error) error {
	if _, open := errors.AsType[*exchange.CircuitOpenError](err); open {
		return &cache.OwnError{Err: err, Passing: true}
	}
	if e, ok := errors.AsType[*run.Failure](err); ok && e.Kind == run.RateLimited && e.By == run.Bridge {
		return &cache.OwnError{Err: err, Passing: true}
	}
	if e, ok := errors.AsType[*run.Failure](err); ok && e.Phase == run.PhaseAuth {
		return &cache.OwnError{Err: err}
	}
	if e, ok := errors.AsType[*run.Failure](err); ok && e.Refused != "" {
		return &cache.OwnError{Err: err}
	}
	if _, refused := exchange.Refusal(err); refused {
		return &cache.OwnError{Err: err}
	}
	return err
}

// warnOfStale tells the operator why a document is used that is not fresh any more.
// Of all the documents of a kind it says the same, so that it is said once.
func (c *Reader) warnOfStale(ctx context.Context, phase run.Phase, u *url.URL, err error) {
	e := c.documentError(ctx, phase, u, err)
	credential.ScrubFailure(e, c.DiscoveryCredentials)
	c.Observer.Notice(ctx, &exchange.Notice{
		Level: slog.LevelWarn, Source: c.Source,
		Message: "what is known of a source is not fresh any more, since its " + document.AnswerName(phase) + " can't be read anew; calls go on until stale_if_error has passed",
		Attrs:   []slog.Attr{slog.String("code", string(document.CodeOf(e))), slog.String("error", e.Message)},
	})
}

// secretError is the error of a document that repeats a credential.
func secretError(phase run.Phase) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidDocument, Phase: phase, By: run.Bridge, Executed: run.ExecutedNo,
		Message:    fmt.Sprintf("The provider's %s repeats a credential of the bridge, and so is not used.", document.AnswerName(phase)),
		Violations: []run.Violation{{Message: "must not repeat the bridge's credential"}},
	}
}

// documentCost estimates the memory that a parsed document takes, in bytes.
func documentCost(body []byte) int64 { return 2<<10 + 4*int64(len(body)) }

// fetch performs one GET, following redirects. Each hop is judged anew, and a
// credential goes to the first host only, and not again once the way has left it:
// what comes back to it asks for what another host has chosen.
func (c *Reader) fetch(ctx context.Context, phase run.Phase, first *url.URL, header http.Header) (*cache.Response, error) {
	renewed, left, via := false, false, []string(nil)
	for u, hop := first, 0; ; {
		if e := c.Permitted(ctx, u, phase); e != nil {
			return nil, e
		}
		way, reading := ctx.Value(readingKey{}).(*reading)
		if reading {
			if e := c.admitAway(way, u, hop == 0, phase); e != nil {
				return nil, e
			}
		}
		req := c.NewRequest(ctx, phase, http.MethodGet, u, c.ofDocument(left), header.Clone(), nil)
		if reading {
			req.AdmitLarge = func(ctx context.Context) error { return c.admitLarge(ctx, way, phase) }
		}
		authenticated := c.DiscoveryCredentials != nil && !left && c.AllowedHosts.Includes(u)
		if authenticated {
			if err := c.DiscoveryCredentials.Authenticate(ctx, c.Authentication(ctx, nil, &req.Request, nil)); err != nil {
				return nil, c.discoveryAuthError(ctx, err)
			}
		}
		a, err := c.Send(phase, req)
		if reading && neverMade(err) {
			c.withdraw(way, u)
		}
		if err != nil {
			return nil, err
		}
		if renewer, ok := c.DiscoveryCredentials.(credential.Renewer); ok && a.Status == http.StatusUnauthorized && authenticated && !renewed {
			renewed = true
			if again, err := renewer.Renew(ctx, c.Authentication(ctx, nil, &req.Request, nil)); err != nil {
				return nil, c.discoveryAuthError(ctx, err)
			} else if again {
				continue
			}
		}
		target := redirectTarget(a)
		if target == "" {
			return &cache.Response{StatusCode: a.Status, Header: a.Header, Body: a.Body, URL: u.String(), Via: via}, nil
		}
		if hop++; hop > maxRedirects {
			return nil, redirectError(phase, a.Status, fmt.Sprintf("it is redirected more than %d times", maxRedirects))
		}
		next, err := u.Parse(target)
		if err == nil {
			next, err = document.ParseEndpointURL(next.String())
		}
		if err != nil {
			return nil, redirectError(phase, a.Status, "it is redirected to something that is not an http(s) URL")
		}
		if u.Scheme == "https" && next.Scheme == "http" {
			return nil, redirectError(phase, a.Status, "it is redirected from https to http")
		}
		if reading {
			way.passOn()
		}
		if hop > 1 {
			via = append(via, u.String())
		}
		left = left || !sameAuthority(next, first)
		u = next
	}
}

// ofDocument is the identity of a request for a document: like a credential, it goes to
// the first host on the way to it only, and not again once the way has left it.
func (c *Reader) ofDocument(left bool) exchange.Identity {
	if left {
		return exchange.Identity{}
	}
	return exchange.Identity{Hosts: c.AllowedHosts}
}

// neverMade reports whether a request was kept back by the circuit breaker or the guard.
func neverMade(err error) bool {
	_, open := errors.AsType[*exchange.CircuitOpenError](err)
	_, refused := exchange.Refusal(err)
	return open || refused
}

// discoveryAuthError is the error of a document that needs a credential that
// can't be applied. That time was up says nothing about the credential.
func (c *Reader) discoveryAuthError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return c.AuthError(ctx, nil, err)
}

func redirectError(phase run.Phase, status int, reason string) *run.Failure {
	return &run.Failure{
		Kind: run.ProviderFault, Phase: phase, By: run.Bridge, HTTPStatus: status, Executed: run.ExecutedNo,
		Message: "The provider's document can't be read: " + reason + ".",
	}
}

// redirectTarget is where a redirect leads; empty if the answer is none.
func redirectTarget(a *exchange.Answer) string {
	switch a.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return a.Header.Get("Location")
	}
	return ""
}

func sameAuthority(a, b *url.URL) bool {
	x, err1 := credential.AuthorityOf(a)
	y, err2 := credential.AuthorityOf(b)
	return err1 == nil && err2 == nil && x == y && a.Scheme == b.Scheme
}

// checkMediaType: documents are JSON by their media type (section 4.3.1). That keeps a
// file that users may upload to a provider's host, such as an image, from being
// a descriptor; there are hosts that serve such files without a type, so a descriptor
// needs one. An index is where only its host can put it, and may have none.
func checkMediaType(phase run.Phase, h http.Header) *run.Failure {
	value := h.Get("Content-Type")
	if value == "" && phase == run.PhaseDiscovery {
		return nil
	}
	if mediaType, _, err := mime.ParseMediaType(value); err == nil && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")) {
		return nil
	}
	served := "without a media type"
	if value != "" {
		served = fmt.Sprintf("as %q", safetext.Clip(value, 100))
	}
	return &run.Failure{
		Kind: run.InvalidDocument, Phase: phase, By: run.Bridge, Executed: run.ExecutedNo,
		Message:    fmt.Sprintf("The provider's %s is served %s, not as application/json.", document.AnswerName(phase), served),
		Violations: []run.Violation{{Message: "must be served as application/json", Expected: schema.Quoted("application/json"), Actual: schema.Quoted(safetext.Clip(value, 100))}},
	}
}

// documentFailure is the error of a call that could not have a document. What it
// advises is true: as long as the failure is remembered, trying again is no use.
func (c *Reader) documentFailure(ctx context.Context, phase run.Phase, u *url.URL, err error) *run.Failure {
	e := c.documentError(ctx, phase, u, err)
	e.URL = exchange.BareURL(u)
	if failed, ok := errors.AsType[*cache.FailureError](err); ok {
		raiseRetry(e, max(time.Until(failed.RetryAt), c.Breakers.Pause(c.Source, c.Partition, u)))
	}
	credential.ScrubFailure(e, c.Credentials, c.DiscoveryCredentials)
	return e
}

// raiseRetry has callers wait at least for so long before they try again, if trying
// again may help at all.
func raiseRetry(e *run.Failure, delay time.Duration) {
	temporary := (e.Kind == run.Unreachable || e.Kind == run.RateLimited) && e.Refused == ""
	said := e.Says()
	if (temporary || e.Retry != nil || said.Retry != nil) && exchange.SuggestedDelay(e) < delay {
		e.Retry = run.Again(delay.Truncate(time.Millisecond)+time.Millisecond, document.RetryAttempts)
		said.Retry = nil
		e.Provider = &said
	}
}

// documentError says why a document could not be had.
func (c *Reader) documentError(ctx context.Context, phase run.Phase, u *url.URL, err error) *run.Failure {
	if e, ok := errors.AsType[*run.Failure](err); ok {
		copied := *e // it may be shared by concurrent calls, or remembered
		return &copied
	}
	if status, ok := errors.AsType[*cache.StatusError](err); ok {
		return c.documentStatusError(phase, status)
	}
	if errors.Is(err, cache.ErrQueued) && errors.Is(err, context.DeadlineExceeded) {
		return tooManyReads(phase, c.Limits.Reads)
	}
	if errors.Is(err, cache.ErrParsing) && errors.Is(err, context.DeadlineExceeded) {
		return document.BusyError(phase, fmt.Sprintf("The provider's %s has arrived, but the bridge was too busy to judge it in time; try again later.", document.AnswerName(phase)))
	}
	if ctx.Err() != nil {
		return document.Interrupted(ctx, phase, "", run.ExecutedNo)
	}
	return c.Unreachable(err, phase, u, "")
}

// tooManyReads is the error of a call whose time was up while others had their
// documents read.
func tooManyReads(phase run.Phase, most int) *run.Failure {
	return &run.Failure{
		Kind: run.RateLimited, Phase: phase, By: run.Bridge, Executed: run.ExecutedNo,
		Message: fmt.Sprintf("Too many descriptors of the provider, or of one host or publisher, are being read here (limits reads: %d); try again later.", most),
		Limit:   document.LimitOf("reads", int64(most)),
		Retry:   run.Again(document.TimeoutDelay, document.RetryAttempts),
	}
}

// documentStatusError judges an HTTP status that a document was answered with. A
// body that nests too deep says nothing about it.
func (c *Reader) documentStatusError(phase run.Phase, s *cache.StatusError) *run.Failure {
	a := &exchange.Answer{Status: s.StatusCode, Header: s.Header, Body: s.Body}
	said := new(document.Members)
	if !jsonrpc.Deeper(a.Body, c.Limits.MaxDepth()) {
		*said = document.ParseMembers(a.Body)
	}
	e := exchange.JudgeError(a, said, phase, "")
	switch {
	case e.Kind == run.AuthRequired:
		e.Demand = exchange.DemandOf(nil, run.Provider, fmt.Sprintf("the provider's %s needs authentication", document.AnswerName(phase)))
	case e.Kind == run.DeadlineExceeded, s.StatusCode >= 500:
		e.Kind = run.Unreachable
	case e.Kind == run.InvalidArguments, e.Kind == run.VersionIncompatible:
		e.Kind, e.Argument = run.ProviderFault, nil
	}
	if e.Kind == run.Unreachable && e.Retry == nil && e.Says().Retry == nil {
		e.Retry = run.Again(document.UnreachableDelay, document.RetryAttempts)
	}
	if e.Kind == run.ProviderFault && s.StatusCode < http.StatusBadRequest {
		e.Message = "that is not an answer with a document."
	}
	e.Message = fmt.Sprintf("The provider's %s could not be read (HTTP %d): %s", document.AnswerName(phase), s.StatusCode, e.Message)
	return e
}
