package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

const (
	// maxTokenResponse bounds the answer of a token endpoint, in bytes.
	maxTokenResponse = 1 << 20
	// maxAccessToken bounds an access token, in bytes: a header has to hold it.
	maxAccessToken = 32 << 10
)

// tokenRequest has the parts of a request to a token endpoint.
type tokenRequest struct {
	client      *client
	endpoint    string
	transport   http.RoundTripper
	limit       int64   // bytes to read of the answer
	credentials *OAuth2 // whose secrets stay out of errors
}

// do asks for a token (RFC 6749, section 4.4.2), with the grant of the refresh
// token if there is one (section 6).
func (r tokenRequest) do(ctx context.Context, refresh string) (grantedToken, *run.Failure) {
	config := clientcredentials.Config{
		ClientID:       r.client.id,
		ClientSecret:   r.client.secret,
		TokenURL:       r.endpoint,
		Scopes:         r.client.scopes,
		EndpointParams: maps.Clone(r.client.params),
		AuthStyle:      r.client.style,
	}
	if refresh != "" {
		// This configuration lets the grant be replaced; the library's other
		// one cannot send parameters or scopes along with a refresh token.
		config.EndpointParams.Set("grant_type", "refresh_token")
		config.EndpointParams.Set("refresh_token", refresh)
	}
	ex := &tokenExchange{transport: r.transport, limit: maxTokenResponse}
	if r.limit > 0 {
		ex.limit = min(r.limit, maxTokenResponse)
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: ex, CheckRedirect: noRedirects})
	asked := time.Now()
	token, err := config.Token(ctx)
	if err != nil {
		return grantedToken{after: ex.after}, r.judge(ex, err)
	}
	if refusal := unusable(token); refusal.reason != "" {
		e := authRequired(run.Provider, r.endpoint, refusal)
		e.HTTPStatus = ex.status
		return grantedToken{}, e
	}
	granted := grantedToken{access: accessToken{value: token.AccessToken, obtained: asked.Round(0), expires: token.Expiry.Round(0)}}
	if token.RefreshToken != refresh {
		granted.refresh.value = token.RefreshToken
	}
	return granted, nil
}

// unusable says why a token cannot be sent; empty: it can.
func unusable(token *oauth2.Token) refusal {
	if token.TokenType != "" && !strings.EqualFold(token.TokenType, "Bearer") {
		return refusal{"unsupported_token_type", "The token endpoint issued a token whose type is not Bearer.", checkTokenURL}
	}
	illegal := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(token.AccessToken) > maxAccessToken || strings.ContainsFunc(token.AccessToken, illegal) {
		return refusal{"unusable_token", "The token endpoint issued a token that can't be sent in a header.", checkTokenURL}
	}
	return refusal{}
}

// judge makes the error of a token request that failed. Of the response it repeats the
// status and a well-formed error code only; the error of the library contains the whole
// body.
func (r tokenRequest) judge(ex *tokenExchange, err error) *run.Failure {
	switch {
	case ex.status == 0:
		return r.unreachable(ex)
	case mayAskToWait(ex.status):
		return r.unreachable(ex)
	case ex.status < 300 && ex.err != nil && !ex.tooLarge():
		return r.unreachable(ex)
	}
	e := authRequired(run.Provider, r.endpoint, r.refusal(ex, err))
	e.HTTPStatus = ex.status
	return e
}

