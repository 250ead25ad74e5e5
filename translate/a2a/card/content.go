package card

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// Bounds of the parts of a card that come from providers, in bytes.
const (
	maxDescribed   = 200     // the number of skills up to which their descriptors are read
	maxSkillsSize  = 8 << 20 // of all skills; those that do not fit are left out
	maxSkillSize   = 16 << 10
	maxSchemasSize = 2 << 20 // of the schemas of all skills
	maxSchemaSize  = 512 << 10
)

// content is the part of a card that all its forms and URLs share. It is immutable, except for the signature.
type content struct {
	skill             string // name of the only skill; empty: the card has all skills
	name, description string // of the agent
	skills            []byte // JSON array
	legacy            []byte // the same for A2A 0.2 and 0.1
	schemas           []byte // JSON object by the names of the skills; nil: none was read
	digest            [sha256.Size]byte
	modified          time.Time // the time when it was made

	mu        sync.Mutex
	base      string // the base URL in the signed card
	signature []byte
}

func (c *content) version() string { return hex.EncodeToString(c.digest[:6]) }

// size estimates the memory that the content takes, in bytes.
func (c *content) size() int {
	return 1<<10 + len(c.name) + len(c.description) + len(c.skills) + len(c.legacy) + len(c.schemas)
}

// seal sets the digest and the time of a content whose other fields are set, and returns it.
func (b *Builder) seal(c *content) *content {
	h := sha256.New()
	for _, part := range [][]byte{b.options, []byte(c.skill), []byte(c.name), []byte(c.description), c.skills, c.schemas} {
		fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	h.Sum(c.digest[:0])
	c.modified = time.Now().UTC().Truncate(time.Second)
	return c
}

// hashed returns a text with the options that the version of a card depends on.
func (b *Builder) hashed() []byte {
	o := &b.config
	signer := ""
	if o.Signer != nil {
		signer = o.Signer.kid
	}
	return fmt.Appendf(nil, "%q %q %q %q %q %q %q %q %t %t %+q %q %t",
		o.URL, o.Name, o.Description, o.Organization, o.Documentation, o.Icon, o.Versions, o.Form, o.Extended, o.Push, o.Security, signer, o.RequirePrincipal)
}

const (
	defaultName        = "Skill Bridge"
	defaultDescription = "Skills of several providers."
	maxAgentText       = 1000 // characters
	maxNamespaces      = 20
)

// noticeContent returns the content for callers that have to authenticate before they see any skill.
func (b *Builder) noticeContent() *content {
	s := skill{
		name: "authentication-required", title: "Authentication required",
		description: "This agent shows its skills to authenticated callers only. Authenticate as its security schemes or its operator say, and ask for the card again.",
		tags:        []string{"authentication"},
	}
	c := &content{name: cmp.Or(b.config.Name, defaultName), description: cmp.Or(b.config.Description, defaultDescription)}
	c.skills = fmt.Appendf(nil, "[%s]", s.json(false, maxSkillSize))
	c.legacy = c.skills
	return b.seal(c)
}

// contentOf returns the content for skills, which are sorted by name. The error is that of a context that has ended.
func (b *Builder) contentOf(ctx context.Context, entries []catalog.Entry) (*content, error) {
	described := len(entries) <= maxDescribed
	most := min(maxSkillSize, maxSkillsSize/max(1, len(entries)))
	skills, legacy, schemas := front.Writer{Buf: []byte{'['}}, front.Writer{Buf: []byte{'['}}, front.Writer{Buf: []byte{'{'}}
	shown := 0
	for i := range entries {
		s := skillOf(&entries[i], most)
		text := s.json(false, most)
		if len(skills.Buf)+len(text) > maxSkillsSize {
			break
		}
		shown++
		skills.Next()
		skills.Buf = append(skills.Buf, text...)
		if !described {
			continue
		}
		legacy.Next()
		legacy.Buf = append(legacy.Buf, s.json(true, 2*most)...)
		if err := addSchemas(ctx, &schemas, &s, entries[i].Descriptor, min(maxSchemaSize, maxSchemasSize/len(entries))); err != nil {
			return nil, err
		}
	}
	skills.CloseArray()
	legacy.CloseArray()
	schemas.Close()
	c := &content{
		name: cmp.Or(b.config.Name, defaultName), description: cmp.Or(b.config.Description, sentence(entries)),
		skills: skills.Buf, legacy: skills.Buf,
	}
	if described && shown > 0 {
		c.legacy, c.schemas = legacy.Buf, schemas.Buf
	}
	if shown < len(entries) {
		c.description += fmt.Sprintf(" This card has %d of %d skills.", shown, len(entries))
	}
	return b.seal(c), nil
}

// contentOfOne returns the content for one skill. The error is that of a context that has ended.
func (b *Builder) contentOfOne(ctx context.Context, d *translate.Description) (*content, error) {
	e := catalog.Entry{
		Name: d.Name, Title: d.Descriptor.Name, Namespace: d.Namespace, Version: d.Descriptor.Version, Description: d.Descriptor.Description,
		CapabilityType: d.Descriptor.CapabilityType, Descriptor: d.Descriptor,
		Connects: d.State == catalog.NeedsConsent,
	}
	c, err := b.contentOf(ctx, []catalog.Entry{e})
	if err != nil {
		return nil, err
	}
	s := skillOf(&e, maxSkillSize)
	c.skill, c.name, c.description = d.Name, cmp.Or(b.config.Name, s.title), cmp.Or(b.config.Description, s.description)
	return b.seal(c), nil
}

// sizeOf returns a lower bound for the size of the schema of inputs, in bytes.
func sizeOf(params []document.Parameter) int {
	size := 0
	for i := range params {
		size += len(params[i].Name) + len(params[i].Description) + len(params[i].Schema)
	}
	return size
}

// sentence describes an agent by the namespaces of its skills.
func sentence(entries []catalog.Entry) string {
	found := map[string]bool{}
	for i := range entries {
		found[entries[i].Namespace] = true
	}
	names := slices.Sorted(maps.Keys(found))
	if len(names) == 0 {
		return defaultDescription
	}
	more := ""
	if n := len(names) - maxNamespaces; n > 0 {
		names, more = names[:maxNamespaces], fmt.Sprintf(" and %d more", n)
	}
	return safetext.Line("Skills of "+strings.Join(names, ", "), maxAgentText) + more + "."
}

// maxSchemaDepth bounds the nesting of a schema in a card. Some clients read at most 100 levels, including those of the card
// around the schema.
const maxSchemaDepth = 48

// addSchemas adds the version and the schemas of a skill to the params of the extension, with up to most bytes for both
// schemas. A schema that does not fit, or that some clients can't read, is left out; d may be nil. The error is that of a context that has ended.
func addSchemas(ctx context.Context, w *front.Writer, s *skill, d *document.Descriptor, most int) (err error) {
	var input, output jsontext.Value
	if d != nil && sizeOf(d.Inputs) <= most { // else it would be left out
		if input, err = front.InputSchema(ctx, d, ""); err != nil {
			return err
		}
	}
	if d != nil && len(d.Output.Schema) <= most {
		if output, err = front.OutputSchema(ctx, d, ""); err != nil {
			return err
		}
	}
	w.Next()
	w.Buf = append(appendName(w.Buf, s.name), ':', '{')
	w.Optional("version", s.version)
	for _, m := range []struct {
		name   string
		schema jsontext.Value
	}{{"inputSchema", input}, {"outputSchema", output}} {
		if m.schema.Kind() != '{' || len(m.schema) > most || !readable(m.schema) {
			continue
		}
		if text := safetext.Escape(string(m.schema), "\t\r\n"); len(text) <= most {
			most -= len(text)
			w.Raw(m.name, jsontext.Value(text))
		}
	}
	w.Close()
	return nil
}

// readable reports whether all clients can read a JSON value: it does not nest too deep, and its numbers fit a double.
func readable(value jsontext.Value) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if dec.StackDepth() > maxSchemaDepth {
			return false
		}
		if token.Kind() == '0' && !strictjson.IsFinite(token.String()) {
			return false
		}
	}
}

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

