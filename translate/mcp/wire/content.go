package wire

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// Writer writes JSON.
type Writer struct{ front.Writer }

// TextContent adds a text to an array of content.
func (w *Writer) TextContent(text string) {
	w.Next()
	w.text(text)
}

// text adds a text as a value.
func (w *Writer) text(text string) {
	w.Buf = append(w.Buf, '{')
	w.Text("type", "text")
	w.Text("text", text)
	w.Close()
}

// Part adds a part of an output as a value. runID and i name files without a name.
func (w *Writer) Part(p *front.Part, runID string, i int) {
	mediaType := p.MediaType
	switch kind := p.Media(); {
	case p.Kind == front.PartData:
		w.text(string(p.Data))
	case p.Kind == front.PartURL:
		w.Buf = append(w.Buf, '{')
		w.Text("type", "resource_link")
		w.Text("uri", p.Text)
		w.Text("name", fileName(p, i))
		w.Optional("mimeType", mediaType)
		w.Close()
	case kind != "":
		w.Buf = append(w.Buf, '{')
		w.Text("type", kind)
		w.Text("data", p.Text)
		w.Text("mimeType", mediaType)
		w.Close()
	case p.Kind == front.PartText && p.Filename == "":
		w.text(p.Text)
	default:
		w.Buf = append(w.Buf, '{')
		w.Text("type", "resource")
		w.OpenMember("resource")
		w.Text("uri", "skill-output://"+url.PathEscape(runID)+"/"+url.PathEscape(fileName(p, i)))
		w.Optional("mimeType", mediaType)
		if p.Kind == front.PartText {
			w.Text("text", p.Text)
		} else {
			w.Text("blob", p.Text)
		}
		w.Close()
		w.Close()
	}
}

// fileName returns the name of a file of an output.
func fileName(p *front.Part, i int) string {
	if p.Filename != "" {
		return p.Filename
	}
	return "output-" + strconv.Itoa(i+1)
}

// IsJSON reports whether outputs of a content type are JSON values, which is the default.
func IsJSON(contentType string) bool {
	essence, _, _ := strings.Cut(contentType, ";")
	essence = strings.ToLower(strings.Trim(essence, " \t"))
	return essence == "" || essence == "application/json" || strings.HasSuffix(essence, "+json")
}

// Bounds of texts, in characters.
const (
	MaxQuoted      = 200
	MaxDescription = 2000
)

// MetaSkill is the member of a tool's _meta about its skill.
const MetaSkill = "io.github.skill-bridge/skill"
