package credentials

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// resolver replaces the placeholders of settings and remembers which secrets
// had none.
type resolver struct {
	replacer *caddy.Replacer
	literal  []string // options whose secret is written in the configuration itself
	secrets  []string // the values of secret settings, and the parts of them that are secrets of their own
}

func newResolver() *resolver { return &resolver{replacer: caddy.NewReplacer()} }

// minPart is the length of the shortest part of a value that counts as a secret of its
// own, in bytes. A shorter one may be a word, and would be removed from unrelated texts.
const minPart = 6

// keep records a text as a secret, and also its part after a scheme (RFC 9110, section
// 11.4), which a peer may repeat alone.
func (r *resolver) keep(text string) {
	texts := []string{text}
	if credentials := strings.TrimSpace(text[len(scheme.FindString(text)):]); len(credentials) >= minPart {
		texts = append(texts, credentials)
	}
	for _, text := range texts {
		if text != "" && !slices.Contains(r.secrets, text) {
			r.secrets = append(r.secrets, text)
		}
	}
}

// keepParts records the values of placeholders.
func (r *resolver) keepParts(parts []string) {
	for _, part := range parts {
		if len(part) >= minPart {
			r.keep(part)
		}
	}
}

// scheme matches the schemes of credentials. Other words do not count, so that
// passphrases stay whole.
var scheme = regexp.MustCompile(`(?i)^(basic|bearer|token|key|api-?key|oauth|dpop|privatetoken) +`)

// placeholderName matches names that an error may repeat: a secret with braces in it
// does not look like one.
var placeholderName = regexp.MustCompile(`^[a-z_]+\.[\w./\\:-]+$`)

// text resolves the placeholders of a setting. The error names the option and
// the placeholder, never a value.
func (r *resolver) text(option, text string) (string, error) {
	value, _, err := r.replace(option, text)
	return value, err
}

// secret is like text, for settings that must stay secret.
func (r *resolver) secret(option, text string) (string, error) {
	value, parts, err := r.replace(option, text)
	if err != nil {
		return "", err
	}
	if value != "" && len(parts) == 0 {
		r.literal = append(r.literal, option)
	}
	r.keep(value)
	r.keepParts(parts)
	return value, nil
}

// mixed is like text, for settings in which only the values of placeholders are secret.
func (r *resolver) mixed(option, text string) (string, error) {
	value, parts, err := r.replace(option, text)
	r.keepParts(parts)
	return value, err
}

// replace also returns the values of the placeholders.
func (r *resolver) replace(option, text string) (value string, parts []string, err error) {
	value, err = r.replacer.ReplaceFunc(text, func(name string, val any) (any, error) {
		s := caddy.ToString(val)
		if strings.HasPrefix(name, "file.") {
			s = strings.TrimRight(s, "\r\n") // files end in a line break, secrets do not
		}
		if s != "" {
			parts = append(parts, s)
			return s, nil
		}
		if !placeholderName.MatchString(name) {
			return nil, errors.New(`a placeholder is not known; write \{ for a brace that belongs to the text`)
		}
		return nil, fmt.Errorf("placeholder {%s} is empty or not known", name)
	})
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", option, err)
	}
	return value, parts, nil
}

// ownerKey is the context key of the owner of credentials.
type ownerKey struct{}

// WithOwner returns a context whose credentials name their owner in log lines: the
// namespace of a provider or registry, or the name of a skill.
func WithOwner(ctx caddy.Context, owner string) caddy.Context {
	ctx.Context = context.WithValue(ctx.Context, ownerKey{}, owner)
	return ctx
}

// logger is the one of ctx's module, with the owner in each line.
func logger(ctx caddy.Context) *zap.Logger {
	if owner, ok := ctx.Value(ownerKey{}).(string); ok {
		return ctx.Logger().With(zap.String("source", owner))
	}
	return ctx.Logger()
}

// warn logs once which secrets stand in the configuration itself.
func (r *resolver) warn(logger *zap.Logger) {
	if len(r.literal) == 0 {
		return
	}
	logger.Warn("a secret is written in the configuration, where Caddy's admin API and its saved configuration show it; use {env.NAME} or {file./path}",
		zap.Strings("options", r.literal))
}

// sealed holds a value that printing does not show: the functions of package fmt
// look through structs, maps and pointers, exported or not, whatever methods
// those have.
type sealed[T any] func() T

func seal[T any](value T) sealed[T] { return func() T { return value } }

// checkPresent refuses the empty text for an option that has no default.
func checkPresent(text string) error {
	if text == "" {
		return errors.New("must be set")
	}
	return nil
}

// checkHeaderName refuses names of headers that must not carry a credential.
// An empty name stands for the default.
func checkHeaderName(name string) error {
	if name != "" && document.ForbiddenHeader(name) {
		return fmt.Errorf("header %q must not carry a credential", name)
	}
	return nil
}

// checkHeaderValue refuses texts that cannot be the value of a header (RFC 9110,
// section 5.5). The error does not repeat it.
func checkHeaderValue(option, value string) error {
	if err := checkHeaderText(value); err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return nil
}

// checkHeaderText is [checkHeaderValue] without the option's name. It also checks texts
// with placeholders: no value of a placeholder makes an invalid text valid.
func checkHeaderText(text string) error {
	if !httpguts.ValidHeaderFieldValue(text) {
		return errors.New("contains a line break or another control character")
	}
	return nil
}
