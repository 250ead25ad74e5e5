package skillsharing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// judgeURLs looks at every URL of a skill before anything is submitted: a run
// that could be started but not followed must not be started.
func (c *Client) judgeURLs(ctx context.Context, s *Skill) *run.Failure {
	for _, u := range s.urls {
		if e := c.permitted(ctx, u, run.PhaseInvoke); e != nil {
			return e
		}
		if !s.needsCredential() {
			continue
		}
		if e := c.mayAuthenticate(ctx, s, u); e != nil {
			return e
		}
	}
	return nil
}

// WithoutCredential says why calls of a skill are answered AUTH_REQUIRED before
// anything is sent; nil: by what is known without asking anybody, they are not. It
// reports nothing: nobody has called the skill.
func (c *Client) WithoutCredential(s *Skill) *run.Failure {
	if !s.needsCredential() {
		return nil
	}
	for _, u := range s.urls {
		if e, _ := c.denial(s, u); e != nil {
			return c.finish(s, e)
		}
	}
	return nil
}

// mayAuthenticate says whether the configured credential may be sent to u on
// behalf of s, and reports it if not.
func (c *Client) mayAuthenticate(ctx context.Context, s *Skill, u *url.URL) *run.Failure {
	e, notice := c.denial(s, u)
	if notice != nil {
		c.Observer.Notice(ctx, notice)
	}
	return e
}

// denial is why the configured credential may not be sent to u on behalf of s, and
// what the log is to be told of it; nil: it may.
func (c *Client) denial(s *Skill, u *url.URL) (*run.Failure, *Notice) {
	if c.Credentials == nil {
		return s.missingCredential("no credentials are configured for its provider"), nil
	}
	if !c.Credentials.Suits(&s.Auth) {
		return s.missingCredential("the configured credentials are of another type"), nil
	}
	if u := s.stranger(c.Audience); u != nil {
		reason := "the descriptor comes from a host that may not receive the provider's credentials"
		if u != s.url {
			reason = "a host redirected to the descriptor that may not receive the provider's credentials"
		}
		return c.untrusted(&s.Auth, u, reason)
	}
	if !c.Audience.Includes(u) {
		return c.untrusted(&s.Auth, u, "the descriptor names a host that may not receive the provider's credentials")
	}
	return nil, nil
}

// untrusted is the error of a request that would carry a secret to a host that
// may not have it. The host and what would allow it are for the log only.
func (c *Client) untrusted(auth *Auth, u *url.URL, reason string) (*run.Failure, *Notice) {
	notice := &Notice{
		Level: slog.LevelWarn, Source: c.Source, SecretDenied: true,
		Message: "a credential was not sent: " + reason + "; if you trust that host, add the line below to the provider",
		Attrs:   append([]slog.Attr{slog.String("host", u.Host), slog.String("scheme", u.Scheme)}, c.Audience.lines(u)...),
	}
	if u.Scheme != "https" && !c.Audience.plaintext { // which trusting the host would not change
		notice.Message = "a credential was not sent: " + reason + " without TLS"
		notice.Attrs = notice.Attrs[:2]
	}
	e := authError(auth, run.Bridge, reason)
	e.Message = "The skill needs a credential that may not be sent where its provider wants it: " + reason +
		". Ask the operator of the bridge: the log names the host and the setting."
	e.Demand.Withheld = true
	return e, notice
}

// Unlisted is the error of a skill of a registry that may not use the credentials of
// the client's provider, though its hosts would allow it: anyone who can put a file on
// such a host can have a registry list it. The notice is for the log.
func (c *Client) Unlisted(s *Skill, registry string) (*run.Failure, *Notice) {
	const reason = "a registry lists the skill, and the own index of the provider that hosts it does not"
	e := authError(&s.Auth, run.Bridge, reason)
	e.Message = "The skill needs a credential that may not be sent: " + reason + ". Ask the operator of the bridge: the log names the setting."
	e.Demand.Withheld, e.SkillID = true, s.ID
	return e, &Notice{
		Level: slog.LevelWarn, Source: c.Source, SecretDenied: true,
		Message: "a credential was not sent: " + reason + "; if you trust the registry with the provider's credentials, add the line below to the provider",
		Attrs: []slog.Attr{
			slog.String("registry", registry), slog.String("skill_id", s.ID), slog.String("host", s.endpoint.Host),
			slog.String("line", "trust_registry "+registry),
		},
	}
}

