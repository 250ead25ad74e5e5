package exchange

import (
	"errors"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

func (s *Sender) secrets() *credential.Group {
	if s.Secrets != nil {
		return s.Secrets
	}
	return credential.NewGroup(s.Credentials, s.DiscoveryCredentials)
}

// ScrubText removes configured secrets from a text.
func (s *Sender) ScrubText(text string) string { return s.secrets().ScrubText(text) }

// scrubbed returns an error for the log with the text of err, but without secrets, since
// package net/http quotes what a provider sent.
func (s *Sender) scrubbed(err error) error { return errors.New(s.ScrubText(err.Error())) }

// ScrubFailure removes configured secrets from a failure.
func (s *Sender) ScrubFailure(e *run.Failure) { s.secrets().ScrubFailure(e) }

// RepeatsSecret reports whether a document contains a credential, which every
// caller could read there.
func (s *Sender) RepeatsSecret(document []byte) bool { return s.secrets().RepeatedIn(document) }

// HasSecrets reports whether there are secrets that a document could contain.
func (s *Sender) HasSecrets() bool { return s.secrets().HasLong() }
