package callbacks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Sender has the options of one configuration for call-backs of the runs of a ledger. Its fields must not be changed while it is used.
type Sender struct {
	// Sender sends the requests. Events sets its Hears and Event.
	delivery.Sender
	// Secrets are those of the operator. Each request has a signature for each of them.
	Secrets []Secret
	// Sealer encrypts the tokens of callers. It is required.
	Sealer *runtoken.Sealer
	// Outcome is that of a [ledger.Ledger]. It is required.
	Outcome func(ctx context.Context, e *ledger.Entry, room exchange.AnswerBudget) (o run.Run, ok bool)
	// Body returns what a call-back says: how the run of an entry has ended. A nil outcome is too large for a call-back, or only its provider knows it. A
	// nil result means that the caller may not know the outcome any more. It is required.
	Body func(ctx context.Context, e *ledger.Entry, o *run.Run) []byte
}

// Events returns what the Deliverer sends with.
func (s *Sender) Events() *delivery.Sender {
	s.Hears, s.Event = hears, s.event
	return &s.Sender
}

// Receiver returns the notes for the entry of a run, with where its call-back goes, and the receiver. The token is a valid secret, or empty.
func (s *Sender) Receiver(ctx context.Context, owner ledger.Owner, url, token string) (notes []byte, receiver *ledger.Receiver, err error) {
	to := target{URL: url}
	if token != "" {
		if to.Token, err = s.Sealer.SealText(ctx, token, purpose, owner.Realm+"\n"+owner.Principal, url); err != nil {
			return nil, nil, err
		}
	}
	notes, err = json.Marshal(to)
	return notes, &ledger.Receiver{Name: purpose, Host: webhook.HostOf(url), Target: notes, EndOnly: true}, err
}

// Differs returns the function that says by what a repeated call, with a URL and a token, differs from the one that has begun the run of its key;
// both are empty if the call has no call-back. s may be nil then. A token that can't be decrypted any more does not differ.
func (s *Sender) Differs(ctx context.Context, url, token string) func(e *ledger.Entry) string {
	return func(e *ledger.Entry) string {
		to := targetIn(e.Notes)
		switch {
		case to.URL == "" && url != "":
			return "no 'notify'"
		case to.URL != "" && url == "":
			return "'notify'"
		case to.URL != url:
			return "another 'notify.url'"
		case url == "":
			return ""
		}
		if first, err := s.token(ctx, e.Owner, to); err == nil && subtle.ConstantTimeCompare([]byte(first), []byte(token)) == 0 {
			return "another 'notify.token'"
		}
		return ""
	}
}

// token returns the token of a caller; empty: there is none.
func (s *Sender) token(ctx context.Context, owner ledger.Owner, to target) (token string, err error) {
	if to.Token != "" {
		token, _, err = s.Sealer.OpenText(ctx, to.Token, purpose, owner.Realm+"\n"+owner.Principal, to.URL)
	}
	return token, err
}

func targetIn(notes []byte) (to target) {
	if len(notes) > 0 {
		_ = json.Unmarshal(notes, &to) // else they are not of this package
	}
	return to
}

// target is the JSON of where a call-back goes, in the notes of an entry.
type target struct {
	URL string `json:"url"`
	// Token is encrypted.
	Token string `json:"token,omitzero"`
}

// purpose is part of the binding of encrypted tokens.
const purpose = "callback"

// maxOutcome is the size of the largest outcome that a call-back has, in bytes. Otherwise the receiver asks for it.
const maxOutcome = 256 << 10

// hears reports whether a version of a run may be told by a call-back.
func hears(e *ledger.Entry) bool {
	return len(e.Notes) > 0 && (e.State.Ended() || e.State == ledger.Unknown)
}

// event returns the call-back of a run.
func (s *Sender) event(ctx context.Context, d *delivery.Delivery, e *ledger.Entry, _ int) (*delivery.Event, error) {
	if !hears(e) {
		return nil, nil //nolint:nilnil // there is no event yet
	}
	to, secrets := targetIn(d.Target), s.Secrets
	token, err := s.token(ctx, e.Owner, to)
	if err == nil && token != "" {
		var secret Secret
		if secret, err = ParseSecret(token); err == nil {
			secrets = append([]Secret{secret}, s.Secrets...)
		} else {
			err = runtoken.ErrInvalid
		}
	}
	switch {
	case errors.Is(err, runtoken.ErrInvalid): // the key that sealed the token has been removed
		return &delivery.Event{Never: "the token of its caller can't be decrypted any more"}, nil
	case err != nil:
		return nil, err
	}
	o, err := s.outcome(ctx, e)
	if err != nil {
		return nil, err
	}
	body := s.Body(ctx, e, o)
	if body == nil {
		return &delivery.Event{Never: "the access rules deny the skill to its caller"}, nil
	}
	return &delivery.Event{Request: webhook.Request{URL: to.URL, Header: header(e.ID, time.Now(), body, secrets), Body: body}, Last: true}, nil
}

// outcome returns how a run has ended, if a call-back has room for it.
func (s *Sender) outcome(ctx context.Context, e *ledger.Entry) (*run.Run, error) {
	if max(e.Apart, int64(len(e.Outcome))) > maxOutcome {
		return nil, nil //nolint:nilnil // see Body
	}
	o, ok := s.Outcome(ctx, e, nil)
	if !ok {
		return nil, nil //nolint:nilnil // see Body
	}
	if f := o.Failure; f != nil && f.Cause != nil { // it can't be read
		if errors.Is(f.Cause, ledger.ErrNoEntry) || errors.Is(f.Cause, run.ErrDamaged) {
			return nil, nil //nolint:nilnil // see Body
		}
		return nil, f.Cause
	}
	return &o, nil
}

// secretPrefix begins the text of a secret (Standard Webhooks, "Signature scheme").
const secretPrefix = "whsec_"

// The least and the largest size of a secret, in bytes (as above).
const (
	minSecret = 24
	maxSecret = 64
)

// errSecret is the error for a text that is not a secret. It does not repeat the text.
var errSecret = errors.New(`must be "whsec_" followed by 24 to 64 random bytes in base64`)

// Secret is a key of signatures. It formats as [redacted].
type Secret struct{ key []byte }

// String implements [fmt.Stringer] without the secret.
func (Secret) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer] without the secret.
func (Secret) GoString() string { return "[redacted]" }

// ParseSecret reads the text of a secret.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok || len(encoded) > base64.StdEncoding.EncodedLen(maxSecret) || strings.ContainsAny(encoded, "\r\n") {
		return Secret{}, errSecret
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil || len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, errSecret
	}
	return Secret{key}, nil
}

// sign returns the signature of a request with a secret.
func (s Secret) sign(id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// header returns the header of a request that is signed with each of the secrets.
func header(id string, now time.Time, body []byte, secrets []Secret) http.Header {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, s := range secrets {
		signatures[i] = s.sign(id, timestamp, body)
	}
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"caddy-skill-bridge"}}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", timestamp)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
	return h
}
