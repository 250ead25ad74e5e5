package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
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
	large bool   // this look-up has a slot for large documents

	requests  []request // to hosts that are not the source's own
	redirects int       // how many of them were answered with redirects
	how       outcome   // of the last of them

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
		who := exchange.Identity{Hosts: t.AllowedHosts}
		if t.left { // like a credential, it is for the first host only
			who = exchange.Identity{}
		}
		req := t.NewRequest(ctx, t.phase, http.MethodGet, u, who, header.Clone(), nil)
		req.AdmitLarge = t.admitLarge
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
	return &run.Failure{
		Kind: run.RateLimited, Phase: t.phase, By: run.Bridge, Executed: run.ExecutedNo, URL: exchange.BareURL(u),
		Message: fmt.Sprintf("Too many requests for the provider's %s, or for others at the same host, which is not the provider's own, have failed (the limit is %d a minute); try again later.",
			document.AnswerName(t.phase), t.Limits.FailedReads),
		Limit: &run.Limit{Name: "failed_reads", Max: int64(t.Limits.FailedReads)},
		Retry: run.RetryIn(pause.Truncate(time.Millisecond)+time.Millisecond, exchange.RetryAttempts),
	}
}

// maxLarge is how many large indexes of a source are read and parsed at a time; the same for large descriptors. Parsing
// one takes many times its size in memory.
const maxLarge = 2

// admitLarge waits for a slot for a document that turns out to be large. The slot is released
// when the context of the fetch ends, which is after the document was parsed.
func (t *lookup) admitLarge(ctx context.Context) error {
	if t.large {
		return nil
	}
	slots := t.constant().large[t.phase]
	select {
	case slots <- struct{}{}:
		t.large = true
		context.AfterFunc(ctx, func() { <-slots })
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func redirectError(phase run.Phase, status int, reason string) error {
	return passingError{&run.Failure{
		Kind: run.ProviderFault, Phase: phase, By: run.Bridge, HTTPStatus: status, Executed: run.ExecutedNo,
		Message: "The provider's document can't be read: " + reason + ".",
	}}
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