// trustLine is the argument of the trust option that names u's host.
func trustLine(u *url.URL) string {
	a, err := authorityOf(u)
	if err != nil {
		return u.Host
	}
	return a.trustLine()
}

func (a authority) trustLine() string {
	if a.port != "443" {
		return a.String()
	}
	if strings.Contains(a.host, ":") {
		return "[" + a.host + "]"
	}
	return a.host
}

// subdomainsLine is the argument of the trust option that names all subdomains of
// the source's own host, if u is at one of them; else it is empty.
func (a *Audience) subdomainsLine(u *url.URL) string {
	target, err := authorityOf(u)
	if err != nil || checkSubdomains(a.origin.host) != nil || !strings.HasSuffix(target.host, "."+a.origin.host) {
		return ""
	}
	return "*." + authority{a.origin.host, target.port}.trustLine()
}

// missingCredential is the error of a skill that needs what was not configured.
func (s *Skill) missingCredential(reason string) *run.Failure {
	e := authError(&s.Auth, run.Provider, reason)
	e.Message = fmt.Sprintf("Skill %s needs authentication (%s), and %s. Ask the operator of the bridge to configure credentials for it.",
		clip(s.ID, 200), s.Auth.Type, reason)
	return e
}

// authError is an AUTH_REQUIRED of the bridge, with what section 8.3.2 wants to be told.
func authError(auth *Auth, by run.Party, reason string) *run.Failure {
	return &run.Failure{
		Kind: run.AuthRequired, Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo, Demand: demandOf(auth, by, reason),
	}
}

// demandOf describes the authentication that a descriptor asks for; nil: there is none.
func demandOf(auth *Auth, by run.Party, reason string) *run.Demand {
	d := &run.Demand{By: by, Reason: reason}
	if auth == nil {
		return d
	}
	d.Type, d.Quotes = string(auth.Type), auth.OAuth2 != nil || auth.Custom != nil // whose links and instructions are the provider's
	switch {
	case auth.Type == AuthAPIKey:
		d.Header = auth.apiKeyHeader()
	case auth.Type == AuthOAuth2 && auth.OAuth2 != nil:
		if d.Scopes = auth.OAuth2.Scopes; d.Scopes == nil {
			d.Scopes = map[string]string{}
		}
		if by == run.Provider { // else it is the operator's to change, and the host may be one not to be told
			d.AuthorizationURL, d.TokenURL = auth.OAuth2.AuthorizationURL, auth.OAuth2.TokenURL
		}
	case auth.Type == AuthCustom && auth.Custom != nil:
		d.Instructions, d.Parameters = auth.Custom.Instructions, mustMarshal(auth.Custom.Parameters)
	}
	return d
}

// apiKeyHeader is the header that carries an API key. Section 3.5.5 names no
// default, every example uses this one.
func (a *Auth) apiKeyHeader() string {
	if a.Header != "" {
		return a.Header
	}
	return "X-API-Key"
}

// completeDemand adds to a provider's 401 what its descriptor knows, so
// that an agent always learns what is missing.
func (s *Skill) completeDemand(e *run.Failure) {
	if e.Kind != run.AuthRequired || e.By != run.Provider {
		return
	}
	if e.Phase != run.PhaseAuth { // else the credential itself has said what to do
		e.Message += s.adviceOnRefusal()
	}
	d := demandOf(&s.Auth, run.Provider, "")
	if e.Demand != nil {
		*d = *e.Demand
	}
	d.By, d.Quotes = run.Provider, true
	e.Demand = d
}

