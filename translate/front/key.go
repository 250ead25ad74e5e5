package front

import (
	"errors"
	"strings"

	"github.com/google/uuid"
)

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

// IsRandomUUID reports whether a key can't be guessed, if it was made as it says.
func IsRandomUUID(key string) bool {
	u, err := uuid.Parse(key)
	return err == nil && len(key) == len(u.String()) && (u.Version() == 4 || u.Version() == 7)
}
