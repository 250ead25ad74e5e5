package exchange

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// AuthError turns the error of an implementation of Credentials into a failure.
func (s *Sender) AuthError(ctx context.Context, auth *document.Auth, err error) *run.Failure {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return Interrupted(ctx, run.PhaseAuth, "", run.ExecutedNo)
	}
	if e, ok := errors.AsType[*run.Failure](err); ok {
		return new(*e) // concurrent calls may share it
	}
	e := run.NeedsCredential(DemandOf(auth, run.Provider, err.Error()), "The credential can't be applied: "+err.Error())
	e.Cause = err
	return e
}

// Authentication returns the description of a request for the credentials that authenticate it.
func (s *Sender) Authentication(ctx context.Context, auth *document.Auth, req *http.Request, body []byte) *credential.Authentication {
	owner, _ := ctx.Value(credential.OwnerKey{}).(string)
	return &credential.Authentication{
		Request: req, Body: body, Auth: auth, Owner: owner,
		Origin:    s.Origin.Scheme + "://" + s.Origin.Host,
		Transport: tokenTransport{s, ctx}, MaxResponseSize: s.MaxResponseSize,
		MaySend: func(u *url.URL) error {
			if e := s.Permitted(ctx, u, run.PhaseAuth); e != nil {
				return e
			}
			if !s.AllowedHosts.Includes(u) {
				e, notice := s.Untrusted(auth, u, "the descriptor's token URL is on a host that may not receive the client secret")
				s.Observer.Notice(ctx, notice)
				return e
			}
			return nil
		},
	}
}

// tokenTransport sends the requests that credentials make themselves, for example for tokens. It reports
// them with the context of the call that first needed them: calls share tokens, so the context of such a
// request does not belong to a call.
type tokenTransport struct {
	sender *Sender
	call   context.Context
}

// RoundTrip implements http.RoundTripper.
func (t tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	through, err := t.sender.Breakers.enter(t.sender.Source, t.sender.Partition, req.URL, run.PhaseAuth)
	if err != nil {
		return nil, err
	}
	req = req.WithContext(context.WithValue(req.Context(), purposeKey{}, &purpose{t.sender.Source, t.sender.AllowedHosts}))
	req.Header = req.Header.Clone()
	req.Header.Set("Accept-Encoding", coding)
	resp, err := t.sender.Transport.RoundTrip(req)
	if err == nil && isGzip(resp) {
		resp.Body = inflatedBody(resp.Body, t.sender.MaxResponseSize)
		describeContent(resp)
	}
	status := 0
	if resp != nil {
		status = resp.StatusCode
	}
	if n := through.leave(req.Context(), status, err); n != nil {
		t.sender.Observer.Notice(t.call, n)
	}
	x := Exchange{Source: t.sender.Source, Phase: run.PhaseAuth, Method: req.Method, URL: req.URL, Duration: time.Since(start), sender: t.sender}
	if err != nil {
		x.Err = t.sender.scrubbed(withoutQuotes(err))
	}
	if resp != nil {
		x.Status = resp.StatusCode
	}
	t.sender.Observer.Exchange(t.call, &x)
	return resp, err
}

// Untrusted returns the failure of a request that would send a secret to a host that
// may not receive it, and a notice for the log. Only the notice names the host and the setting that allows it.
func (s *Sender) Untrusted(auth *document.Auth, u *url.URL, reason string) (*run.Failure, *Notice) {
	notice := &Notice{
		Level: slog.LevelWarn, Source: s.Source, SecretDenied: true,
		Message: "a credential was not sent: " + reason + "; if you trust that host, add the line below to the provider",
		Attrs:   append([]slog.Attr{slog.String("host", u.Host), slog.String("scheme", u.Scheme)}, s.AllowedHosts.Lines(u)...),
	}
	if u.Scheme != "https" && !s.AllowedHosts.Plaintext { // trusting the host would not help: http is not permitted
		notice.Message = "a credential was not sent: " + reason + " without TLS"
		notice.Attrs = notice.Attrs[:2]
	}
	e := run.NeedsCredential(DemandOf(auth, run.Bridge, reason), "The skill needs a credential that may not be sent where its provider wants it: "+reason+".")
	e.Advice = run.AskOperator + ": the log names the host and the setting."
	e.Demand.Withheld = true
	return e, notice
}

