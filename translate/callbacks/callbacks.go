package callbacks

import (
	"context"
	"crypto/subtle"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Callbacks has the options of one configuration for call-backs. Its fields must not be changed while it is used.
type Callbacks struct {
	// Client checks URLs and sends requests.
	webhook.Client
	// Deliverer sends the call-backs. It is required.
	Deliverer *Deliverer
	// Secrets are those of the operator. Each request has a signature for each of them.
	Secrets []Secret
	// Sealer encrypts the tokens of callers. It is required.
	Sealer *runtoken.Sealer
	// Owns reports whether the runs of an owner belong to this configuration. It is not called before Begin. It is required.
	Owns func(owner string) bool
	// Caller returns the caller in whose name the run of an owner is followed. It is required.
	Caller func(owner string) run.Caller
	// Body returns what a call-back says: how the run of a record has ended. A nil outcome is too large for a call-back. A nil
	// result means that the caller may not know the outcome any more. It is required.
	Body func(ctx context.Context, caller run.Caller, r *keptruns.Record, o *run.Run) []byte
	// Attempted is called after each request, from several goroutines at a time. May be nil.
	Attempted func(a *Attempt)
	// Panicked is called after a panic, with its stack. May be nil.
	Panicked func(ctx context.Context, value any, stack []byte)

	begin, end sync.Once
}

// Attempt is one request of a call-back, or that one is given up, for the operator. It has no secrets. Without a request, it has no Outcome.
type Attempt struct {
	webhook.Answer

	ID      string // of the call-back
	Caller  string // the principal; empty: anonymous
	Skill   string
	RunID   string
	Try     int           // the number of the request, from 1
	Retry   time.Duration // until the next request; 0: it is the last one
	GivenUp bool          // nothing more is sent
}

// Begin makes the Deliverer use the configuration, and take over the call-backs of instances that have ended. Further calls have no effect.
func (c *Callbacks) Begin() { c.begin.Do(func() { c.Deliverer.attach(c) }) }

// End makes the Deliverer no longer use the configuration. Begin has no effect after it.
func (c *Callbacks) End() {
	c.begin.Do(func() {})
	c.end.Do(func() { c.Deliverer.configs.Remove(c) })
}

// target is the JSON of where a call-back goes, in the notes of a record.
type target struct {
	URL string `json:"url"`
	// Token is encrypted.
	Token string `json:"token,omitzero"`
}

// purpose is part of the binding of encrypted tokens.
const purpose = "callback"

// Notes returns the notes for the record of a run, with where its call-back goes. The token is a valid secret, or empty.
func (c *Callbacks) Notes(ctx context.Context, owner, url, token string) (jsontext.Value, error) {
	to := target{URL: url}
	if token != "" {
		sealed, err := c.Sealer.SealText(ctx, token, purpose, owner, url)
		if err != nil {
			return nil, err
		}
		to.Token = sealed
	}
	return json.Marshal(to)
}

// Differs returns the function that says by what a repeated call, with a URL and a token, differs from the one that has begun the run of its key;
// both are empty if the call has no call-back. c may be nil then. A token that can't be decrypted any more does not differ.
func (c *Callbacks) Differs(ctx context.Context, url, token string) func(r *keptruns.Record) string {
	return func(r *keptruns.Record) string {
		to := targetOf(r)
		switch {
		case to.URL != url:
			return "another 'notify.url'"
		case url == "":
			return ""
		}
		first := ""
		if to.Token != "" {
			var err error
			if first, _, err = c.Sealer.OpenText(ctx, to.Token, purpose, r.Owner, to.URL); err != nil {
				return ""
			}
		}
		if subtle.ConstantTimeCompare([]byte(first), []byte(token)) == 0 {
			return "another 'notify.token'"
		}
		return ""
	}
}

func targetOf(r *keptruns.Record) (to target) {
	if len(r.Notes) > 0 {
		_ = json.Unmarshal(r.Notes, &to) // else they are not of this package
	}
	return to
}

// secrets returns the secrets for the call-back of a run.
func (c *Callbacks) secrets(ctx context.Context, r *keptruns.Record) ([]Secret, error) {
	to := targetOf(r)
	if to.Token == "" {
		return c.Secrets, nil
	}
	text, _, err := c.Sealer.OpenText(ctx, to.Token, purpose, r.Owner, to.URL)
	if err != nil {
		return nil, err
	}
	token, err := ParseSecret(text)
	if err != nil {
		return nil, runtoken.ErrInvalid
	}
	return append([]Secret{token}, slices.Clone(c.Secrets)...), nil
}

// Keep makes sure that the call-back of a run is sent also if this instance ends. Call it before the run is submitted.
func (c *Callbacks) Keep(ctx context.Context, r *keptruns.Record) error {
	c.Begin()
	return c.Deliverer.index.Note(ctx, r.Owner, r.ID, 1)
}
