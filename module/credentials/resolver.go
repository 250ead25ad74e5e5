package credentials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// resolver replaces the placeholders of options, and collects the secrets among their values.
type resolver struct {
	replacer *caddy.Replacer
	warnings map[string][]string // options by what is dangerous about them
	secrets  []string            // values of secret options, and their parts that are redacted separately
	files    bool                // a value is from a file
}

func newResolver() *resolver {
	return &resolver{replacer: caddy.NewReplacer(), warnings: map[string][]string{}}
}

// What is dangerous about options.
const (
	literal = "a secret is written in the configuration, where Caddy's admin API and its saved configuration show it; use {file./path} or {env.NAME}"
	printed = "a secret is in an environment variable, and Caddy was started with --environ, which prints all of them, under systemd to the journal: use {file./path}, or start Caddy without --environ"
	short   = "a secret has fewer than 4 bytes: it can be guessed, and is removed from logs and answers only where it stands alone; check the file or variable"
	quoted  = "a secret begins and ends with a quotation mark, which is sent as a part of it; remove the marks from the file or variable, unless they belong to the secret"
)

// warnIf notes what is dangerous about an option.
func (r *resolver) warnIf(dangerous bool, warning, option string) {
	if dangerous {
		r.warnings[warning] = append(r.warnings[warning], option)
	}
}

// minPart is the minimum length of a part of a value that is redacted separately, in bytes. A
// shorter part may be a word that occurs in unrelated texts.
const minPart = 6

// keep adds a text to the secrets, and also its part after an authentication scheme (RFC 9110,
// section 11.4), because a provider may repeat that part alone.
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

// keepParts adds the values of placeholders to the secrets.
func (r *resolver) keepParts(parts []string) {
	for _, part := range parts {
		if len(part) >= minPart {
			r.keep(part)
		}
	}
}

// scheme matches known authentication schemes. Other first words are parts of passphrases.
var scheme = regexp.MustCompile(`(?i)^(basic|bearer|token|key|api-?key|oauth|dpop|privatetoken) +`)

// placeholderName matches the names of placeholders that an error may contain. A secret with braces
// in it does not match.
var placeholderName = regexp.MustCompile(`^[a-z_]+\.[\w./\\:-]+$`)

// text replaces the placeholders of an option. The error names the option and the placeholder,
// but no value.
func (r *resolver) text(option, text string) (string, error) {
	value, _, err := r.replace(option, text)
	return value, err
}

// secret is like text, for options whose whole value is secret.
func (r *resolver) secret(option, text string) (string, error) {
	value, parts, err := r.replace(option, text)
	if err != nil {
		return "", err
	}
	r.warnIf(value != "" && len(parts) == 0, literal, option)
	r.warnIf(isPrinted(text), printed, option)
	r.warnIf(len(parts) > 0 && len(value) < credential.MinInWord, short, option)
	r.warnIf(inQuotes(value) || slices.ContainsFunc(parts, inQuotes), quoted, option)
	r.keep(value)
	r.keepParts(parts)
	return value, nil
}

// headerSecret is like secret, for values of headers.
func (r *resolver) headerSecret(option, text string) (string, error) {
	value, err := r.secret(option, text)
	if err == nil {
		err = checkHeaderText(value)
		if err != nil {
			err = fmt.Errorf("%s: %w", option, err)
		}
	}
	return value, err
}

// mixed is like text, for options in which only the values of placeholders are secret.
func (r *resolver) mixed(option, text string) (string, error) {
	value, parts, err := r.replace(option, text)
	r.warnIf(isPrinted(text), printed, option)
	r.keepParts(parts)
	return value, err
}

