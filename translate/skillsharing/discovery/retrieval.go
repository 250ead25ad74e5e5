package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// maxRedirects bounds the redirects on the way to a document.
const maxRedirects = 3

// lookup reads one document and follows redirects. It checks each URL, and counts the requests to hosts that are not the source's own. It sends the
// credential to the first host only. After a redirect to another host, it does not send the credential any more,
// even if that host redirects back, because the other host has chosen the URL.
type lookup struct {
	*Reader
	phase run.Phase
	first *url.URL
	id    string // of the expected skill; empty: any
	kept  bool   // the cache has the document from this URL

	memory    [2]share.Part // of [reading]
	requests  []request     // to hosts that are not the source's own
	redirects int           // how many of them were answered with redirects
	how       outcome       // of the last of them

	left    bool     // a redirect has led to another host
	renewed bool     // the credential has been renewed
	via     []string // URLs of the redirects, without the first URL and the last one
}

// get returns the first answer that is not a redirect.
func (t *lookup) get(ctx context.Context, header http.Header) (*cache.Response, error) {
	u := t.first
	t.left, t.renewed, t.via = false, false, nil // it may be the second time, if the first answer could not be used
	for hop := 0; ; hop++ {
		a, err := t.ask(ctx, u, header, hop == 0)
		if err != nil {
			return nil, err
		}
		target := redirectTarget(a)
		if target == "" {
			return &cache.Response{StatusCode: a.Status, Header: a.Header, Body: a.Body, URL: u.String(), Via: t.via}, nil
		}
		if hop == maxRedirects {
			return nil, redirectError(t.phase, a.Status, fmt.Sprintf("it is redirected more than %d times", maxRedirects))
		}
		next, err := u.Parse(target)
		if err == nil {
			next, err = document.ParseEndpointURL(next.String())
		}
		if err != nil {
			return nil, redirectError(t.phase, a.Status, "it is redirected to something that is not an http(s) URL")
		}
		if u.Scheme == "https" && next.Scheme == "http" {
			return nil, redirectError(t.phase, a.Status, "it is redirected from https to http")
		}
		t.redirects = len(t.requests)
		if hop > 0 {
			t.via = append(t.via, u.String())
		}
		t.left = t.left || !sameAuthority(next, t.first)
		u = next
	}
}

// ask sends one request. If the provider refuses the credential, ask renews it and sends the request again.
func (t *lookup) ask(ctx context.Context, u *url.URL, header http.Header, first bool) (*exchange.Answer, error) {
	for {
		if e := t.Permitted(ctx, u, t.phase); e != nil {
			return nil, e
		}
		if e := t.admit(u, first); e != nil {
			return nil, e
		}
		identifiedTo := t.AllowedHosts
		if t.left { // like a credential, it is for the first host only
			identifiedTo = nil
		}
		req := t.NewRequest(ctx, t.phase, http.MethodGet, u, identifiedTo, header.Clone(), nil)
		req.Budget = t
		authenticated := t.DiscoveryCredentials != nil && !t.left && t.AllowedHosts.Includes(u)
		if authenticated {
			if err := t.DiscoveryCredentials.Authenticate(ctx, t.Authentication(ctx, nil, &req.Request, nil)); err != nil {
				return nil, t.credentialError(ctx, err)
			}
		}
		a, err := t.Send(t.phase, req)
		if err != nil {
			_, open := errors.AsType[*exchange.CircuitOpenError](err)
			if _, away := t.away(u); away && (open || exchange.Refusal(err) != nil) { // it was not sent
				last := len(t.requests) - 1
				t.constant().misses.end(t.requests[last:], 0, outcomeUnsent)
				t.requests = t.requests[:last]
			}
			return nil, err
		}
		if !a.IsWhole() {
			return nil, t.noRoom()
		}
		renewer, ok := t.DiscoveryCredentials.(credential.Renewer)
		if !ok || a.Status != http.StatusUnauthorized || !authenticated || t.renewed {
			return a, nil
		}
		t.renewed = true
		if again, err := renewer.Renew(ctx, t.Authentication(ctx, nil, &req.Request, nil)); err != nil {
			return nil, t.credentialError(ctx, err)
		} else if !again {
			return a, nil
		}
	}
}

