package tokens

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

const (
	// maxTokenResponse is the maximum size of a token response, in bytes.
	maxTokenResponse = 1 << 20
	// maxAccessToken is the maximum size of an access token, in bytes. It is sent in a header. A refresh token has half of it at most, so that both fit into a row.
	maxAccessToken = 32 << 10
)

// Request has the parameters of a token request.
type Request struct {
	Client      *Client
	Endpoint    string
	Transport   http.RoundTripper
	Limit       int64                  // size of the answer in bytes; 0: the default
	Scopes      []string               // asked for; none: the endpoint decides
	Credentials credential.Credentials // its secrets are removed from errors
}

// ClientCredentials returns the parameters of the client credentials grant (RFC 6749, section 4.4.2).
func ClientCredentials() url.Values { return url.Values{"grant_type": {"client_credentials"}} }

// Refreshing returns the parameters of a request with a refresh token (section 6).
func Refreshing(token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
}

// Do sends a token request with the parameters of a grant.
func (r Request) Do(ctx context.Context, grant url.Values) (Granted, *run.Failure) {
	asked := time.Now()
	answer := r.send(ctx, grant)
	if answer.accessToken == "" || answer.errorCode != "" || answer.status < 200 || answer.status >= 300 || answer.err != nil {
		return Granted{After: answer.after}, r.failure(answer)
	}
	if refusal := r.checkToken(answer); refusal.Reason != "" {
		e := AuthRequired(run.Provider, r.Endpoint, refusal)
		e.HTTPStatus = answer.status
		return Granted{}, e
	}
	granted := Granted{Access: Access{Value: answer.accessToken, Obtained: asked.Round(0)}, Scopes: strings.Fields(answer.scope), Account: accountOf(answer.idToken)}
	if answer.lifetime > 0 {
		granted.Access.Expires = asked.Add(answer.lifetime).Round(0)
	}
	if answer.refreshToken != grant.Get("refresh_token") {
		granted.Refresh.Value = answer.refreshToken
	}
	return granted, nil
}

// accountOf returns which account an ID token is of; empty: it is not known. The signature counts only for tokens of others than the token endpoint (OpenID Connect
// Core 1.0, section 3.1.3.7).
func accountOf(idToken string) string {
	_, claims, _ := strings.Cut(idToken, ".")
	claims, _, _ = strings.Cut(claims, ".")
	text, err := base64.RawURLEncoding.DecodeString(claims)
	var account struct {
		Subject string `json:"sub"`
	}
	if err != nil || json.Unmarshal(text, &account) != nil || account.Subject == "" {
		return ""
	}
	return Digest(account.Subject)
}

