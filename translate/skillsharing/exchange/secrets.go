package exchange

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// ScrubText removes configured secrets from a text.
func (s *Sender) ScrubText(text string) string {
	return credential.Scrub(text, s.allCredentials()...)
}

// scrubbed is an error for the log: package net/http quotes what a provider sent.
func (s *Sender) scrubbed(err error) error { return errors.New(s.ScrubText(err.Error())) }

func (s *Sender) allCredentials() []credential.Credentials {
	return []credential.Credentials{s.Credentials, s.DiscoveryCredentials}
}

// scrubOutput removes configured secrets from the output of a run, as [credential.ScrubFailure]
// does from a failure.
func (s *Sender) scrubOutput(output jsontext.Value) jsontext.Value {
	if output == nil {
		return nil
	}
	r := credential.RedactorFor(s.allCredentials(), credential.MinOutputSecret, output)
	return r.JSON(output)
}

// RepeatsSecret reports whether a document repeats a credential: every caller could
// read it there.
func (s *Sender) RepeatsSecret(document []byte) bool {
	r := credential.RedactorFor(s.allCredentials(), credential.MinOutputSecret, document)
	return len(r.Signatures) > 0 || credential.RepeatsAny(document, r.Secrets)
}

// LongSecrets are the secrets that are long enough not to stand in other data by chance.
func (s *Sender) LongSecrets() []string {
	return credential.SecretsOf(s.allCredentials(), credential.MinOutputSecret)
}
