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
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

const (
	// maxTokenResponse bounds the answer of a token endpoint, in bytes.
	maxTokenResponse = 1 << 20
	// maxAccessToken bounds an access token, in bytes: a header has to hold it.
	maxAccessToken = 32 << 10
)

// tokenRequest is what a request to a token endpoint is made of.
type tokenRequest struct {
	client    *client
	endpoint  string
	transport http.RoundTripper
	limit     int64 // bytes to read of the answer
	secrets   func() []string
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
	ex := &exchange{transport: r.transport, limit: maxTokenResponse}
	if r.limit > 0 {
		ex.limit = min(r.limit, maxTokenResponse)
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: ex, CheckRedirect: noRedirects})
	asked := time.Now()
	token, err := config.Token(ctx)
	if err != nil {
		return grantedToken{after: ex.after}, r.judge(ex, err)
	}
	if reason, message := unusable(token); reason != "" {
		e := authRequired(run.Provider, r.endpoint, reason, message)
		e.HTTPStatus = ex.status
		return grantedToken{}, e
	}
	granted := grantedToken{access: accessToken{value: token.AccessToken, obtained: asked.Round(0), expires: token.Expiry.Round(0)}}
	if token.RefreshToken != refresh {
		granted.refresh.value = token.RefreshToken
	}
	return granted, nil
}

// unusable tells why a token cannot be sent, if so.
func unusable(token *oauth2.Token) (reason, message string) {
	if token.TokenType != "" && !strings.EqualFold(token.TokenType, "Bearer") {
		return "unsupported_token_type", "The token endpoint issued a token of another type than Bearer. " + askToCheckTokenURL
	}
	illegal := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(token.AccessToken) > maxAccessToken || strings.ContainsFunc(token.AccessToken, illegal) {
		return "unusable_token", "The token endpoint issued a token that fits in no header. " + askToCheckTokenURL
	}
	return "", ""
}

// judge makes the error of a token request that failed. Of what was answered it
// repeats the status and a well-formed error code, nothing else; the error of
// the library contains the whole body.
func (r tokenRequest) judge(ex *exchange, err error) *run.Failure {
	switch {
	case ex.status == 0:
		return r.unreachable(ex)
	case mayAskToWait(ex.status):
		return r.unreachable(ex)
	case ex.status < 300 && ex.err != nil && !ex.tooLarge():
		return r.unreachable(ex)
	}
	reason, message := r.refusal(ex, err)
	e := authRequired(run.Provider, r.endpoint, reason, message)
	e.HTTPStatus = ex.status
	return e
}

// mayAskToWait tells of which answers Retry-After is obeyed: those that say that the
// token endpoint is in trouble.
func mayAskToWait(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// What the operator can do about an answer that is no token.
const (
	askToCheckClient   = "Ask the operator of the bridge to check client_id, client_secret and scopes for this provider."
	askToCheckTokenURL = "Ask the operator of the bridge to check token_url for this provider."
)

// refusal words an answer that is no token.
func (r tokenRequest) refusal(ex *exchange, err error) (reason, message string) {
	if code := r.errorCode(err); code != "" {
		return code, r.refusalOf(code)
	}
	switch {
	case ex.status >= 400:
		return "refused", fmt.Sprintf("The token endpoint refused to issue a token to the bridge (HTTP status %d). %s", ex.status, askToCheckClient)
	case ex.status >= 300:
		return "redirect", "The token endpoint answered with a redirect, which is not followed. " + askToCheckTokenURL
	case ex.tooLarge():
		return "invalid_response", "The token endpoint's answer is too large. " + askToCheckTokenURL
	}
	return "invalid_response", "The token endpoint's answer is no token response. " + askToCheckTokenURL
}

// refusalOf words an error code (RFC 6749, section 5.2).
func (r tokenRequest) refusalOf(code string) string {
	switch {
	case code == "invalid_client":
		return "The token endpoint refused the bridge's client credentials (invalid_client). " + askToCheckClient
	case code == "invalid_grant" && r.client.refreshToken != "":
		return "The token endpoint refused the bridge's refresh token (invalid_grant). " +
			"Ask the operator of the bridge to configure a new refresh_token for this provider."
	case code == "invalid_scope":
		return "The token endpoint refused the scopes that the bridge asks for (invalid_scope). " +
			"Ask the operator of the bridge to check scopes for this provider."
	}
	return fmt.Sprintf("The token endpoint refused to issue a token to the bridge (%s). %s", code, askToCheckClient)
}

// errorCode is the error code of a token endpoint (RFC 6749, section 5.2),
// provided that it looks like one and repeats no secret.
func (r tokenRequest) errorCode(err error) string {
	retrieve, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || !errorCodeSyntax.MatchString(retrieve.ErrorCode) {
		return ""
	}
	if slices.ContainsFunc(r.secrets(), func(secret string) bool { return strings.Contains(retrieve.ErrorCode, secret) }) {
		return ""
	}
	return retrieve.ErrorCode
}

var errorCodeSyntax = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// unreachable is the error for a token endpoint that did not answer, or is in trouble.
func (r tokenRequest) unreachable(ex *exchange) *run.Failure {
	retry := run.Again(2*time.Second, 3)
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
		reason, e.Refused, e.Retry = r.Refused(), skillsharing.RuleOf(ex.err), nil
	}
	e.Reach = &run.Reach{URL: redactURL(r.endpoint), Reason: reason}
	if own, ok := errors.AsType[*run.Failure](ex.err); ok {
		e.Kind, e.Message, e.Refused, e.Retry, e.Cause = own.Kind, own.Message, own.Refused, own.Retry, own.Cause
	}
	e.Cause = scrubbed(e.Cause, r.secrets())
	return e
}