// send sends the request and reads the answer. It follows no redirect, which could send the secret to another address.
func (r Request) send(ctx context.Context, grant url.Values) (answer tokenAnswer) {
	resp, err := r.Post(ctx, r.Endpoint, grant)
	if err != nil {
		return tokenAnswer{err: err}
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusOK { // after 101, the body is the connection, which may never end
		limit := int64(maxTokenResponse)
		if r.Limit > 0 {
			limit = min(limit, r.Limit)
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

// Post sends parameters with the authentication of the client (RFC 6749, section 2.3.1).
func (r Request) Post(ctx context.Context, address string, grant url.Values) (*http.Response, error) {
	form := maps.Clone(r.Client.Params)
	maps.Copy(form, grant)
	if len(r.Scopes) > 0 {
		form.Set("scope", strings.Join(r.Scopes, " "))
	}
	if r.Client.InBody {
		form.Set("client_id", r.Client.ID)
		if r.Client.Secret != "" {
			form.Set("client_secret", r.Client.Secret)
		}
	}
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer()) // Caddy's HTTP transport needs one
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if !r.Client.InBody {
		req.SetBasicAuth(url.QueryEscape(r.Client.ID), url.QueryEscape(r.Client.Secret))
	}
	return r.Transport.RoundTrip(req)
}

// checkToken returns why a token can't be sent as a bearer token; empty: it can.
func (r Request) checkToken(answer tokenAnswer) Refusal {
	if kind := strings.TrimSpace(answer.tokenType); kind != "" && !strings.EqualFold(kind, "Bearer") {
		named := ""
		if tokenTypeSyntax.MatchString(kind) && credential.Scrub(kind, r.Credentials) == kind {
			named = " but " + kind
		}
		return Refusal{"unsupported_token_type", "The token endpoint issued a token whose type is not Bearer" + named + ".", CheckTokenURL}
	}
	illegal := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(answer.accessToken) > maxAccessToken || strings.ContainsFunc(answer.accessToken, illegal) {
		return Refusal{"unusable_token", "The token endpoint issued a token that can't be sent in a header.", CheckTokenURL}
	}
	if len(answer.refreshToken) > maxAccessToken/2 {
		return Refusal{"unusable_token", "The token endpoint issued a refresh token that is too large to be kept.", CheckTokenURL}
	}
	return Refusal{}
}

// tokenTypeSyntax matches the names of token types (RFC 6749, section 8.1) that a message may contain, so no URIs.
var tokenTypeSyntax = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

// failure returns the error of a failed token request. It contains only the status and a well-formed
// error code of the response.
func (r Request) failure(answer tokenAnswer) *run.Failure {
	switch {
	case answer.status == 0, answer.isTemporary(), answer.status < 300 && answer.err != nil && !answer.tooLarge():
		return r.unreachable(answer)
	}
	e := AuthRequired(run.Provider, r.Endpoint, r.refusal(answer))
	e.HTTPStatus = answer.status
	return e
}

// Refusal is the reason why there is no token, as a code and a message, with advice for the operator.
type Refusal struct{ Reason, Message, Advice string }

// The advice of refusals.
const (
	CheckTokenURL = "check token_url" //nolint:gosec // advice, not a credential
	CheckClient   = "check client_id, client_secret and scopes"
)

// Refusal returns the refusal of a response without a token.
func (r Request) refusal(answer tokenAnswer) Refusal {
	switch code := answer.errorCode; {
	case errorCodeSyntax.MatchString(code) && credential.Scrub(code, r.Credentials) == code: // it is well-formed and has no secret
		return r.refusalOf(code)
	case answer.status >= 400:
		advice := CheckClient
		if answer.status == http.StatusUnauthorized {
			advice = r.checkAuthentication()
		}
		return Refusal{"refused", fmt.Sprintf("The token endpoint refused to issue a token to the bridge (HTTP status %d).", answer.status), advice}
	case answer.status >= 300:
		return Refusal{"redirect", "The token endpoint answered with a redirect, which is not followed.", CheckTokenURL}
	case answer.tooLarge():
		return Refusal{"invalid_response", "The token endpoint's answer is too large.", CheckTokenURL}
	}
	return Refusal{"invalid_response", "The token endpoint's answer is not a token response.", CheckTokenURL}
}

// refusalOf returns the refusal of an error code (RFC 6749, section 5.2).
func (r Request) refusalOf(code string) Refusal {
	switch {
	case code == "invalid_client":
		return Refusal{code, "The token endpoint refused the bridge's client credentials (invalid_client).", r.checkAuthentication()}
	case code == "invalid_grant" && r.Client.RefreshToken != "":
		return Refusal{code, "The token endpoint refused the bridge's refresh token (invalid_grant).", "configure a new refresh_token"}
	case code == "invalid_grant" && r.Client.OfUsers: // that of a refresh token ends the grant
		const message = "The token endpoint refused the user's code (invalid_grant): it has expired or was used before, so that a second try helps, or it was issued for another redirect URI."
		return Refusal{code, message, "compare the registered redirect URI with the one that caddy skill-bridge check prints"}
	case code == "invalid_scope":
		return Refusal{code, "The token endpoint refused the scopes that the bridge asks for (invalid_scope).", "check scopes"}
	}
	return Refusal{code, fmt.Sprintf("The token endpoint refused to issue a token to the bridge (%s).", code), CheckClient}
}

// checkAuthentication is the advice if the client could not authenticate: many endpoints accept only one of the two ways.
func (r Request) checkAuthentication() string {
	switch {
	case r.Client.Secret == "":
		return CheckClient
	case r.Client.InBody:
		return "check client_id and client_secret, and try auth_style header,"
	}
	return "check client_id and client_secret, and try auth_style params,"
}

// errorCodeSyntax matches the error codes of token responses (RFC 6749, section 5.2).
var errorCodeSyntax = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// unreachable returns the error of a token endpoint that did not answer, or answered with a
// temporary error.
func (r Request) unreachable(answer tokenAnswer) *run.Failure {
	retry := run.RetryIn(2*time.Second, 3)
	if answer.after > 0 {
		retry = retryOnceAfter(min(answer.after, maxRetryAfter))
	}
	e := run.NotExecuted(run.Unreachable, run.PhaseAuth, "")
	e.HTTPStatus, e.Retry, e.URL, e.Cause = answer.status, retry, RedactURL(r.Endpoint), answer.err
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
	e.Reach = &run.Reach{URL: RedactURL(r.Endpoint), Reason: reason}
	if answer.err != nil {
		e.Reach.ForOperator = "The token endpoint could not be reached: " + exchange.ExactReason(answer.err) + "."
	}
	if own, ok := errors.AsType[*run.Failure](answer.err); ok {
		e.Kind, e.Message, e.Advice, e.Refused, e.Retry, e.Cause = own.Kind, own.Message, own.Advice, own.Refused, own.Retry, own.Cause
		e.Reach.ForOperator = ""
	}
	// Errors of net/http quote invalid answers, and an answer may contain a secret.
	if cause := e.Cause; cause != nil {
		if text := credential.Scrub(cause.Error(), r.Credentials); text != cause.Error() {
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
	e := AuthRequired(run.Provider, tokenURL, Refusal{"token_rejected", fmt.Sprintf(
		"The provider refuses all access tokens that its token endpoint issues; the bridge fetches the next one in %s at the earliest.",
		early.Round(time.Second)), CheckClient})
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

// AuthRequired returns the error of a token that can't be obtained.
func AuthRequired(by run.Party, tokenURL string, r Refusal) *run.Failure {
	bare := RedactURL(tokenURL)
	e := run.NeedsCredential(&run.Demand{By: by, Type: string(document.AuthOAuth2), TokenURL: bare, Reason: r.Reason}, r.Message)
	e.By, e.URL, e.Advice = by, bare, run.AskOperator+" to "+r.Advice+" for this provider."
	return e
}

// tokenAnswer is the answer of a token endpoint (RFC 6749, sections 5.1 and 5.2), read as most clients do. A member that is missing, or that no client
// can use as it was sent, is empty: only a missing access token makes an answer useless.
type tokenAnswer struct {
	accessToken, tokenType, refreshToken, idToken, scope string

	lifetime  time.Duration // 0: not known
	errorCode string

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
	var form url.Values
	if bytes.HasPrefix(body, []byte("{")) {
		var members map[string]jsontext.Value
		if json.Unmarshal(body, &members, Lenient) != nil {
			return tokenAnswer{}
		}
		form = make(url.Values, len(members))
		for _, name := range slices.Sorted(maps.Keys(members)) { // capital letters first, so that the right spelling of a name counts
			text, isText := document.Text(members[name])
			if !isText && strings.EqualFold(name, "expires_in") {
				text = string(members[name])
			}
			form.Set(strings.ToLower(name), text)
		}
	} else if !bytes.ContainsAny(body, "<>\"{} \t\r\n") { // else it is a page, or other text
		form, _ = url.ParseQuery(string(body)) // what can't be read is left out
	}
	return tokenAnswer{
		accessToken: form.Get("access_token"), tokenType: form.Get("token_type"), refreshToken: form.Get("refresh_token"), idToken: form.Get("id_token"), scope: form.Get("scope"),
		errorCode: form.Get("error"),
		lifetime:  lifetimeOf(form.Get("expires_in")),
	}
}

// Lenient are the options for reading JSON as most clients do.
var Lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), json.MatchCaseInsensitiveNames(true))

// lifetimeOf returns the lifetime of a token in seconds; 0: it is not known.
func lifetimeOf(number string) time.Duration {
	seconds, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if math.IsNaN(seconds) || seconds <= 0 || err != nil && !math.IsInf(seconds, 1) {
		return 0
	}
	return time.Duration(min(seconds, math.MaxInt32) * float64(time.Second))
}

// KeyOf returns the key of the token for a request.
func (c *Client) KeyOf(endpoint string, a *credential.Authentication) Key {
	scopes := c.Scopes
	if len(scopes) == 0 && c.RefreshToken == "" { // a refresh token may be for less than all that a descriptor names
		scopes = ScopesOf(a.Auth)
	}
	return Key{Client: c.Key, TokenURL: endpoint, Origin: a.Origin, Scopes: strings.Join(scopes, " ")}
}

// MaxScopes bounds the scopes of a descriptor that are asked for.
const MaxScopes = 64

// ScopesOf returns the scopes of a descriptor that can be asked for; nil auth: none.
func ScopesOf(auth *document.Auth) (scopes []string) {
	if auth == nil || auth.OAuth2 == nil {
		return nil
	}
	for _, scope := range slices.Sorted(maps.Keys(auth.OAuth2.Scopes)) {
		if options.CheckScope(scope) == nil && len(scopes) < MaxScopes {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// Endpoint returns the token endpoint of a request. It fails if the secret may not be sent there.
func (c *Client) Endpoint(a *credential.Authentication) (string, error) {
	named := ""
	if a.Auth != nil && a.Auth.OAuth2 != nil {
		named = a.Auth.OAuth2.TokenURL
	}
	return Address(a, "token_url", c.TokenURL, named)
}

// Address returns the configured address of an authorization server for a request, or else the one that the descriptor names, if a secret may be sent there. A
// configured one without TLS is refused, unless the provider's origin is without TLS, too.
func Address(a *credential.Authentication, option, configured, named string) (string, error) {
	what := map[string]string{"token_url": "token endpoint", "authorization_url": "authorization endpoint"}[option]
	isPlain := func(address string) bool { return strings.HasPrefix(strings.ToLower(address), "http://") }
	switch u, err := ParseURL(named); {
	case configured != "" && isPlain(configured) && !isPlain(a.Origin):
		return configured, refused(configured, Refusal{
			option + "_insecure",
			"The configured " + option + " is an http:// address, which is allowed only for providers whose origin begins with http://.",
			"configure an https:// address as " + option,
		})
	case configured != "":
		return configured, nil
	case named == "":
		return "", refused("", Refusal{option + "_missing", "The descriptor names no " + what + ".", "configure " + option})
	case err != nil:
		return "", refused("", Refusal{option + "_invalid", "The descriptor's " + what + " is not usable.", "configure " + option})
	default:
		return u.String(), a.MaySend(u)
	}
}

// refused returns the error of a token request that is not sent.
func refused(tokenURL string, r Refusal) *run.Failure {
	e := AuthRequired(run.Bridge, tokenURL, r)
	e.Refused = run.RuleCredential
	return e
}
