package skillfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Bounds of the fields of the front matter, in UTF-16 code units, which some installers count.
const (
	MaxDescription = 1024
	MaxField       = 200 // of metadata
	maxWhat        = 600 // of what the description says before «Use when»
	maxTag         = 40
	maxTags        = 10
)

// FrontMatter is the front matter of a SKILL.md.
type FrontMatter struct {
	Name                      string
	Description               string // from [Plain] or [Describe]
	Compatibility             string // the same; empty: it has none
	Version, Provider, Source string
}

// String returns the front matter as YAML, between its lines.
func (f *FrontMatter) String() string {
	compatibility := ""
	if f.Compatibility != "" {
		compatibility = "compatibility: " + quoted(f.Compatibility) + "\n"
	}
	return fmt.Sprintf("---\nname: %s\ndescription: %s\n%smetadata:\n  version: %s\n  provider: %s\n  source: %s\n---\n",
		scalar(f.Name), quoted(f.Description), compatibility, quoted(Plain(f.Version, MaxField)), quoted(Plain(f.Provider, MaxField)), quoted(Plain(f.Source, MaxField)))
}

// Plain returns a text of a provider as one line of at most limit UTF-16 code units, without what could be taken for a tag of XML.
func Plain(text string, limit int) string {
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

// Describe returns the description of a skill: what it does, and when to use it.
func Describe(title, description string, tags []string) string {
	title = cmp.Or(Plain(title, MaxField), "skill")
	what := cmp.Or(Plain(description, maxWhat), title)
	if !strings.HasSuffix(what, ".") && !strings.HasSuffix(what, "…") && !strings.HasSuffix(what, "!") && !strings.HasSuffix(what, "?") {
		what += "."
	}
	if about := CleanTags(tags); len(about) > 0 {
		return clip(what+" Use when a task is about: "+strings.Join(about, ", ")+".", MaxDescription)
	}
	return clip(what+" Use when a task needs: "+title+".", MaxDescription)
}

// CleanTags returns the first tags, without empty ones and repetitions.
func CleanTags(tags []string) []string {
	var list []string
	known := map[string]bool{}
	for _, tag := range tags[:min(len(tags), 4*maxTags)] {
		tag = Plain(tag, maxTag)
		if key := strings.ToLower(tag); tag != "" && !known[key] && len(list) < maxTags {
			known[key] = true
			list = append(list, tag)
		}
	}
	return list
}

// yamlEscapes are the characters that have a meaning in a double-quoted scalar.
var yamlEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quoted returns a text from [Plain] as a double-quoted scalar of YAML.
func quoted(text string) string { return `"` + yamlEscapes.Replace(text) + `"` }

// yamlWords are scalars that YAML 1.1 does not take for text.
var yamlWords = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true, "false": true, "null": true}

// scalar returns the name of a skill as a scalar of YAML. Most names need no quotes, and some readers of front matter know none.
func scalar(name string) string {
	if name[0] < 'a' || yamlWords[name] || name != PlainName(name) {
		return quoted(name)
	}
	return name
}

// Names of skills have 1 to 64 lower-case letters, digits and hyphens, and no hyphen at the beginning, at the end or after another.
const (
	maxName  = 64
	nameStem = 57 // how much of the plain name a hashed one has
)

// PlainName returns a tool name in lower case, with one hyphen for other characters that follow one another. It may be empty.
func PlainName(tool string) string {
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

// HashedName returns the name of a skill whose plain name is that of another, too.
func HashedName(tool, plain string) string {
	sum := sha256.Sum256([]byte(tool))
	stem := cmp.Or(strings.TrimSuffix(plain[:min(len(plain), nameStem)], "-"), "skill")
	return stem + "-" + hex.EncodeToString(sum[:3])
}
