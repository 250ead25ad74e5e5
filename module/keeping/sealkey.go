package keeping

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/runtokens"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// HoldKeys returns the keys of run tokens: those of the option seal_key, or those in the database, until use ends.
func (o *Options) HoldKeys(ctx caddy.Context, use *lifetime.Usage) (runtokens.Keys, error) {
	if o.SealKey == "" {
		keys, release, err := runtokens.HoldKeys(o.db)
		if err == nil {
			use.OnRelease(release)
		}
		return keys, err
	}
	var keys runtokens.Sealed
	for _, option := range []struct{ path, text string }{{"seal_key", o.SealKey}, {"old_seal_key", o.OldSealKey}} {
		if option.text == "" {
			continue
		}
		value, err := credentials.Secret(ctx, option.path, option.text)
		var key runtoken.Key
		if err == nil {
			key, err = parseSealKey(value)
		}
		if err != nil {
			return nil, &options.ConfigError{Path: option.path, Err: err}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Sealer returns what encrypts texts for one purpose with keys that are derived from those of the option seal_key: what it has sealed, no sealer for
// another purpose opens, and run tokens are not made with them. nil: there is no seal_key.
func Sealer(keys runtokens.Keys, purpose string) (*runtoken.Sealer, error) {
	option, ok := keys.(runtokens.Sealed)
	if !ok {
		return nil, nil //nolint:nilnil // see above
	}
	derived := make(runtokens.Sealed, len(option))
	for i, key := range option {
		secret := key.Secret()
		var err error
		if derived[i], err = derive(secret[:], "skill-bridge "+purpose); err != nil {
			return nil, err
		}
	}
	return runtoken.New(derived, runtoken.Lifetime, nil), nil
}

const (
	// sealKeySize is how many random bytes a seal_key has at least.
	sealKeySize = 32
	// fewestValues is how many different bytes there are at least among 32 random ones: fewer are less likely than 1 in 10^9.
	fewestValues = 20
)

// errSealKey does not contain the text.
var errSealKey = errors.New("this is no random key: it has to be at least 32 random bytes, in base64 or hexadecimal digits, as openssl rand -base64 32 makes them")

var hexDigits = regexp.MustCompile(`^[0-9a-fA-F]+$`)

// parseSealKey returns the key that is derived from a secret.
func parseSealKey(text string) (runtoken.Key, error) {
	var secret []byte
	var err error
	if hexDigits.MatchString(text) {
		secret, err = hex.DecodeString(text)
	} else {
		text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		secret, err = base64.RawStdEncoding.DecodeString(text)
	}
	values := map[byte]bool{}
	for _, b := range secret {
		values[b] = true
	}
	if err != nil || len(secret) < sealKeySize || len(values) < fewestValues {
		return runtoken.Key{}, errSealKey
	}
	return derive(secret, "skill-bridge seal_key")
}

func derive(secret []byte, purpose string) (runtoken.Key, error) {
	derived, err := hkdf.Key(sha256.New, secret, nil, purpose, len(runtoken.Secret{})+len(runtoken.KeyID{}))
	if err != nil {
		return runtoken.Key{}, err
	}
	size := len(runtoken.Secret{})
	return runtoken.RestoreKey(runtoken.KeyID(derived[size:]), runtoken.Secret(derived[:size]), runtoken.Key{}.Made), nil
}
