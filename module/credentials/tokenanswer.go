package credentials

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// tokenAnswer is the answer of a token endpoint (RFC 6749, sections 5.1 and 5.2), read as most clients do. A member that is missing, or that no client
// can use as it was sent, is empty: only a missing access token makes an answer useless.
type tokenAnswer struct {
	accessToken, tokenType, refreshToken string
	lifetime                             time.Duration // 0: not known
	errorCode                            string

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
			accessToken: text(members.AccessToken), tokenType: text(members.TokenType), refreshToken: text(members.RefreshToken), errorCode: text(members.Error),
			lifetime: lifetimeOf(cmp.Or(text(members.ExpiresIn), string(members.ExpiresIn))),
		}
	}
	if bytes.ContainsAny(body, "<>\"{} \t\r\n") { // a page, or other text
		return tokenAnswer{}
	}
	form, _ := url.ParseQuery(string(body)) // what can't be read is left out
	return tokenAnswer{
		accessToken: form.Get("access_token"), tokenType: form.Get("token_type"), refreshToken: form.Get("refresh_token"), errorCode: form.Get("error"),
		lifetime: lifetimeOf(form.Get("expires_in")),
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
