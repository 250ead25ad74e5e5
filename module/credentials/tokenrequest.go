package credentials

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	limit       int64                  // size of the answer in bytes; 0: the default
	scopes      []string               // asked for; none: the endpoint decides
	credentials credential.Credentials // its secrets are removed from errors
}

// clientCredentials returns the parameters of the client credentials grant (RFC 6749, section 4.4.2).
func clientCredentials() url.Values { return url.Values{"grant_type": {"client_credentials"}} }

// refreshing returns the parameters of a request with a refresh token (section 6).
func refreshing(token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
}

// do sends a token request with the parameters of a grant.
func (r tokenRequest) do(ctx context.Context, grant url.Values) (grantedToken, *run.Failure) {
	asked := time.Now()
	answer := r.send(ctx, grant)
	if answer.accessToken == "" || answer.errorCode != "" || answer.status < 200 || answer.status >= 300 || answer.err != nil {
		return grantedToken{after: answer.after}, r.failure(answer)
	}
	if refusal := r.checkToken(answer); refusal.reason != "" {
		e := authRequired(run.Provider, r.endpoint, refusal)
		e.HTTPStatus = answer.status
		return grantedToken{}, e
	}
	granted := grantedToken{access: accessToken{value: answer.accessToken, obtained: asked.Round(0)}, scopes: strings.Fields(answer.scope)}
	if answer.lifetime > 0 {
		granted.access.expires = asked.Add(answer.lifetime).Round(0)
	}
	if answer.refreshToken != grant.Get("refresh_token") {
		granted.refresh.value = answer.refreshToken
	}
	return granted, nil
}

// send sends the request and reads the answer. It follows no redirect, which could send the secret to another address.
func (r tokenRequest) send(ctx context.Context, grant url.Values) (answer tokenAnswer) {
	resp, err := r.post(ctx, r.endpoint, grant)
	if err != nil {
		return tokenAnswer{err: err}
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusOK { // after 101, the body is the connection, which may never end
		limit := int64(maxTokenResponse)
		if r.limit > 0 {
			limit = min(limit, r.limit)
		}
		defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })() // so that a blocked Read returns
		text, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, limit))
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // instead of the error of a closed body
		}
		answer = parseToken(text)
		answer.err = err
	}
	answer.status = resp.StatusCode
	if answer.isTemporary() {
		answer.after = exchange.RetryAfter(resp.Header)
	}
	return answer
}

