package agentskills

import (
	"cmp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Bounds of the fields of the front matter, in UTF-16 code units, which some installers count.
const (
	maxDescription = 1024
	maxWhat        = 600 // of what the description says before «Use when»
	maxTag         = 40
	maxTags        = 10
	maxField       = 200 // of metadata
)

// plain returns a text of a provider as one line of at most limit UTF-16 code units, without what could be taken for a tag of XML.
func plain(text string, limit int) string {
	line := safetext.Line(strings.ToValidUTF8(text, " "), limit)
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '<':
			return '‹'
		case r == '>':
			return '›'
		case r == utf8.RuneError, r&0xfffe == 0xfffe, 0xfdd0 <= r && r <= 0xfdef: // YAML 1.2 does not permit noncharacters
			return -1
		}
		return r
	}, line)
	return clip(strings.Join(strings.Fields(line), " "), limit)
}

// clip returns the beginning of a text that has at most limit UTF-16 code units. If it is not the whole text, its last character is an ellipsis.
func clip(text string, limit int) string {
	count, end := 0, 0
	for i, r := range text {
		if count < limit {
			end = i
		}
		if count += max(utf16.RuneLen(r), 1); count > limit {
			return strings.TrimRight(text[:end], " ") + "…"
		}
	}
	return text
}

// describe returns the description of a skill: what it does, and when to use it.
func describe(title, description string, tags []string) string {
	title = plain(title, maxField)
	what := cmp.Or(plain(description, maxWhat), title)
	if !strings.HasSuffix(what, ".") && !strings.HasSuffix(what, "…") && !strings.HasSuffix(what, "!") && !strings.HasSuffix(what, "?") {
		what += "."
	}
	if about := cleanTags(tags); len(about) > 0 {
		return clip(what+" Use when a task is about: "+strings.Join(about, ", ")+".", maxDescription)
	}
	return clip(what+" Use when a task needs: "+title+".", maxDescription)
}

// cleanTags returns the first tags, without empty ones and repetitions.
func cleanTags(tags []string) []string {
	var list []string
	known := map[string]bool{}
	for _, tag := range tags[:min(len(tags), 4*maxTags)] {
		tag = plain(tag, maxTag)
		if key := strings.ToLower(tag); tag != "" && !known[key] && len(list) < maxTags {
			known[key] = true
			list = append(list, tag)
		}
	}
	return list
}

// yamlEscapes are the characters that have a meaning in a double-quoted scalar.
var yamlEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quoted returns a text from plain as a double-quoted scalar of YAML.
func quoted(text string) string { return `"` + yamlEscapes.Replace(text) + `"` }

// yamlWords are scalars that YAML 1.1 does not take for text.
var yamlWords = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true, "false": true, "null": true}

// scalar returns the name of a skill as a scalar of YAML. Most names need no quotes, and some readers of front matter know none.
func scalar(name string) string {
	if name[0] < 'a' || yamlWords[name] {
		return quoted(name)
	}
	return name
}
