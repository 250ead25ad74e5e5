package document

import (
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Why a skill is not listed because of its id alone.
const (
	SpacedID    = "its id begins or ends with a space, so that it could be mistaken for another"
	InvisibleID = "its id has invisible characters, or characters that change the direction of text"
)

// UnlistedID returns why no source lists a skill with an id; empty: its id is no reason.
func UnlistedID(id string) string {
	switch {
	case !safetext.Printable(id):
		return InvisibleID
	case strings.TrimSpace(id) != id:
		return SpacedID
	}
	return ""
}