// post sends parameters with the authentication of the client (RFC 6749, section 2.3.1).
func (r tokenRequest) post(ctx context.Context, address string, grant url.Values) (*http.Response, error) {
	form := maps.Clone(r.client.params)
	maps.Copy(form, grant)
	if len(r.scopes) > 0 {
		form.Set("scope", strings.Join(r.scopes, " "))
	}
	if r.client.inBody {
		form.Set("client_id", r.client.id)
		if r.client.secret != "" {
			form.Set("client_secret", r.client.secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if !r.client.inBody {
		req.SetBasicAuth(url.QueryEscape(r.client.id), url.QueryEscape(r.client.secret))
	}
	return r.transport.RoundTrip(req)
}

// checkToken returns why a token can't be sent as a bearer token; empty: it can.
func (r tokenRequest) checkToken(answer tokenAnswer) refusal {
	if kind := strings.TrimSpace(answer.tokenType); kind != "" && !strings.EqualFold(kind, "Bearer") {
		named := ""
		if tokenTypeSyntax.MatchString(kind) && credential.Scrub(kind, r.credentials) == kind {
			named = " but " + kind
		}
		return refusal{"unsupported_token_type", "The token endpoint issued a token whose type is not Bearer" + named + ".", checkTokenURL}
	}
	illegal := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(answer.accessToken) > maxAccessToken || strings.ContainsFunc(answer.accessToken, illegal) {
		return refusal{"unusable_token", "The token endpoint issued a token that can't be sent in a header.", checkTokenURL}
	}
	return refusal{}
}

// tokenTypeSyntax matches the names of token types (RFC 6749, section 8.1) that a message may contain, so no URIs.
var tokenTypeSyntax = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

// failure returns the error of a failed token request. It contains only the status and a well-formed
// error code of the response.
func (r tokenRequest) failure(answer tokenAnswer) *run.Failure {
	switch {
	case answer.status == 0, answer.isTemporary(), answer.status < 300 && answer.err != nil && !answer.tooLarge():
		return r.unreachable(answer)
	}
	e := authRequired(run.Provider, r.endpoint, r.refusal(answer))
	e.HTTPStatus = answer.status
	return e
}

// refusal is the reason why there is no token, as a code and a message, with advice for the operator.
type refusal struct{ reason, message, advice string }

// The advice of refusals.
const (
	checkTokenURL = "check token_url" //nolint:gosec // advice, not a credential
	checkClient   = "check client_id, client_secret and scopes"
)

// refusal returns the refusal of a response without a token.
func (r tokenRequest) refusal(answer tokenAnswer) refusal {
	code := r.errorCode(answer)
	switch {
	case code != "":
		return r.refusalOf(code)
	case answer.status >= 400:
		advice := checkClient
		if answer.status == http.StatusUnauthorized {
			advice = r.checkAuthentication()
		}
		return refusal{"refused", fmt.Sprintf("The token endpoint refused to issue a token to the bridge (HTTP status %d).", answer.status), advice}
	case answer.status >= 300:
		return refusal{"redirect", "The token endpoint answered with a redirect, which is not followed.", checkTokenURL}
	case answer.tooLarge():
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
func (r tokenRequest) errorCode(answer tokenAnswer) string {
	if !errorCodeSyntax.MatchString(answer.errorCode) || credential.Scrub(answer.errorCode, r.credentials) != answer.errorCode {
		return ""
	}
	return answer.errorCode
}

var errorCodeSyntax = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// unreachable returns the error of a token endpoint that did not answer, or answered with a
// temporary error.
func (r tokenRequest) unreachable(answer tokenAnswer) *run.Failure {
	retry := run.RetryIn(2*time.Second, 3)
	if answer.after > 0 {
		retry = retryOnceAfter(min(answer.after, maxRetryAfter))
	}
	e := failed(run.Unreachable, run.Bridge, "")
	e.HTTPStatus, e.Retry, e.URL, e.Cause = answer.status, retry, redactURL(r.endpoint), answer.err
	reason := "connection_failed"
	switch {
	case answer.status >= 300:
		e.By = run.Provider
		reason = fmt.Sprintf("http_%d", answer.status)
		e.Message = fmt.Sprintf("The token endpoint answered with HTTP status %d.", answer.status)
	case timedOut(answer.err):
		reason = "timeout"
		e.Message = "The token endpoint did not answer in time."
	default:
		e.Message = "The token endpoint could not be reached."
	}
	if answer.err != nil {
		if why, rule := exchange.ReasonOf(answer.err); rule != "" { // so a retry would fail, too
			reason, e.Refused, e.Retry = why, rule, nil
		}
	}
	e.Reach = &run.Reach{URL: redactURL(r.endpoint), Reason: reason}
	if answer.err != nil {
		e.Reach.ForOperator = "The token endpoint could not be reached: " + exchange.ExactReason(answer.err) + "."
	}
	if own, ok := errors.AsType[*run.Failure](answer.err); ok {
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

// failed returns a failure of getting a credential.
func failed(kind run.Kind, by run.Party, message string) *run.Failure {
	return &run.Failure{Kind: kind, Message: message, Phase: run.PhaseAuth, By: by, Executed: run.ExecutedNo}
}

// authRequired returns the error of a token that can't be obtained.
func authRequired(by run.Party, tokenURL string, r refusal) *run.Failure {
	e := failed(run.AuthRequired, by, r.message)
	e.Advice, e.URL = run.AskOperator+" to "+r.advice+" for this provider.", redactURL(tokenURL)
	e.Demand = &run.Demand{By: by, Type: string(document.AuthOAuth2), TokenURL: e.URL, Reason: r.reason}
	return e
}

// tokenAnswer is the answer of a token endpoint (RFC 6749, sections 5.1 and 5.2), read as most clients do. A member that is missing, or that no client
// can use as it was sent, is empty: only a missing access token makes an answer useless.
type tokenAnswer struct {
	accessToken, tokenType, refreshToken, scope string
	lifetime                                    time.Duration // 0: not known
	errorCode                                   string

	status int           // 0: no answer
	err    error         // of the transport, or of reading the answer
	after  time.Duration // Retry-After; 0: none
}

// isTemporary reports whether the status means that the token endpoint is overloaded or broken. Only with such a status is Retry-After obeyed.
func (a *tokenAnswer) isTemporary() bool {
	return a.status >= 500 || a.status == http.StatusTooManyRequests || a.status == http.StatusRequestTimeout
}

// tooLarge reports whether the answer exceeded the limit.
func (a *tokenAnswer) tooLarge() bool {
	_, ok := errors.AsType[*http.MaxBytesError](a.err)
	return ok
}

// parseToken reads JSON, whatever the Content-Type says, or a form, as older servers send it.
func parseToken(body []byte) tokenAnswer {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	if bytes.HasPrefix(body, []byte("{")) {
		var members struct {
			AccessToken  jsontext.Value `json:"access_token"`
			TokenType    jsontext.Value `json:"token_type"`
			RefreshToken jsontext.Value `json:"refresh_token"`
			ExpiresIn    jsontext.Value `json:"expires_in"`
			Scope        jsontext.Value `json:"scope"`
			Error        jsontext.Value `json:"error"`
		}
		if json.Unmarshal(body, &members, lenient) != nil {
			return tokenAnswer{}
		}
		text := func(v jsontext.Value) string {
			s, _ := document.Text(v)
			return s
		}
		return tokenAnswer{
			accessToken: text(members.AccessToken), tokenType: text(members.TokenType), refreshToken: text(members.RefreshToken), scope: text(members.Scope),
			errorCode: text(members.Error),
			lifetime:  lifetimeOf(cmp.Or(text(members.ExpiresIn), string(members.ExpiresIn))),
		}
	}
	if bytes.ContainsAny(body, "<>\"{} \t\r\n") { // a page, or other text
		return tokenAnswer{}
	}
	form, _ := url.ParseQuery(string(body)) // what can't be read is left out
	return tokenAnswer{
		accessToken: form.Get("access_token"), tokenType: form.Get("token_type"), refreshToken: form.Get("refresh_token"), scope: form.Get("scope"),
		errorCode: form.Get("error"),
		lifetime:  lifetimeOf(form.Get("expires_in")),
	}
}

// lenient are the options for reading JSON as most clients do.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), json.MatchCaseInsensitiveNames(true))

// lifetimeOf returns the lifetime of a token in seconds; 0: it is not known.
func lifetimeOf(number string) time.Duration {
	seconds, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if math.IsNaN(seconds) || seconds <= 0 || err != nil && !math.IsInf(seconds, 1) {
		return 0
	}
	return time.Duration(min(seconds, math.MaxInt32) * float64(time.Second))
}
