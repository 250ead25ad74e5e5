package skillsharing

import (
	"context"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Followers is how many runs are being followed.
func (c *Client) Followers() int {
	c.followers.mu.Lock()
	defer c.followers.mu.Unlock()
	return len(c.followers.runs)
}

// Judge is the judgement on an answer of which only the parts are at hand.
func Judge(status int, header http.Header, body string, phase run.Phase, knownID string) (*document.Response, *run.Failure) {
	return new(exchange.Sender).Judge(&exchange.Answer{Status: status, Header: header, Body: []byte(body)}, document.Asked{Phase: phase, ExecutionID: knownID})
}

// ScrubOutput is an output without a secret.
func ScrubOutput(output jsontext.Value, secret string) jsontext.Value {
	return (&exchange.Sender{Credentials: onlySecret(secret)}).ScrubOutput(output)
}

// onlySecret are credentials that do nothing.
type onlySecret string

func (onlySecret) Supports(*document.Auth) bool { return false }

func (onlySecret) Authenticate(context.Context, *credential.Authentication) error { return nil }

func (s onlySecret) Secrets() []string { return []string{string(s)} }

// ExpandURL puts an execution id into a template.
func ExpandURL(template, executionID string) (*url.URL, error) {
	return document.ExpandURL(template, executionID)
}