// replace replaces the placeholders of an option, and also returns their values.
func (r *resolver) replace(option, text string) (value string, parts []string, err error) {
	value, err = r.replacer.ReplaceFunc(text, func(name string, val any) (any, error) {
		s := caddy.ToString(val)
		if strings.HasPrefix(name, "file.") {
			r.files = true
			s = strings.TrimRight(s, "\r\n") // the line break at the end of a file
		}
		if mark := encodingMark(s); mark != "" {
			return nil, fmt.Errorf("the value of {%s} begins with a byte order mark (%s), which would be sent as a part of the secret: save it as UTF-8 without one", name, mark)
		}
		if strings.TrimSpace(s) != "" {
			parts = append(parts, s)
			return s, nil
		}
		if !placeholderName.MatchString(name) {
			return nil, errors.New(`a placeholder is not known: write {env.NAME} for the environment variable NAME, {file./path} for a file, or \{ for a brace that belongs to the text`)
		}
		return nil, missingValue(name)
	})
	if err == nil {
		err = checkBraces(text)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", option, err)
	}
	return value, parts, nil
}

// encodingMark returns the encoding of a text that begins with a byte order mark; empty: it has none.
func encodingMark(text string) string {
	for mark, encoding := range map[string]string{"\xef\xbb\xbf": "UTF-8", "\xff\xfe": "UTF-16", "\xfe\xff": "UTF-16"} {
		if strings.HasPrefix(text, mark) {
			return encoding
		}
	}
	return ""
}

// inQuotes reports whether a secret begins and ends with the same quotation mark, as in a file for a shell.
func inQuotes(secret string) bool {
	return len(secret) > 1 && strings.ContainsRune("\"'`", rune(secret[0])) && secret[len(secret)-1] == secret[0]
}

// missingValue returns why a placeholder has no value. The name matches placeholderName.
func missingValue(name string) error {
	if variable, ok := strings.CutPrefix(name, "env."); ok {
		state := "is not set where Caddy runs" // a reload has the environment of the running Caddy, not that of the shell
		if _, set := os.LookupEnv(variable); set {
			state = "is empty, or has only blanks"
		}
		return fmt.Errorf("placeholder {%s} is empty: environment variable %s %s", name, variable, state)
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "http.request."), "uri.path.") // as a Caddyfile has it, from which Caddy makes long names
	if path, ok := strings.CutPrefix(name, "file."); ok {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("placeholder {%s} is empty: a file needs an absolute path: {file./path/to/%s}", name, path)
		}
		return fmt.Errorf("placeholder {%s} is empty: file %s: %w", name, path, unreadable(path))
	}
	return fmt.Errorf("placeholder {%s} is empty or not known: secrets can be {env.NAME} or {file./path}", name)
}

// unreadable returns why a file has no text that Caddy can use.
func unreadable(path string) error {
	_, err := os.ReadFile(path) // it fails for a directory
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err // without the path
	}
	return cmp.Or(err, errors.New("it has no text, or only blanks, or more than Caddy reads (1 MiB)"))
}

// ownerKey is the context key of the owner of credentials.
type ownerKey struct{}

// WithOwner returns a context for loading the credentials of a source. The lines that they log have
// the owner: the namespace of a provider or registry, or the name of a skill.
func WithOwner(ctx caddy.Context, owner string) caddy.Context {
	ctx.Context = context.WithValue(ctx.Context, ownerKey{}, owner)
	return ctx
}

// logger returns the logger of ctx's module, with the owner in each line.
func logger(ctx caddy.Context) *zap.Logger {
	if owner, ok := ctx.Value(ownerKey{}).(string); ok {
		return ctx.Logger().With(zap.String("source", owner))
	}
	return ctx.Logger()
}

// warn logs what is dangerous about options.
func (r *resolver) warn(logger *zap.Logger) {
	for _, text := range slices.Sorted(maps.Keys(r.warnings)) {
		logger.Warn(text, zap.Strings("options", r.warnings[text]))
	}
}

// isPrinted reports whether the value of an option is from an environment variable, and Caddy has printed those when it was started.
func isPrinted(text string) bool {
	return strings.Contains(text, "{env.") && printsEnvironment(os.Args)
}

