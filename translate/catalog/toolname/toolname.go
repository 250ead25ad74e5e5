// Package toolname makes the names of skills for language models: at most 64 letters, digits, hyphens and
// underscores. A skill's tool name is the plain one: its name, with an underscore for each other
// character. If that is too long, or if another skill could have it, it is the hashed one: the first
// characters of the plain name and a hash of the name.
package toolname

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Sizes of tool names, in bytes.
const (
	MaxName = 64
	Stem    = 57 // how much of the plain name a hashed one has
	Digits  = 6  // of the hash
)

// BuiltIn has the tools of fronts that are no skills.
var BuiltIn = map[string]bool{"get_run": true, "search_skills": true, "describe_skill": true, "call_skill": true}

func isCharacter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}

// IsName reports whether a text has the form of a tool name.
func IsName(name string) bool {
	return name != "" && len(name) <= MaxName && !strings.ContainsFunc(name, func(r rune) bool { return !isCharacter(r) })
}

// Plain returns the plain tool name of a skill, which may be too long.
func Plain(name string) string {
	return strings.Map(func(r rune) rune {
		if isCharacter(r) {
			return r
		}
		return '_'
	}, name)
}

// Hashed returns the hashed tool name of a skill with that plain one.
func Hashed(name, plain string) string {
	sum := sha256.Sum256([]byte(name))
	return plain[:min(len(plain), Stem)] + "_" + hex.EncodeToString(sum[:Digits/2])
}

// LooksHashed reports whether a plain name could equal a hashed one.
func LooksHashed(plain string) bool {
	at := len(plain) - Digits - 1
	return at > 0 && plain[at] == '_' && strings.Trim(plain[at+1:], "0123456789abcdef") == ""
}

// Assign returns the tool names of names, in their order; an empty name has none. Those for which
// hashed is true, those that are too long and all that share a plain name get the hashed one. So does
// one whose plain name is the hashed name of another.
func Assign(names []string, hashed func(i int, plain string) bool) []string {
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
		tools[i] = Plain(name)
		if len(tools[i]) > MaxName {
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
		tools[i] = Hashed(names[i], tools[i])
		if other, taken := byPlain[tools[i]]; taken {
			hash(other)
		}
	}
	return tools
}