// mayAskToWait reports whether Retry-After is obeyed: with a status that says that the
// token endpoint is overloaded or fails.
func mayAskToWait(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// refusal says why there is no token: for programs, for people, and what the operator can
// do for the provider.
type refusal struct{ reason, message, advice string }

// What the operator can do.
const (
	configureTokenURL = "configure token_url"
	checkTokenURL     = "check token_url" //nolint:gosec // advice, not a credential
	checkClient       = "check client_id, client_secret and scopes"
)

// refusal describes a response without a token.
func (r tokenRequest) refusal(ex *tokenExchange, err error) refusal {
	code := r.errorCode(err)
	switch {
	case code != "":
		return r.refusalOf(code)
	case ex.status >= 400:
		return refusal{"refused", fmt.Sprintf("The token endpoint refused to issue a token to the bridge (HTTP status %d).", ex.status), checkClient}
	case ex.status >= 300:
		return refusal{"redirect", "The token endpoint answered with a redirect, which is not followed.", checkTokenURL}
	case ex.tooLarge():
		return refusal{"invalid_response", "The token endpoint's answer is too large.", checkTokenURL}
	}
	return refusal{"invalid_response", "The token endpoint's answer is not a token response.", checkTokenURL}
}

// refusalOf describes an error code (RFC 6749, section 5.2).
func (r tokenRequest) refusalOf(code string) refusal {
	switch {
	case code == "invalid_client":
		return refusal{code, "The token endpoint refused the bridge's client credentials (invalid_client).", checkClient}
	case code == "invalid_grant" && r.client.refreshToken != "":
		return refusal{code, "The token endpoint refused the bridge's refresh token (invalid_grant).", "configure a new refresh_token"}
	case code == "invalid_scope":
		return refusal{code, "The token endpoint refused the scopes that the bridge asks for (invalid_scope).", "check scopes"}
	}
	return refusal{code, fmt.Sprintf("The token endpoint refused to issue a token to the bridge (%s).", code), checkClient}
}

// errorCode is the error code of a token endpoint (RFC 6749, section 5.2),
// provided that it looks like one and repeats no secret.
func (r tokenRequest) errorCode(err error) string {
	retrieve, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || !errorCodeSyntax.MatchString(retrieve.ErrorCode) {
		return ""
	}
	if credential.Scrub(retrieve.ErrorCode, r.credentials) != retrieve.ErrorCode {
		return ""
	}
	return retrieve.ErrorCode
}

var errorCodeSyntax = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// unreachable is the error of a token endpoint that did not answer, or failed.
func (r tokenRequest) unreachable(ex *tokenExchange) *run.Failure {
	retry := run.RetryIn(2*time.Second, 3)
	if ex.after > 0 {
		retry = askLater(min(ex.after, longestWait))
	}
	e := &run.Failure{
		Kind:       run.Unreachable,
		Phase:      run.PhaseAuth,
		By:         run.Bridge,
		HTTPStatus: ex.status,
		Executed:   run.ExecutedNo,
		Retry:      retry,
		URL:        redactURL(r.endpoint),
		Cause:      ex.err,
	}
	reason := "connection_failed"
	switch {
	case ex.status >= 300:
		e.By = run.Provider
		reason = fmt.Sprintf("http_%d", ex.status)
		e.Message = fmt.Sprintf("The token endpoint answered with HTTP status %d.", ex.status)
	case timedOut(ex.err):
		reason = "timeout"
		e.Message = "The token endpoint did not answer in time."
	default:
		e.Message = "The token endpoint could not be reached."
	}
	if r, refused := errors.AsType[interface {
		error
		Refused() string
	}](ex.err); refused { // what the bridge itself forbids will not change by waiting
		reason, e.Refused, e.Retry = r.Refused(), exchange.RuleOf(ex.err), nil
	}
	e.Reach = &run.Reach{URL: redactURL(r.endpoint), Reason: reason}
	if own, ok := errors.AsType[*run.Failure](ex.err); ok {
		e.Kind, e.Message, e.Advice, e.Refused, e.Retry, e.Cause = own.Kind, own.Message, own.Advice, own.Refused, own.Retry, own.Cause
	}
	// net/http quotes answers that it cannot read, and a peer may answer with a secret.
	if cause := e.Cause; cause != nil {
		if text := credential.Scrub(cause.Error(), r.credentials); text != cause.Error() {
			e.Cause = errors.New(text)
		}
	}
	return e
}

// askLater suggests to try again once, not before a delay.
func askLater(delay time.Duration) *run.Retry {
	return run.RetryIn(max(delay, time.Millisecond), 1)
}

// rejectedAgain is the error of a token that a provider has rejected shortly after it
// rejected the previous one: it is not replaced so soon.
func rejectedAgain(tokenURL string, early time.Duration) *run.Failure {
	e := authRequired(run.Provider, tokenURL, refusal{"token_rejected", fmt.Sprintf(
		"The provider refuses all access tokens that its token endpoint issues; the bridge fetches the next one in %s at the earliest.",
		early.Round(time.Second)), checkClient})
	e.HTTPStatus = http.StatusUnauthorized
	e.Retry = askLater(early)
	return e
}

func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

// authRequired is the error of a token that can't be obtained, found by a party.
func authRequired(by run.Party, tokenURL string, r refusal) *run.Failure {
	return &run.Failure{
		Kind:     run.AuthRequired,
		Message:  r.message,
		Advice:   "Ask the operator of the bridge to " + r.advice + " for this provider.",
		Phase:    run.PhaseAuth,
		By:       by,
		Executed: run.ExecutedNo,
		URL:      redactURL(tokenURL),
		Demand: &run.Demand{
			By:       by,
			Type:     string(document.AuthOAuth2),
			TokenURL: redactURL(tokenURL),
			Reason:   r.reason,
		},
	}
}

// tokenExchange sends one token request and records the result, which the library's errors
// do not contain.
type tokenExchange struct {
	transport http.RoundTripper
	limit     int64         // bytes
	status    int           // 0: no answer
	err       error         // of the transport, or of reading the answer
	after     time.Duration // for which it must not be asked again
}

// RoundTrip implements [http.RoundTripper].
func (e *tokenExchange) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept", "application/json")
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		e.err = err
		return nil, err
	}
	e.status = resp.StatusCode
	if mayAskToWait(e.status) {
		e.after = exchange.RetryAfter(resp.Header)
	}
	if resp.StatusCode < http.StatusOK {
		// After 101, the body would be the connection itself, which only the peer ends.
		_ = resp.Body.Close() // its content is not needed
		resp.Body = http.NoBody
		return resp, nil
	}
	resp.Body = e.watch(req.Context(), http.MaxBytesReader(nil, resp.Body, e.limit))
	return resp, nil
}

// tooLarge reports whether the response exceeded the limit.
func (e *tokenExchange) tooLarge() bool {
	_, ok := errors.AsType[*http.MaxBytesError](e.err)
	return ok
}

// watch closes a body when ctx ends, which ends a read in progress.
func (e *tokenExchange) watch(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	stop := context.AfterFunc(ctx, func() {
		_ = body.Close() // the error says nothing about the read
	})
	return &watchedBody{ReadCloser: body, ctx: ctx, unwatch: stop, err: &e.err}
}

// watchedBody records why a body could not be read.
type watchedBody struct {
	io.ReadCloser
	ctx     context.Context // of the exchange
	unwatch func() bool
	err     *error
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if ended := b.ctx.Err(); ended != nil {
		err = ended // the closing has changed the error
	}
	*b.err = err
	return n, err
}

func (b *watchedBody) Close() error {
	b.unwatch()
	return b.ReadCloser.Close()
}
