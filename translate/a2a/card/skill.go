package card

import (
	"cmp"
	"mime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Bounds of the texts of a skill, in characters, and of its lists.
const (
	maxTitle       = 200
	maxDescription = 1000
	maxTag         = 64
	maxTags        = 20
	maxMode        = 100
	maxModes       = 20
	maxExample     = 2 << 10 // bytes
	maxVersion     = 100
)

// commonModes are the media types of messages that every skill accepts.
var commonModes = []string{"application/json", "text/plain"}

// skill holds the values of a card about one skill.
type skill struct {
	name, title, description, version string
	tags                              []string
	inputModes, outputModes           []string // empty: those of the agent
	example                           string   // empty: none
}

// skillOf returns the values of a card about a listed skill. Texts of the provider are cleaned, and bounded so that they take
// about most bytes.
func skillOf(e *catalog.Entry, most int) skill {
	s := skill{name: e.Name, version: line(e.Version, maxVersion)}
	s.title = cmp.Or(line(e.Title, min(maxTitle, most/4)), line(e.Name, maxTitle), "skill")
	s.description = cmp.Or(line(e.Description, min(maxDescription, most/2)), s.title)
	tags := []string{string(e.CapabilityType), e.Namespace}
	if d := e.Descriptor; d != nil {
		tags = append(tags, d.Tags...)
		s.inputModes, s.outputModes = inputModes(d.Inputs), outputModes(&d.Output)
		if example := front.SampleInputs(d.Inputs); len(example) <= maxExample {
			s.example = safetext.Escape(string(example), "")
		}
	}
	for _, tag := range tags[:min(len(tags), 2*maxTags)] {
		tag = line(tag, maxTag)
		if tag != "" && len(s.tags) < maxTags && !slices.Contains(s.tags, tag) {
			s.tags = append(s.tags, tag)
		}
	}
	return s
}

// line returns a text of a provider as one line of at most limit characters.
func line(text string, limit int) string { return strings.TrimSpace(safetext.Line(text, limit)) }

// inputModes returns the media types of messages to a skill: [commonModes], and those of the files that its inputs accept.
func inputModes(params []document.Parameter) []string {
	modes := slices.Clone(commonModes)
	for i := range params {
		var file struct {
			ContentEncoding  string `json:"contentEncoding"`
			ContentMediaType string `json:"contentMediaType"`
		}
		if json.Unmarshal(params[i].Schema, &file) != nil || !strings.EqualFold(file.ContentEncoding, "base64") {
			continue // a schema may also be true or false
		}
		modes = addMode(modes, cmp.Or(file.ContentMediaType, "application/octet-stream"))
	}
	return modes
}

// outputModes returns the media type of a skill's output.
func outputModes(o *document.Output) []string { return addMode(nil, o.ContentType) }

// addMode appends a media type, unless it is invalid or already in the list.
func addMode(modes []string, mode string) []string {
	if len(mode) > maxMode || len(modes) >= maxModes || slices.Contains(modes, mode) {
		return modes
	}
	if kind, _, err := mime.ParseMediaType(mode); err != nil || !strings.Contains(kind, "/") || !safetext.Printable(mode) {
		return modes
	}
	return append(modes, mode)
}

// json returns the skill as an element of a card's skills, with up to most bytes unless the name alone takes more. legacy
// adds the modes of A2A 0.1, which are not media types. To make it fit, json first leaves out the example, then the modes and
// most tags, and then shortens the texts.
func (s *skill) json(legacy bool, most int) []byte {
	for _, reduced := range []func(*skill){
		func(*skill) {},
		func(s *skill) { s.example = "" },
		func(s *skill) {
			s.inputModes, s.outputModes, s.tags = nil, nil, s.tags[:min(len(s.tags), 2)]
			s.description = safetext.Line(s.description, 200)
		},
	} {
		short := *s
		reduced(&short)
		if text := short.write(legacy); len(text) <= most {
			return text
		}
	}
	short := skill{name: s.name, title: safetext.Line(s.title, 40), description: safetext.Line(s.description, 40), tags: s.tags[:min(len(s.tags), 2)]}
	return short.write(legacy)
}

// legacyModes are the modes of A2A 0.1 that all skills have.
var legacyModes = []string{"text", "data"}

func (s *skill) write(legacy bool) []byte {
	var w front.Writer
	w.Open()
	w.Name("id")
	w.Buf = appendName(w.Buf, s.name)
	w.Text("name", s.title)
	w.Text("description", s.description)
	w.Texts("tags", s.tags)
	if s.example != "" {
		w.Texts("examples", []string{s.example})
	}
	for _, m := range []struct {
		name  string
		modes []string
	}{{"inputModes", s.inputModes}, {"outputModes", s.outputModes}} {
		switch {
		case len(m.modes) == 0:
		case legacy:
			w.Texts(m.name, slices.Concat(legacyModes, m.modes))
		default:
			w.Texts(m.name, m.modes)
		}
	}
	w.Close()
	return w.Buf
}

// appendName appends the name of a skill as a JSON string, with escapes for characters that are not visible.
func appendName(b []byte, name string) []byte {
	return append(b, safetext.Escape(string(front.AppendText(nil, name)), "")...)
}