// printsEnvironment reports whether a command line is that of caddy run with its flag --environ, or with a group of short flags that has -e.
func printsEnvironment(args []string) bool {
	return len(args) > 1 && args[1] == "run" && slices.ContainsFunc(args[2:], environFlag.MatchString)
}

var environFlag = regexp.MustCompile(`^(--environ(=(1|t|T|true|TRUE|True))?|-[rw]*e[^=]*)$`)

// sealed is a value that package fmt can't print. It prints unexported fields of structs without
// calling their methods, but not what a function returns.
type sealed[T any] func() T

func seal[T any](value T) sealed[T] { return func() T { return value } }

// checkPresent refuses an empty option that has no default.
func checkPresent(text string) error {
	if text == "" {
		return errors.New("must be set")
	}
	return nil
}

// checkOneOf refuses an option that is none of two words, or empty.
func checkOneOf(text, one, other string) error {
	if text != "" && text != one && text != other {
		return errors.New("must be " + one + " or " + other)
	}
	return nil
}

// checkShell refuses a secret in the form of a shell's variable, or with a placeholder that lacks a brace. The error does not contain the text.
func checkShell(text string) error {
	if shellVariable.MatchString(text) {
		return errors.New("this looks like a variable of a shell, which is not replaced here: write {env.NAME} for the environment variable NAME, or {file./path}")
	}
	return checkBraces(text)
}

// checkBraces refuses placeholders that lack a brace, which Caddy leaves as they are. The error does not contain the text.
func checkBraces(text string) error {
	switch {
	case unclosed.MatchString(text):
		return errors.New("has a placeholder without the closing brace: write {env.NAME} or {file./path}")
	case unopened.MatchString(text):
		return errors.New("has a placeholder without the opening brace: write {env.NAME} or {file./path}")
	}
	return nil
}

// unclosed matches {env.NAME or {file./path without a brace behind it, unopened env.NAME} or file./path} without one before it.
var (
	unclosed = regexp.MustCompile(`(^|[^\\])\{(env\.|file\.|\$)[^}]*$`)
	unopened = regexp.MustCompile(`(^|[\s=:])(env\.|file\./)[^{}\s]*\}`)
)

// shellVariable matches $NAME and ${NAME}, also after an authentication scheme.
var shellVariable = regexp.MustCompile(`^(\w+ )?\$([A-Z_][A-Z0-9_]+|\{[A-Za-z_]\w*\})$`)

// checkHeaderName refuses headers that must not carry a credential. The empty name stands for the
// default.
func checkHeaderName(name string) error {
	if before, _, colon := strings.Cut(name, ":"); colon && httpguts.ValidHeaderFieldName(before) {
		return fmt.Errorf("header %q has a colon: write only the name, %s", name, before)
	}
	if name != "" && document.ForbiddenHeader(name) {
		return fmt.Errorf("header %q must not carry a credential", name)
	}
	return nil
}

// checkHeaderText refuses texts that can't be the value of a header (RFC 9110, section 5.5), also with placeholders. The error does not contain the text.
func checkHeaderText(text string) error {
	if !httpguts.ValidHeaderFieldValue(text) {
		return errors.New("contains a line break or another control character")
	}
	return nil
}

// CheckSecret checks an option whose value is a secret, before placeholders are replaced.
func CheckSecret(text string) error { return cmp.Or(checkPresent(text), checkShell(text)) }

// Secret replaces the placeholders of an option whose value is a secret. It logs a warning with the name of the option if there is none. The
// error does not name the option.
func Secret(ctx caddy.Context, option, text string) (string, error) {
	r := newResolver()
	value, err := r.secret(option, text)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	r.warn(logger(ctx))
	return value, nil
}

// Text replaces the placeholders of an option whose value is not secret. Each must have a value. The error does not name the option.
func Text(text string) (string, error) {
	value, err := newResolver().text("", text)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	return value, nil
}
