package exchange

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// ScrubText removes configured secrets from a text.
func (s *Sender) ScrubText(text string) string {
	return credential.Scrub(text, s.allCredentials()...)
}

// scrubbed returns an error for the log with the text of err, but without secrets, since
// package net/http quotes what a provider sent.
func (s *Sender) scrubbed(err error) error { return errors.New(s.ScrubText(err.Error())) }

func (s *Sender) allCredentials() []credential.Credentials {
	return append([]credential.Credentials{s.Credentials, s.DiscoveryCredentials}, s.Known...)
}

// ScrubFailure removes configured secrets from a failure.
func (s *Sender) ScrubFailure(e *run.Failure) { credential.ScrubFailure(e, s.allCredentials()...) }

// scrubOutput removes configured secrets from the output of a run, as [credential.ScrubFailure]
// removes them from a failure.
func (s *Sender) scrubOutput(output jsontext.Value) jsontext.Value {
	if output == nil {
		return nil
	}
	r := credential.RedactorFor(s.allCredentials(), credential.MinOutputSecret, output)
	return r.JSON(output)
}

// RepeatsSecret reports whether a document contains a credential, which every
// caller could read there.
func (s *Sender) RepeatsSecret(document []byte) bool {
	r := credential.RedactorFor(s.allCredentials(), credential.MinOutputSecret, document)
	return len(r.Signatures) > 0 || credential.RepeatsAny(document, r.Secrets)
}

// LongSecrets returns the secrets of at least [credential.MinOutputSecret] bytes. Shorter ones
// may occur in other data by chance.
func (s *Sender) LongSecrets() []string {
	return credential.SecretsOf(s.allCredentials(), credential.MinOutputSecret)
}