// commonModes are the media types of messages that every skill accepts, and of outputs of skills without a mode of their own.
var commonModes = []string{"application/json", "text/plain"}

// skill holds the values of a card about one skill.
type skill struct {
	name, title, description, version string
	tags                              []string
	inputModes, outputModes           []string // empty: those of the agent
	example                           string   // empty: none
	connects                          bool     // calls ask the user to connect an account first
}

// skillOf returns the values of a card about a listed skill. Texts of the provider are cleaned, and bounded so that they take
// about most bytes.
func skillOf(e *catalog.Entry, most int) skill {
	s := skill{name: e.Name, version: safetext.TrimmedLine(e.Version, maxVersion), connects: e.Connects}
	s.title = cmp.Or(safetext.TrimmedLine(e.Title, min(maxTitle, most/4)), safetext.TrimmedLine(e.Name, maxTitle), "skill")
	s.description = cmp.Or(safetext.TrimmedLine(e.Description, min(maxDescription, most/2)), s.title)
	tags := []string{string(e.CapabilityType), e.Namespace}
	if d := e.Descriptor; d != nil {
		tags = append(tags, d.Tags...)
		s.inputModes, s.outputModes = inputModes(d.Inputs), outputModes(&d.Output)
		if example := front.SampleInputs(d.Inputs); len(example) <= maxExample {
			s.example = safetext.Escape(string(example), "")
		}
	}
	for _, tag := range tags[:min(len(tags), 2*maxTags)] {
		tag = safetext.TrimmedLine(tag, maxTag)
		if tag != "" && len(s.tags) < maxTags && !slices.Contains(s.tags, tag) {
			s.tags = append(s.tags, tag)
		}
	}
	return s
}

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
	short := *s
	for _, reduce := range []func(){
		func() {},
		func() { short.example = "" },
		func() {
			short.inputModes, short.outputModes, short.tags = nil, nil, s.tags[:min(len(s.tags), 2)]
			short.description = safetext.Line(s.description, 200)
		},
	} {
		reduce()
		if text := short.write(legacy); len(text) <= most {
			return text
		}
	}
	short.title, short.description = safetext.Line(s.title, 40), safetext.Line(s.description, 40)
	return short.write(legacy)
}

// legacyModes are the modes of A2A 0.1 that all skills have.
var legacyModes = []string{"text", "data"}

func (s *skill) write(legacy bool) []byte {
	return front.Object(func(w *front.Writer) {
		w.Name("id")
		w.Buf = appendName(w.Buf, s.name)
		w.Text("name", s.title)
		if s.connects {
			w.Text("description", front.DescriptionLine(s.description, maxDescription, true))
		} else {
			w.Text("description", s.description)
		}
		w.Texts("tags", s.tags)
		if s.example != "" {
			w.Texts("examples", []string{s.example})
		}
		modes := func(name string, modes []string) {
			if len(modes) > 0 && legacy {
				modes = slices.Concat(legacyModes, modes)
			}
			if len(modes) > 0 {
				w.Texts(name, modes)
			}
		}
		modes("inputModes", s.inputModes)
		modes("outputModes", s.outputModes)
	})
}

// appendName appends the name of a skill as a JSON string, with escapes for characters that are not visible.
func appendName(b []byte, name string) []byte {
	return append(b, safetext.Escape(string(front.AppendText(nil, name)), "")...)
}