// adviceOnRefusal says what a provider's refusal means on this side of it.
func (s *Skill) adviceOnRefusal() string {
	if s.needsCredential() {
		return " (The provider refused the bridge's credential: ask the operator of the bridge to check it.)"
	}
	return " (The skill's descriptor asks for no authentication, so the bridge sent none: ask the operator of the bridge to tell the provider.)"
}

// authenticate adds the credential to a request for an invocation, its status
// or its result. Every such request is made by [Client.skillRequest], which
// calls this.
func (c *Client) authenticate(ctx context.Context, s *Skill, req *http.Request, body []byte) *run.Failure {
	if !s.needsCredential() {
		return nil
	}
	if e := c.mayAuthenticate(ctx, s, req.URL); e != nil {
		return e
	}
	return c.authError(ctx, &s.Auth, c.Credentials.Authenticate(ctx, c.authentication(ctx, &s.Auth, req, body)))
}

// authError turns what an implementation of Credentials returned into a failure.
func (c *Client) authError(ctx context.Context, auth *Auth, err error) *run.Failure {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return interrupted(ctx, run.PhaseAuth, "", run.ExecutedNo)
	}
	if e, ok := errors.AsType[*run.Failure](err); ok {
		copied := *e // it may be shared by concurrent calls
		return &copied
	}
	e := authError(auth, run.Provider, err.Error())
	e.Message = "The credential can't be applied: " + err.Error()
	e.Cause = err
	return e
}

func (c *Client) authentication(ctx context.Context, auth *Auth, req *http.Request, body []byte) *Authentication {
	return &Authentication{
		Request: req, Body: body, Auth: auth,
		Origin:    c.Origin.Scheme + "://" + c.Origin.Host,
		Transport: tokenTransport{c, ctx}, MaxResponseSize: c.MaxResponseSize,
		MaySend: func(u *url.URL) error {
			if e := c.permitted(ctx, u, run.PhaseAuth); e != nil {
				return e
			}
			if !c.Audience.Includes(u) {
				e, notice := c.untrusted(auth, u, "the descriptor's token URL is on a host that may not receive the client secret")
				c.Observer.Notice(ctx, notice)
				return e
			}
			return nil
		},
	}
}

// renew exchanges a credential that was answered with 401. It reports whether
// the request is worth repeating.
func (c *Client) renew(ctx context.Context, s *Skill, rejected *http.Request) (bool, *run.Failure) {
	r, ok := c.Credentials.(Renewer)
	if !ok || !s.needsCredential() {
		return false, nil
	}
	renewed, err := r.Renew(ctx, c.authentication(ctx, &s.Auth, rejected, nil))
	return renewed, c.authError(ctx, &s.Auth, err)
}

// tokenTransport carries the requests that credentials make of their own, and
// reports them with the context of the call that they were first made for: what
// they bring may be shared, and so their own context is no call's.
type tokenTransport struct {
	client *Client
	call   context.Context
}

// RoundTrip implements http.RoundTripper.
func (t tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	through, err := t.client.Breakers.enter(t.client.Source, t.client.Partition, req.URL, run.PhaseAuth)
	if err != nil {
		return nil, err
	}
	req = req.WithContext(&requestContext{req.Context(), t.client.Source, identity{t.client, nil}})
	req.Header = req.Header.Clone()
	req.Header.Set("Accept-Encoding", coding)
	resp, err := t.client.Transport.RoundTrip(req)
	if err == nil && isGzip(resp) {
		resp.Body = inflatedBody(resp.Body, t.client.MaxResponseSize)
		describeContent(resp)
	}
	status := 0
	if resp != nil {
		status = resp.StatusCode
	}
	if n := through.leave(req.Context(), status, err); n != nil {
		t.client.Observer.Notice(t.call, n)
	}
	x := Exchange{Source: t.client.Source, Phase: run.PhaseAuth, Method: req.Method, URL: req.URL, Duration: time.Since(start), client: t.client}
	if err != nil {
		x.Err = t.client.scrubbed(withoutQuotes(err))
	}
	if resp != nil {
		x.Status = resp.StatusCode
	}
	t.client.Observer.Exchange(t.call, &x)
	return resp, err
}
