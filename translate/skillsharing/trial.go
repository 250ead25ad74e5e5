package skillsharing

import (
	"context"
	"net/http"
	"net/url"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// WithCredentials returns a client that sends other credentials.
func (c *Client) WithCredentials(credentials credential.Credentials) *Client {
	sender := c.Sender
	sender.Credentials, sender.Secrets = credentials, nil
	return &Client{Reader: discovery.Reader{Sender: sender, Cache: c.Cache}, Anonymous: c.Anonymous, Caller: c.Caller}
}

// Try sends a single request about a skill, without retries, and returns the answer as it is, for those who judge the provider: an invocation or, if there is
// none, a request to the status or result URL of a run, by the phase.
func (c *Client) Try(ctx context.Context, s *discovery.Skill, phase run.Phase, inv *Invocation, executionID string) (*exchange.Answer, *run.Failure) {
	if e := s.Unsupported(); e != nil {
		return nil, e
	}
	method, template := http.MethodGet, s.Endpoint.StatusURL
	if phase == run.PhaseResult {
		template = s.Endpoint.ResultURL
	}
	var u *url.URL
	var body []byte
	var err error
	if inv == nil {
		u, err = document.ExpandURL(template, executionID)
	} else {
		method = s.Endpoint.Method
		u, body, _, err = c.invocation(s, inv)
	}
	if err != nil {
		return nil, &run.Failure{Kind: run.ProviderFault, Message: "The request can't be made: " + err.Error(), Phase: phase, By: run.Bridge}
	}
	req, failure := c.skillRequest(ctx, s, phase, method, u, body, "")
	if failure != nil {
		return nil, c.finish(s, failure)
	}
	answer, err := c.Send(phase, req)
	if err != nil {
		return nil, c.finish(s, c.Unreachable(err, phase, u, ""))
	}
	return answer, nil
}

// Rehearse makes the request that invokes a skill, and does not send it. It returns the failure that a call would have before its
// request is sent: a URL that must not be requested, a credential that is missing, may not be sent there or can't be applied.
// nil: there is none. Credentials may send requests of their own, for tokens. The notice names the setting that lets a host receive
// the credential; nil: that is not the failure.
func (c *Client) Rehearse(ctx context.Context, s *discovery.Skill) (*run.Failure, *exchange.Notice) {
	if e := s.Unsupported(); e != nil {
		return c.finish(s, e), nil
	}
	var seen lastDenial
	sender := c.Sender
	sender.Observer = &seen
	dry := &Client{Reader: discovery.Reader{Sender: sender, Cache: c.Cache}, Anonymous: c.Anonymous}
	e := dry.judgeURLs(ctx, s, s.URLs)
	if _, personal := c.Credentials.(credential.Personal); e == nil && !personal { // no user's account is tried
		var body []byte
		if s.SendsBody() {
			body = []byte("{}")
		}
		_, e = dry.skillRequest(ctx, s, run.PhaseInvoke, s.Endpoint.Method, s.InvokeURL, body, "")
	}
	if e == nil {
		return nil, nil
	}
	return c.finish(s, e), seen.notice
}

// RehearseToken gets a token for calls without a descriptor. It reports whether the credentials can get one so, and why they got none.
func (c *Client) RehearseToken(ctx context.Context) (possible bool, failure *run.Failure) {
	if o, ok := c.Credentials.(credential.Obtainer); !ok || !o.Obtains() || !c.Credentials.Supports(nil) {
		return false, nil
	}
	req := c.NewRequest(ctx, run.PhaseAuth, http.MethodGet, c.Origin, c.AllowedHosts, exchange.SharedHeader.Clone(), nil)
	failure = c.AuthError(ctx, nil, c.Credentials.Authenticate(ctx, c.Authentication(ctx, nil, &req.Request, nil)))
	if failure == nil {
		return true, nil
	}
	c.ScrubFailure(failure)
	return true, failure
}

// lastDenial is an observer that keeps the notice of a secret that was not sent.
type lastDenial struct{ notice *exchange.Notice }

// Exchange implements [exchange.Observer].
func (*lastDenial) Exchange(context.Context, *exchange.Exchange) {}

// Notice implements [exchange.Observer].
func (d *lastDenial) Notice(_ context.Context, n *exchange.Notice) {
	if n.SecretDenied {
		d.notice = n
	}
}
