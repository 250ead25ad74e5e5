package keptruns

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// digestOf returns a digest of arguments that does not depend on the order of their members, white space, and the notation of strings.
// Numbers are compared by their text, since they may have more digits than a float64.
func digestOf(args jsontext.Value) string {
	text := args.Clone()
	if len(text) == 0 {
		text = jsontext.Value("{}")
	}
	if text.Format(jsontext.ReorderRawObjects(true)) != nil {
		// It has a name twice, whose order may matter.
		text = args.Clone()
		_ = text.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) // else it is compared as it is
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ParseKey reads the lines of the header Idempotency-Key: a String (RFC 9651, section 4.2.5).
func ParseKey(lines []string) (string, error) {
	if len(lines) > 1 {
		return "", errors.New("is there more than once")
	}
	text := strings.Trim(lines[0], " \t")
	rest, ok := strings.CutPrefix(text, `"`)
	if !ok {
		return "", errors.New(`must be a string in double quotes, such as "8e03978e-40d5-43dd-bc93-6894a57f9324"`)
	}
	var key strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"' && i == len(rest)-1:
			if key.Len() == 0 {
				return "", errors.New("is empty")
			}
			return key.String(), nil
		case c == '"':
			return "", errors.New("has something after the string")
		case c == '\\' && i+1 < len(rest) && (rest[i+1] == '"' || rest[i+1] == '\\'):
			i++
			key.WriteByte(rest[i])
		case c == '\\' || c < ' ' || c > '~':
			return "", errors.New("has a character that may not be in a string of RFC 9651")
		default:
			key.WriteByte(c)
		}
	}
	return "", errors.New("has no double quote at the end of the string")
}

// locks are mutexes by name. A mutex exists only while callers hold it or wait for it.
type locks struct {
	mu sync.Mutex
	of map[string]*lock
}

type lock struct {
	held  chan struct{} // of capacity 1: full while it is held
	users int
}

// lock waits until no other caller holds the lock of a name.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	own := l.of[name]
	if own == nil {
		own = &lock{held: make(chan struct{}, 1)}
		if l.of == nil {
			l.of = map[string]*lock{}
		}
		l.of[name] = own
	}
	own.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(l.of, name)
		}
	}
	select {
	case own.held <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
	return func() {
		<-own.held
		leave()
	}, nil
}
