package options

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
)

// set parses one value. Its errors contain the value, unless it is a text, which may be a secret.
func set(target any, name, text string) error {
	switch to := target.(type) {
	case *string:
		*to = text
		return nil
	case *int:
		return setNumber(to, name, text)
	case *int64:
		return setSize(to, name, text)
	case *caddy.Duration:
		d, err := parseDuration(name, text)
		if err == nil && d <= 0 {
			err = fmt.Errorf("%s %q has to be longer than 0", name, text)
		}
		*to = d
		return err
	case **caddy.Duration:
		d, err := parseDuration(name, text)
		*to = &d
		return err
	}
	return fmt.Errorf("%s: values of type %T are not supported", name, target)
}

func setNumber(to *int, name, text string) (err error) {
	*to, err = strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange) && *to > 0:
		return fmt.Errorf("%s %q is too large", name, text)
	case err != nil || *to < 1:
		return fmt.Errorf("%s %q is not a number of at least 1", name, text)
	}
	return nil
}

func setSize(to *int64, name, text string) error {
	size, err := humanize.ParseBytes(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s %q is not a size, such as 10MiB: %w", name, text, err)
	case size == 0:
		return fmt.Errorf("%s %q is too small: the minimum is 1B", name, text)
	case size > math.MaxInt64:
		return fmt.Errorf("%s %q is too large", name, text)
	}
	*to = int64(size)
	return nil
}

// Shown is a duration in errors, as an operator writes it: in days if it has several, and no part of one.
type Shown time.Duration

func (d Shown) String() string {
	const day = 24 * time.Hour
	if whole := time.Duration(d); whole > day && whole%day == 0 {
		return strconv.Itoa(int(whole/day)) + "d"
	}
	return time.Duration(d).String()
}

func parseDuration(name, text string) (caddy.Duration, error) {
	d, err := caddy.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not a duration, such as 500ms, 30s, 10m or 7d: the units are ns, us, ms, s, m, h and d", name, text)
	}
	return caddy.Duration(d), nil
}
