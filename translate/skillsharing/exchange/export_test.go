package exchange

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Judge is the judgement on an answer of which only the parts are at hand.
func Judge(status int, header http.Header, body string, phase run.Phase, knownID string) (*document.Response, *run.Failure) {
	return new(Sender).Judge(&Answer{Status: status, Header: header, Body: []byte(body)}, document.Asked{Phase: phase, ExecutionID: knownID})
}

// JudgeWithSecret is Judge for a sender with a secret.
func JudgeWithSecret(secret, body string) (*document.Response, *run.Failure) {
	s := &Sender{Credentials: onlySecret(secret)}
	return s.Judge(&Answer{Status: http.StatusOK, Body: []byte(body)}, document.Asked{Phase: run.PhaseInvoke})
}

// ScrubOutput is an output without a secret.
func ScrubOutput(output jsontext.Value, secret string) jsontext.Value {
	return (&Sender{Credentials: onlySecret(secret)}).secrets().ScrubOutput(output)
}

// onlySecret are credentials that do nothing.
type onlySecret string

func (onlySecret) Supports(*document.Auth) bool { return false }

func (onlySecret) Authenticate(context.Context, *credential.Authentication) error { return nil }

func (s onlySecret) Secrets() []string { return []string{string(s)} }
