package credentials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokenendpoint"
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
	ex := &tokenendpoint.Exchange{Transport: r.transport, Limit: maxTokenResponse}
	if r.limit > 0 {
		ex.Limit = min(r.limit, maxTokenResponse)
	}
	var basic *tokenendpoint.Basic
	if !r.client.inBody {
		basic = &tokenendpoint.Basic{ID: r.client.id, Secret: r.client.secret}
	}
	asked := time.Now()
	answer := ex.Send(ctx, r.endpoint, basic, r.form(refresh))
	if answer.AccessToken == "" || answer.ErrorCode != "" || ex.Status < 200 || ex.Status >= 300 || ex.Err != nil {
		return grantedToken{after: ex.After}, r.failure(ex, answer)
	}
	if refusal := r.checkToken(answer); refusal.reason != "" {
		e := authRequired(run.Provider, r.endpoint, refusal)
		e.HTTPStatus = ex.Status
		return grantedToken{}, e
	}
	granted := grantedToken{access: accessToken{value: answer.AccessToken, obtained: asked.Round(0)}}
	if answer.Lifetime > 0 {
		granted.access.expires = asked.Add(answer.Lifetime).Round(0)
	}
	if answer.RefreshToken != refresh {
		granted.refresh.value = answer.RefreshToken
	}
	return granted, nil
}

// form returns the body of the request.
func (r tokenRequest) form(refresh string) url.Values {
	form := maps.Clone(r.client.params)
	form.Set("grant_type", "client_credentials")
	if refresh != "" {
		form.Set("grant_type", "refresh_token")
		form.Set("refresh_token", refresh)
	}
	if len(r.client.scopes) > 0 {
		form.Set("scope", strings.Join(r.client.scopes, " "))
	}
	if r.client.inBody {
		form.Set("client_id", r.client.id)
		if r.client.secret != "" {
			form.Set("client_secret", r.client.secret)
		}
	}
	return form
}

// checkToken returns why a token can't be sent as a bearer token; empty: it can.
func (r tokenRequest) checkToken(answer tokenendpoint.Answer) refusal {
	if kind := strings.TrimSpace(answer.TokenType); kind != "" && !strings.EqualFold(kind, "Bearer") {
		named := ""
		if tokenTypeSyntax.MatchString(kind) && credential.Scrub(kind, r.credentials) == kind {
			named = " but " + kind
		}
		return refusal{"unsupported_token_type", "The token endpoint issued a token whose type is not Bearer" + named + ".", checkTokenURL}
	}
	illegal := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(answer.AccessToken) > maxAccessToken || strings.ContainsFunc(answer.AccessToken, illegal) {
		return refusal{"unusable_token", "The token endpoint issued a token that can't be sent in a header.", checkTokenURL}
	}
	return refusal{}
}

// tokenTypeSyntax matches the names of token types (RFC 6749, section 8.1) that a message may contain, so no URIs.
var tokenTypeSyntax = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

