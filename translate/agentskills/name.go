package agentskills

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Names of skills have 1 to 64 lower-case letters, digits and hyphens, and no hyphen at the beginning, at the end or after another.
const (
	maxName  = 64
	nameStem = 57 // how much of the plain name a hashed one has
)

// plainName returns a tool name in lower case, with one hyphen for other characters that follow one another. It may be empty.
func plainName(tool string) string {
	b := make([]byte, 0, len(tool))
	for i := range len(tool) {
		c := tool[i]
		switch {
		case 'A' <= c && c <= 'Z':
			b = append(b, c-'A'+'a')
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			b = append(b, c)
		case len(b) > 0 && b[len(b)-1] != '-':
			b = append(b, '-')
		}
	}
	return strings.TrimSuffix(string(b[:min(len(b), maxName)]), "-")
}

// hashedName returns the name of a skill whose plain name is that of another, too.
func hashedName(tool, plain string) string {
	sum := sha256.Sum256([]byte(tool))
	stem := cmp.Or(strings.TrimSuffix(plain[:min(len(plain), nameStem)], "-"), "skill")
	return stem + "-" + hex.EncodeToString(sum[:3])
}

// names are the names of skills. They depend on the tool names of all skills of the bridge, not on what a caller may see.
type names map[string]int // how many tools have a plain name

func newNames(tools []string) names {
	n := make(names, len(tools))
	for _, tool := range tools {
		n[plainName(tool)]++
	}
	return n
}

// of returns the name of the skill with a tool name: the plain one, or the hashed one if another skill has the plain one, too.
func (n names) of(tool string) string {
	plain := plainName(tool)
	if plain == "" || n[plain] > 1 {
		return hashedName(tool, plain)
	}
	return plain
}
