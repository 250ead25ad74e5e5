package credentials

import (
	"cmp"
	"errors"

	"github.com/caddyserver/caddy/v2"
)

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