// credentialError returns the error for a credential that can't be applied. If the context has ended, the
// cause is not the credential.
func (t *lookup) credentialError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return t.AuthError(ctx, nil, err)
}

// away returns the host of a URL if the operator has neither configured nor trusted it.
func (t *lookup) away(u *url.URL) (host credential.Authority, away bool) {
	if t.AllowedHosts.Includes(u) || sameAuthority(u, t.Origin) {
		return credential.Authority{}, false
	}
	host, err := credential.AuthorityOf(u)
	return host, err == nil
}

// admit checks whether a URL may be requested, and counts the request. Only the first URL of a look-up
// can have a document in the cache. The URLs are counted separately for each skill, so that a wrong
// index entry with the descriptor URL of another skill does not affect that skill.
func (t *lookup) admit(u *url.URL, first bool) *run.Failure {
	host, away := t.away(u)
	if !away {
		return nil
	}
	r, pause := t.constant().misses.begin(host, publisherOf(t.id), u.String()+"#"+t.id, first && t.kept)
	if pause == 0 {
		t.requests = append(t.requests, r)
		return nil
	}
	failure := run.TooMuch(t.phase, fmt.Sprintf(
		"Too many requests for the provider's %s, or for others at the same host, which is not the provider's own, have failed (the limit is %d a minute); try again later.",
		document.AnswerName(t.phase), t.Limits.FailedReads,
	), run.Limit{Name: "failed_reads", Max: int64(t.Limits.FailedReads)}, run.RetryIn(pause.Truncate(time.Millisecond)+time.Millisecond, exchange.RetryAttempts))
	failure.URL = exchange.BareURL(u)
	return failure
}

// maxReading is how many descriptors of the largest size find room in memory while they are read from a source. One host or publisher has at most half of
// that room, also if all of its documents arrive slowly.
const maxReading = 4

// reading is the memory of the descriptors of a source that are read, of which each has a part as one of its host, and as one of its publisher.
type reading struct {
	mu    sync.Mutex
	of    [2]share.Pool
	freed share.Signal
}

// Reserve implements [exchange.AnswerBudget].
func (t *lookup) Reserve(size int64) bool {
	all, host, publisher := &t.constant().reading, &t.memory[0], &t.memory[1]
	all.mu.Lock() // so that no other finds one of the pools taken that is given back
	defer all.mu.Unlock()
	had := host.Has()
	fits := host.Set(size) && publisher.Set(size)
	if !fits {
		host.Set(0)
		publisher.Set(0)
	}
	if host.Has() < had {
		all.freed.Send()
	}
	return fits
}

// Await implements [exchange.PatientBudget]. A large descriptor takes its room at once, and gives back what it has before it waits for that: those that have
// room and need more would wait for each other, or fail. It is not large before it gets that, so that what it has read counts little.
func (t *lookup) Await(ctx context.Context, size, most int64) bool {
	largest := t.memory[0].Most / maxReading
	if min(size, largest) <= t.memory[0].Has() {
		return true
	}
	if most = min(most, largest); size <= largeDocument {
		most = min(most, largeDocument)
	}
	for {
		freed := t.constant().reading.freed.Next()
		if t.Reserve(most) {
			return true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// Release implements [exchange.PatientBudget].
func (t *lookup) Release() { t.Reserve(0) }

// AnswerLimit implements [exchange.AnswerBudget].
func (t *lookup) AnswerLimit() (name string, most int64) { return "reads_size", t.memory[0].Most }

func (t *lookup) noRoom() *run.Failure {
	name, most := t.AnswerLimit()
	message := fmt.Sprintf("Too many large descriptors of the provider, or of one host or publisher, are being read here (at most %d bytes at a time); try again later.", most)
	return run.TooMuch(t.phase, message, run.Limit{Name: name, Max: most}, run.RetryIn(exchange.TimeoutDelay, exchange.RetryAttempts))
}

func redirectError(phase run.Phase, status int, reason string) error {
	failure := run.NotExecuted(run.ProviderFault, phase, "The provider's document can't be read: "+reason+".")
	failure.HTTPStatus = status
	return passingError{failure}
}

// redirectTarget returns the target of a redirect; empty: the answer is not a redirect.
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