// askLater suggests to try again once, not before a delay.
func askLater(delay time.Duration) *run.Retry {
	return run.Again(max(delay, time.Millisecond), 1)
}

// rejectedAgain is the error of a token that a provider has rejected shortly after the
// one before, and that is not replaced so soon.
func rejectedAgain(tokenURL string, early time.Duration) *run.Failure {
	e := authRequired(run.Provider, tokenURL, "token_rejected", fmt.Sprintf(
		"The provider refuses the access tokens that its token endpoint issues, the newest too; the next one is fetched in %s at the earliest. ",
		early.Round(time.Second))+askToCheckClient)
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

// authRequired is the error for a token that is not to be had, by whose finding.
// Message is for people and reason for programs.
func authRequired(by run.Party, tokenURL, reason, message string) *run.Failure {
	return &run.Failure{
		Kind:     run.AuthRequired,
		Message:  message,
		Phase:    run.PhaseAuth,
		By:       by,
		Executed: run.ExecutedNo,
		URL:      redactURL(tokenURL),
		Demand: &run.Demand{
			By:       by,
			Type:     string(skillsharing.AuthOAuth2),
			TokenURL: redactURL(tokenURL),
			Reason:   reason,
		},
	}
}

// exchange carries one token request and remembers how it went: the library's
// errors do not tell.
type exchange struct {
	transport http.RoundTripper
	limit     int64         // bytes
	status    int           // 0: no answer
	err       error         // of the transport, or of reading the answer
	after     time.Duration // for which it must not be asked again
}

// RoundTrip implements [http.RoundTripper].
func (e *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept", "application/json")
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		e.err = err
		return nil, err
	}
	e.status = resp.StatusCode
	if mayAskToWait(e.status) {
		e.after = skillsharing.RetryAfter(resp.Header)
	}
	if resp.StatusCode < http.StatusOK {
		// After 101, the body would be the connection itself, which ends with
		// nothing but the peer's consent.
		_ = resp.Body.Close() // nothing was asked for that it could hold
		resp.Body = http.NoBody
		return resp, nil
	}
	resp.Body = e.watch(req.Context(), http.MaxBytesReader(nil, resp.Body, e.limit))
	return resp, nil
}

// tooLarge tells whether the answer exceeded the limit.
func (e *exchange) tooLarge() bool {
	_, ok := errors.AsType[*http.MaxBytesError](e.err)
	return ok
}

// watch closes a body when ctx ends, so that no read of it can outlive that.
func (e *exchange) watch(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	stop := context.AfterFunc(ctx, func() {
		_ = body.Close() // for its effect on a read that is under way
	})
	return &watchedBody{ReadCloser: body, ctx: ctx, unwatch: stop, err: &e.err}
}

// watchedBody notes why a body could not be read.
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
		err = ended // whatever the closing made of it
	}
	*b.err = err
	return n, err
}

func (b *watchedBody) Close() error {
	b.unwatch()
	return b.ReadCloser.Close()
}
