package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The names of skills for language models have at most 64 letters, digits, hyphens and
// underscores. A skill's tool name is the plain one: its name, with an underscore for each other
// character. If that is too long, or if another skill could have it, it is the hashed one: the first
// characters of the plain name and a hash of the name.

// Sizes of tool names, in bytes.
const (
	maxToolName = 64
	toolStem    = 57 // how much of the plain name a hashed one has
	toolDigits  = 6  // of the hash
)

// builtInTools has the tools of fronts that are no skills.
var builtInTools = map[string]bool{"get_run": true, "search_skills": true, "describe_skill": true, "call_skill": true}

func isToolCharacter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}

// IsToolName reports whether a text has the form of a tool name.
func IsToolName(name string) bool {
	return name != "" && len(name) <= maxToolName && !strings.ContainsFunc(name, func(r rune) bool { return !isToolCharacter(r) })
}

// plainTool returns the plain tool name of a skill, which may be too long.
func plainTool(name string) string {
	return strings.Map(func(r rune) rune {
		if isToolCharacter(r) {
			return r
		}
		return '_'
	}, name)
}

// hashedTool returns the hashed tool name of a skill with that plain one.
func hashedTool(name, plain string) string {
	sum := sha256.Sum256([]byte(name))
	return plain[:min(len(plain), toolStem)] + "_" + hex.EncodeToString(sum[:toolDigits/2])
}

// looksHashed reports whether a plain name could equal a hashed one.
func looksHashed(plain string) bool {
	at := len(plain) - toolDigits - 1
	return at > 0 && plain[at] == '_' && strings.Trim(plain[at+1:], "0123456789abcdef") == ""
}

// assignTools returns the tool names of names, in their order; an empty name has none. Those for which
// hashed is true, those that are too long and all that share a plain name get the hashed one. So does
// one whose plain name is the hashed name of another.
func assignTools(names []string, hashed func(i int, plain string) bool) []string {
	tools := make([]string, len(names))
	byPlain := make(map[string]int, len(names))
	done := make([]bool, len(names))
	var queue []int
	hash := func(i int) {
		if !done[i] {
			done[i] = true
			queue = append(queue, i)
		}
	}
	for i, name := range names {
		if name == "" {
			continue
		}
		tools[i] = plainTool(name)
		if len(tools[i]) > maxToolName {
			hash(i)
			continue
		}
		if other, taken := byPlain[tools[i]]; taken {
			hash(other)
			hash(i)
			continue
		}
		byPlain[tools[i]] = i
		if hashed(i, tools[i]) {
			hash(i)
		}
	}
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		tools[i] = hashedTool(names[i], tools[i])
		if other, taken := byPlain[tools[i]]; taken {
			hash(other)
		}
	}
	return tools
}