// DemandOf describes the authentication in a descriptor, as section 8.3.2 requires; a nil auth: there is none.
func DemandOf(auth *document.Auth, by run.Party, reason string) *run.Demand {
	d := &run.Demand{By: by, Reason: reason}
	if auth == nil {
		return d
	}
	d.Type, d.FromProvider = string(auth.Type), auth.OAuth2 != nil || auth.Custom != nil // the provider wrote its links and instructions
	switch {
	case auth.Type == document.AuthAPIKey:
		d.Header = auth.ApiKeyHeader()
	case auth.Type == document.AuthOAuth2 && auth.OAuth2 != nil:
		if d.Scopes = auth.OAuth2.Scopes; d.Scopes == nil {
			d.Scopes = map[string]string{}
		}
		if by == run.Provider { // otherwise only the operator can act, and the caller need not know the hosts
			d.AuthorizationURL, d.TokenURL = auth.OAuth2.AuthorizationURL, auth.OAuth2.TokenURL
		}
	case auth.Type == document.AuthCustom && auth.Custom != nil:
		d.Instructions, d.Parameters = auth.Custom.Instructions, jsonvalue.Marshal(auth.Custom.Parameters)
	}
	return d
}

// MayIdentify reports whether the bridge may show its client certificate to the host of a request. The certificate is a
// secret of the source that the request is for: only hosts that may receive the source's other secrets may see it, and only
// if the descriptor that names the URL came from such a host. A transport must call MayIdentify for each request. If it returns false, the
// transport must not send the request on a connection that was made with the certificate.
func MayIdentify(r *http.Request) bool {
	hosts := purposeOf(r.Context()).identifiedTo
	return hosts != nil && hosts.Includes(r.URL)
}

// CertificateWithheld returns the notice about a host that asked for a client certificate which it may not
// have.
func CertificateWithheld(ctx context.Context, u *url.URL) *Notice {
	of := purposeOf(ctx)
	n := &Notice{
		Level: slog.LevelWarn, Source: of.source, SecretDenied: true,
		Message: "the client certificate was not presented to a host that asked for one, because the document that names the host may not use it",
		Attrs:   []slog.Attr{slog.String("host", u.Host), slog.String("scheme", u.Scheme)},
	}
	if of.identifiedTo != nil {
		n.Message = "the client certificate was not presented to a host that asked for one, because the host may not receive the provider's secrets; if you trust that host, add the line below to the provider"
		n.Attrs = append(n.Attrs, of.identifiedTo.Lines(u)...)
	}
	return n
}

func (s *Sender) secrets() *credential.Group {
	if s.Secrets != nil {
		return s.Secrets
	}
	return credential.NewGroup(s.Credentials, s.DiscoveryCredentials)
}

// ScrubText removes configured secrets from a text.
func (s *Sender) ScrubText(text string) string { return s.secrets().ScrubText(text) }

// scrubbed returns an error for the log with the text of err, but without secrets, since
// package net/http quotes what a provider sent.
func (s *Sender) scrubbed(err error) error { return errors.New(s.ScrubText(err.Error())) }

// ScrubFailure removes configured secrets from a failure.
func (s *Sender) ScrubFailure(e *run.Failure) { s.secrets().ScrubFailure(e) }

// RepeatsSecret reports whether a document contains a credential, which every
// caller could read there.
func (s *Sender) RepeatsSecret(document []byte) bool { return s.secrets().RepeatedIn(document) }

// HasSecrets reports whether there are secrets that a document could contain.
func (s *Sender) HasSecrets() bool { return s.secrets().HasLong() }
