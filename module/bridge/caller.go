package bridge

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/runtokens"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// Caller is the caller that invocations name (Skill Sharing Protocol, section 5.3). It may have placeholders of what the bridge knows about the
// owner of a run at any time: a run may be repeated, or executed at another instance, when its request is gone. Others of a request are refused when
// the configuration loads, such as header fields: most of them are the client's to choose.
//
//   - `{http.auth.user.id}` is the principal, as is the placeholder of the option `principal`;
//   - `{skill_bridge.principal_hash}` stands for the principal, and tells nothing about it: 64 hexadecimal digits, which differ from provider to
//     provider. They are the same as long as the principal, the provider's origin, the `name` of the bridge and the first `seal_key` are; without a
//     `seal_key`, as long as the database of the option `store` is, which has a secret for them. With `store memory`, they change when Caddy restarts;
//   - `{env.NAME}`, `{file./path}` and `{system.hostname}` are replaced when the configuration loads.
//
// For anonymous callers, a value with a placeholder of the principal is the default. A value has at most 256 bytes, and no control characters: a
// call with another one is refused, and nothing is executed. Providers get the values with invocations that have a body.
type Caller struct {
	// Identifies the caller. Default: `skill-bridge`. Example: `{skill_bridge.principal_hash}`.
	ID string `json:"id,omitempty"`

	// What kind of caller it is. With a placeholder of the principal in `id`, it is
	// `service` for anonymous callers. Default: `service`. Example: `user`.
	Type string `json:"type,omitempty"`
}

// ofBridge is the caller by default.
var ofBridge = skillsharing.Caller{ID: "skill-bridge", Type: "service"}

const (
	principalHash = "{skill_bridge.principal_hash}"
	maxCaller     = 256 // bytes
)

var placeholders = regexp.MustCompile(`\{[^{}]*\}|[{}]`) // and braces of none

// checkCaller checks an id or a type, in which global placeholders were replaced. principal is the placeholder of the principal.
func checkCaller(text, principal string) error {
	for _, p := range placeholders.FindAllString(text, -1) {
		if p != principalHash && p != defaultPrincipal && p != principal {
			return fmt.Errorf("caller: %s can't be sent to providers, which learn only what the bridge knows about the owner of a run at any time: "+
				"%s is the principal, %s stands for it; values such as {env.NAME} are possible, too", p, defaultPrincipal, principalHash)
		}
	}
	if err := checkCallerValue(text); err != nil {
		return fmt.Errorf("caller %.40q can't be sent to providers: %w", text, err)
	}
	return nil
}

// checkCallerValue checks what a provider would be sent.
func checkCallerValue(value string) error {
	switch {
	case len(value) > maxCaller:
		return fmt.Errorf("it has %d bytes; providers are sent at most %d", len(value), maxCaller)
	case !utf8.ValidString(value), strings.ContainsFunc(value, unicode.IsControl):
		return errors.New("it has control characters, or is not valid UTF-8")
	}
	return nil
}

// told returns the caller that invocations name, with the placeholders of the principal, for which there is one each.
func (h *Handler) told() (skillsharing.Caller, error) {
	told := ofBridge
	if h.Caller == nil {
		return told, nil
	}
	for _, option := range []struct {
		path, text string
		to         *string
	}{{"caller.id", h.Caller.ID, &told.ID}, {"caller.type", h.Caller.Type, &told.Type}} {
		var failure error
		text := options.Globals.ReplaceAllStringFunc(strings.ReplaceAll(option.text, cmp.Or(h.Principal, defaultPrincipal), defaultPrincipal), func(placeholder string) string {
			value, err := credentials.Text(placeholder)
			failure = cmp.Or(failure, err)
			return value
		})
		if err := cmp.Or(failure, checkCaller(text, defaultPrincipal)); err != nil {
			return told, &options.ConfigError{Path: option.path, Err: err}
		}
		*option.to = cmp.Or(text, *option.to)
	}
	return told, nil
}

// tellCallers makes the bridge tell providers about principals, if its Caller has placeholders. bridge is its name.
func tellCallers(config *translate.Config, bridge string, keys runtokens.Keys) {
	told := config.Caller
	if !placeholders.MatchString(told.ID + told.Type) {
		return
	}
	if placeholders.MatchString(told.ID) {
		config.Caller.ID = ofBridge.ID
	}
	config.Caller.Type = ofBridge.Type
	hashes := strings.Contains(told.ID+told.Type, principalHash)
	config.CallerOf = func(ctx context.Context, principal string, provider *url.URL) (skillsharing.Caller, *run.Failure) {
		hash := ""
		if hashes {
			secret, err := keys.Secret(ctx, "skill-bridge principal_hash")
			if err != nil {
				return skillsharing.Caller{}, run.StorageFailed(run.PhaseInvoke, run.ExecutedNo,
					"the bridge can't read from its database at the moment what the provider is told about the caller. Nothing was sent to the provider", err)
			}
			hash = hashOf(secret, bridge, provider, principal)
		}
		value := strings.NewReplacer(defaultPrincipal, principal, principalHash, hash)
		caller := skillsharing.Caller{ID: value.Replace(told.ID), Type: value.Replace(told.Type)}
		if err := cmp.Or(checkCallerValue(caller.ID), checkCallerValue(caller.Type)); err != nil {
			failure := run.NotExecuted(run.PermissionDenied, run.PhaseInvoke, "The provider is told who is calling, and that can't be sent: "+err.Error()+". Nothing was sent to the provider.")
			failure.Advice = run.AskOperator + " to rename the principal, or to change the option caller, for example to " + principalHash + "."
			return skillsharing.Caller{}, failure
		}
		return caller, nil
	}
}

// hashOf returns what stands for a principal at a provider, which has the origin of a URL.
func hashOf(secret []byte, bridge string, provider *url.URL, principal string) string {
	origin := provider.Host
	if authority, err := credential.AuthorityOf(&url.URL{Scheme: provider.Scheme, Host: provider.Host}); err == nil {
		origin = authority.String()
	}
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(lifetime.NewDigest(bridge, provider.Scheme, origin, principal).String())) // a hash never fails
	return hex.EncodeToString(mac.Sum(nil))
}
