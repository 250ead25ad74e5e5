package callbacks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

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
