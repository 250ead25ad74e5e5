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
	// maxTokenResponse is the maximum size of a token response, in bytes.
	maxTokenResponse = 1 << 20
	// maxAccessToken is the maximum size of an access token, in bytes. It is sent in a header.
	maxAccessToken = 32 << 10
)

// tokenRequest has the parameters of a token request.
type tokenRequest struct {
	client      *client
	endpoint    string
	transport   http.RoundTripper
	limit       int64   // size of the answer in bytes; 0: the default
	credentials *OAuth2 // its secrets are removed from errors
}

// do sends a token request: of the client credentials grant (RFC 6749, section 4.4.2), or with a
// refresh token (section 6).
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
		// clientcredentials lets a parameter replace the grant. The library's
		// oauth2.Config can't send parameters or scopes with a refresh token.
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
		return grantedToken{after: ex.after}, r.failure(ex, err)
	}
	if refusal := checkToken(token); refusal.reason != "" {
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

// checkToken returns why a token can't be sent as a bearer token; empty: it can.
func checkToken(token *oauth2.Token) refusal {
	if token.TokenType != "" && !strings.EqualFold(token.TokenType, "Bearer") {
		return refusal{"unsupported_token_type", "The token endpoint issued a token whose type is not Bearer.", checkTokenURL}
	}
	illegal := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(token.AccessToken) > maxAccessToken || strings.ContainsFunc(token.AccessToken, illegal) {
		return refusal{"unusable_token", "The token endpoint issued a token that can't be sent in a header.", checkTokenURL}
	}
	return refusal{}
}

// failure returns the error of a failed token request. It contains only the status and a well-formed
// error code of the response; the error of the library contains the whole body.
func (r tokenRequest) failure(ex *tokenExchange, err error) *run.Failure {
	switch {
	case ex.status == 0, isTemporary(ex.status), ex.status < 300 && ex.err != nil && !ex.tooLarge():
		return r.unreachable(ex)
	}
	e := authRequired(run.Provider, r.endpoint, r.refusal(ex, err))
	e.HTTPStatus = ex.status
	return e
}

// isTemporary reports whether a status means that the token endpoint is overloaded or broken. Only
// with such a status is Retry-After obeyed.
func isTemporary(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// refusal is the reason why there is no token, as a code and a message, with advice for the operator.
type refusal struct{ reason, message, advice string }

// The advice of refusals.
const (
	configureTokenURL = "configure token_url"
	checkTokenURL     = "check token_url" //nolint:gosec // advice, not a credential
	checkClient       = "check client_id, client_secret and scopes"
)

// refusal returns the refusal of a response without a token.
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

// refusalOf returns the refusal of an error code (RFC 6749, section 5.2).
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

// errorCode returns the error code of a token response (RFC 6749, section 5.2); empty if it is not
// well-formed or contains a secret.
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

// unreachable returns the error of a token endpoint that did not answer, or answered with a
// temporary error.
func (r tokenRequest) unreachable(ex *tokenExchange) *run.Failure {
	retry := run.RetryIn(2*time.Second, 3)
	if ex.after > 0 {
		retry = retryOnceAfter(min(ex.after, maxRetryAfter))
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
	if ex.err != nil {
		if why, rule := exchange.ReasonOf(ex.err); rule != "" { // so a retry would fail, too
			reason, e.Refused, e.Retry = why, rule, nil
		}
	}
	e.Reach = &run.Reach{URL: redactURL(r.endpoint), Reason: reason}
	if own, ok := errors.AsType[*run.Failure](ex.err); ok {
		e.Kind, e.Message, e.Advice, e.Refused, e.Retry, e.Cause = own.Kind, own.Message, own.Advice, own.Refused, own.Retry, own.Cause
	}
	// Errors of net/http quote invalid answers, and an answer may contain a secret.
	if cause := e.Cause; cause != nil {
		if text := credential.Scrub(cause.Error(), r.credentials); text != cause.Error() {
			e.Cause = errors.New(text)
		}
	}
	return e
}

// retryOnceAfter returns the advice to try again once after a delay.
func retryOnceAfter(delay time.Duration) *run.Retry {
	return run.RetryIn(max(delay, time.Millisecond), 1)
}

// rejectedAgain returns the error of a token that was rejected so soon after the previous one that
// it is not replaced yet.
func rejectedAgain(tokenURL string, early time.Duration) *run.Failure {
	e := authRequired(run.Provider, tokenURL, refusal{"token_rejected", fmt.Sprintf(
		"The provider refuses all access tokens that its token endpoint issues; the bridge fetches the next one in %s at the earliest.",
		early.Round(time.Second)), checkClient})
	e.HTTPStatus = http.StatusUnauthorized
	e.Retry = retryOnceAfter(early)
	return e
}

func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

// authRequired returns the error of a token that can't be obtained.
func authRequired(by run.Party, tokenURL string, r refusal) *run.Failure {
	return &run.Failure{
		Kind:     run.AuthRequired,
		Message:  r.message,
		Advice:   run.AskOperator + " to " + r.advice + " for this provider.",
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

// tokenExchange sends one token request and records its result, because the library's errors do not
// contain it.
type tokenExchange struct {
	transport http.RoundTripper
	limit     int64         // bytes
	status    int           // 0: no answer
	err       error         // of the transport, or of reading the answer
	after     time.Duration // Retry-After; 0: none
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
	if isTemporary(e.status) {
		e.after = exchange.RetryAfter(resp.Header)
	}
	if resp.StatusCode < http.StatusOK {
		// After 101, the body is the connection, which may never end.
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

// watch returns a body that is closed when ctx ends, so that a blocked Read returns.
func (e *tokenExchange) watch(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	stop := context.AfterFunc(ctx, func() {
		_ = body.Close() // only to end Read
	})
	return &watchedBody{ReadCloser: body, ctx: ctx, unwatch: stop, err: &e.err}
}

// watchedBody records the error of reading a body.
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
		err = ended // instead of the error of a closed body
	}
	*b.err = err
	return n, err
}

func (b *watchedBody) Close() error {
	b.unwatch()
	return b.ReadCloser.Close()
}
