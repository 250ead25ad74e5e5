package tokenendpoint

import (
	"bytes"
	"cmp"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Answer is the body of a token endpoint's answer (RFC 6749, sections 5.1 and 5.2). A member that is missing, or that no client can use as it was
// sent, is empty: only a missing access token makes an answer useless.
type Answer struct {
	AccessToken, TokenType, RefreshToken string
	Lifetime                             time.Duration // 0: not known
	ErrorCode                            string
}

// parse reads JSON, whatever the Content-Type says, or a form, as older servers send it.
func parse(body []byte) Answer {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	var members struct {
		AccessToken  jsontext.Value `json:"access_token"`
		TokenType    jsontext.Value `json:"token_type"`
		RefreshToken jsontext.Value `json:"refresh_token"`
		ExpiresIn    jsontext.Value `json:"expires_in"`
		Error        jsontext.Value `json:"error"`
	}
	if bytes.HasPrefix(body, []byte("{")) {
		if json.Unmarshal(body, &members, lenient) != nil {
			return Answer{}
		}
		return Answer{
			text(members.AccessToken), text(members.TokenType), text(members.RefreshToken), lifetimeOf(cmp.Or(text(members.ExpiresIn), string(members.ExpiresIn))), text(members.Error),
		}
	}
	if bytes.ContainsAny(body, "<>\"{} \t\r\n") { // a page, or other text
		return Answer{}
	}
	form, _ := url.ParseQuery(string(body)) // what can't be read is left out
	return Answer{
		form.Get("access_token"), form.Get("token_type"), form.Get("refresh_token"), lifetimeOf(form.Get("expires_in")), form.Get("error"),
	}
}

// lenient are the options for reading JSON as most clients do.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), json.MatchCaseInsensitiveNames(true))

// text returns a JSON string; empty: the value is another one.
func text(v jsontext.Value) string {
	s, _ := document.Text(v)
	return s
}

// lifetimeOf returns the lifetime of a token in seconds; 0: it is not known.
func lifetimeOf(number string) time.Duration {
	seconds, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if math.IsNaN(seconds) || seconds <= 0 || err != nil && !math.IsInf(seconds, 1) {
		return 0
	}
	return time.Duration(min(seconds, math.MaxInt32) * float64(time.Second))
}