// failure returns the error of a failed token request. It contains only the status and a well-formed
// error code of the response.
func (r tokenRequest) failure(ex *tokenendpoint.Exchange, answer tokenendpoint.Answer) *run.Failure {
	switch {
	case ex.Status == 0, tokenendpoint.IsTemporary(ex.Status), ex.Status < 300 && ex.Err != nil && !ex.TooLarge():
		return r.unreachable(ex)
	}
	e := authRequired(run.Provider, r.endpoint, r.refusal(ex, answer))
	e.HTTPStatus = ex.Status
	return e
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
func (r tokenRequest) refusal(ex *tokenendpoint.Exchange, answer tokenendpoint.Answer) refusal {
	code := r.errorCode(answer)
	switch {
	case code != "":
		return r.refusalOf(code)
	case ex.Status >= 400:
		advice := checkClient
		if ex.Status == http.StatusUnauthorized {
			advice = r.checkAuthentication()
		}
		return refusal{"refused", fmt.Sprintf("The token endpoint refused to issue a token to the bridge (HTTP status %d).", ex.Status), advice}
	case ex.Status >= 300:
		return refusal{"redirect", "The token endpoint answered with a redirect, which is not followed.", checkTokenURL}
	case ex.TooLarge():
		return refusal{"invalid_response", "The token endpoint's answer is too large.", checkTokenURL}
	}
	return refusal{"invalid_response", "The token endpoint's answer is not a token response.", checkTokenURL}
}

// refusalOf returns the refusal of an error code (RFC 6749, section 5.2).
func (r tokenRequest) refusalOf(code string) refusal {
	switch {
	case code == "invalid_client":
		return refusal{code, "The token endpoint refused the bridge's client credentials (invalid_client).", r.checkAuthentication()}
	case code == "invalid_grant" && r.client.refreshToken != "":
		return refusal{code, "The token endpoint refused the bridge's refresh token (invalid_grant).", "configure a new refresh_token"}
	case code == "invalid_scope":
		return refusal{code, "The token endpoint refused the scopes that the bridge asks for (invalid_scope).", "check scopes"}
	}
	return refusal{code, fmt.Sprintf("The token endpoint refused to issue a token to the bridge (%s).", code), checkClient}
}

// checkAuthentication is the advice if the client could not authenticate: many endpoints accept only one of the two ways.
func (r tokenRequest) checkAuthentication() string {
	switch {
	case r.client.secret == "":
		return checkClient
	case r.client.inBody:
		return "check client_id and client_secret, and try auth_style header,"
	}
	return "check client_id and client_secret, and try auth_style params,"
}

// errorCode returns the error code of a token response (RFC 6749, section 5.2); empty if it is not
// well-formed or contains a secret.
func (r tokenRequest) errorCode(answer tokenendpoint.Answer) string {
	if !errorCodeSyntax.MatchString(answer.ErrorCode) || credential.Scrub(answer.ErrorCode, r.credentials) != answer.ErrorCode {
		return ""
	}
	return answer.ErrorCode
}

var errorCodeSyntax = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// unreachable returns the error of a token endpoint that did not answer, or answered with a
// temporary error.
func (r tokenRequest) unreachable(ex *tokenendpoint.Exchange) *run.Failure {
	retry := run.RetryIn(2*time.Second, 3)
	if ex.After > 0 {
		retry = retryOnceAfter(min(ex.After, maxRetryAfter))
	}
	e := &run.Failure{
		Kind:       run.Unreachable,
		Phase:      run.PhaseAuth,
		By:         run.Bridge,
		HTTPStatus: ex.Status,
		Executed:   run.ExecutedNo,
		Retry:      retry,
		URL:        redactURL(r.endpoint),
		Cause:      ex.Err,
	}
	reason := "connection_failed"
	switch {
	case ex.Status >= 300:
		e.By = run.Provider
		reason = fmt.Sprintf("http_%d", ex.Status)
		e.Message = fmt.Sprintf("The token endpoint answered with HTTP status %d.", ex.Status)
	case timedOut(ex.Err):
		reason = "timeout"
		e.Message = "The token endpoint did not answer in time."
	default:
		e.Message = "The token endpoint could not be reached."
	}
	if ex.Err != nil {
		if why, rule := exchange.ReasonOf(ex.Err); rule != "" { // so a retry would fail, too
			reason, e.Refused, e.Retry = why, rule, nil
		}
	}
	e.Reach = &run.Reach{URL: redactURL(r.endpoint), Reason: reason}
	if ex.Err != nil {
		e.Reach.ForOperator = "The token endpoint could not be reached: " + exchange.ExactReason(ex.Err) + "."
	}
	if own, ok := errors.AsType[*run.Failure](ex.Err); ok {
		e.Kind, e.Message, e.Advice, e.Refused, e.Retry, e.Cause = own.Kind, own.Message, own.Advice, own.Refused, own.Retry, own.Cause
		e.Reach.ForOperator = ""
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
