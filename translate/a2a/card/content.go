package card

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Bounds of the parts of a card that come from providers, in bytes.
const (
	maxDescribed   = 200     // the number of skills up to which their descriptors are read
	maxSkillsSize  = 8 << 20 // of all skills; those that do not fit are left out
	maxSkillSize   = 16 << 10
	maxSchemasSize = 2 << 20 // of the schemas of all skills
	maxSchemaSize  = 256 << 10
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
	security := make([]SecurityScheme, len(o.Security))
	copy(security, o.Security)
	signer := ""
	if o.Signer != nil {
		signer = o.Signer.kid
	}
	return fmt.Appendf(nil, "%q %q %q %q %q %q %q %q %t %t %+q %q %t",
		o.URL, o.Name, o.Description, o.Organization, o.Documentation, o.Icon, o.Versions, o.Form, o.Extended, o.Push, security, signer, o.RequirePrincipal)
}

const (
	defaultName        = "Skill Bridge"
	defaultDescription = "Skills of several providers."
	maxAgentName       = 200  // characters
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
	var skills, legacy, schemas front.Writer
	skills.Buf, legacy.Buf = append(skills.Buf, '['), append(legacy.Buf, '[')
	schemas.Open()
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
		share := min(maxSchemaSize, maxSchemasSize/len(entries))
		if err := addSchemas(ctx, &schemas, &s, entries[i].Descriptor, share); err != nil {
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

// sizeOf returns a lower bound for the size of the schema of inputs, in bytes.
func sizeOf(params []document.Parameter) int {
	size := 0
	for i := range params {
		size += len(params[i].Name) + len(params[i].Description) + len(params[i].Schema)
	}
	return size
}

// contentOfOne returns the content for one skill. The error is that of a context that has ended.
func (b *Builder) contentOfOne(ctx context.Context, d *translate.Description) (*content, error) {
	s := skillOf(&catalog.Entry{
		Name: d.Name, Title: d.Descriptor.Name, Namespace: d.Namespace, Version: d.Descriptor.Version, Description: d.Descriptor.Description,
		CapabilityType: d.Descriptor.CapabilityType, Descriptor: d.Descriptor,
	}, maxSkillSize)
	var schemas front.Writer
	schemas.Open()
	if err := addSchemas(ctx, &schemas, &s, d.Descriptor, 2*maxSchemaSize); err != nil {
		return nil, err
	}
	schemas.Close()
	return b.seal(&content{
		skill: d.Name, name: cmp.Or(b.config.Name, s.title), description: cmp.Or(b.config.Description, s.description),
		skills: fmt.Appendf(nil, "[%s]", s.json(false, maxSkillSize)), legacy: fmt.Appendf(nil, "[%s]", s.json(true, 2*maxSkillSize)),
		schemas: schemas.Buf,
	}), nil
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
