package skillsprotocol

import (
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// describeSkill answers describe_skill. A summary is sufficient for calls and for an
// LLM's tool definition. A manifest adds the schema of the output, which can be long, and
// full adds the text of SKILL.md.
func (f *Front) describeSkill(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	call := describeCall(ctx, p)
	detail := p.oneOf(paramDetail, detailSummary, detailManifest, detailFull)
	if p.failure != nil {
		return nil, p.refusal()
	}
	d, failure := f.bridge(p).Describe(ctx, call)
	if failure != nil {
		return nil, failureError(failure, subject{name: call.Name})
	}
	b := builder{writer{buf: make([]byte, 0, 1024+len(d.InputSchema))}}
	b.open()
	b.openMember("skill")
	b.manifest(d, detail != detailSummary)
	if detail == detailFull {
		text, err := skillPage(d)
		if err != nil {
			return nil, internalError(err)
		}
		b.text("documentation", text)
	}
	b.close()
	b.close()
	return b.buf, nil
}

// manifest adds a descriptor as a manifest of the Skills Protocol.
func (b *builder) manifest(d *translate.Description, withOutputSchema bool) {
	s := d.Descriptor
	b.openMember("manifest")
	b.text("name", d.Name)
	b.text("display_name", s.Name)
	b.text("version", s.Version)
	b.text("description", s.Description)
	b.text("kind", kindAction)
	b.raw("inputs", d.InputSchema)
	b.openMember("output")
	b.text("content_type", s.Output.ContentType)
	if withOutputSchema {
		b.raw("schema", s.Output.Schema)
	}
	b.optional("description", s.Output.Description)
	b.close()
	b.auth(&s.Auth)
	b.text("access", string(s.Access))
	b.text("capability_type", string(s.CapabilityType))
	b.texts("tags", s.Tags)
	b.optional("documentation_url", s.DocumentationURL)
	b.openMember("provider")
	b.text("name", s.Provider.Name)
	b.optional("url", s.Provider.URL)
	b.optional("contact", s.Provider.Contact)
	b.close()
	b.close()
}

// auth adds how the bridge authenticates to the provider.
func (b *builder) auth(a *document.Auth) {
	b.openMember("auth")
	b.text("type", string(a.Type))
	b.optional("description", a.Description)
	b.optional("header", a.Header)
	if o := a.OAuth2; o != nil {
		b.openMember("oauth2")
		b.text("authorization_url", o.AuthorizationURL)
		b.text("token_url", o.TokenURL)
		b.scopes(o.Scopes)
		b.close()
	}
	if c := a.Custom; c != nil {
		b.openMember("custom")
		b.text("instructions", c.Instructions)
		b.openArray("parameters")
		for i := range c.Parameters {
			b.parameter(&c.Parameters[i])
		}
		b.closeArray()
		b.close()
	}
	b.close()
}

// scopes adds the descriptions of scopes by name. It escapes the names, which the provider
// has chosen.
func (b *builder) scopes(scopes map[string]string) {
	b.openMember("scopes")
	for _, name := range slices.Sorted(maps.Keys(scopes)) {
		b.next()
		b.buf = append(appendString(b.buf, name), ':')
		b.buf = appendString(b.buf, scopes[name])
	}
	b.close()
}

// parameter adds a parameter of a custom authentication.
func (b *builder) parameter(p *document.Parameter) {
	b.open()
	b.text("name", p.Name)
	b.text("type", p.Type)
	b.text("description", p.Description)
	b.name("required")
	if p.Required {
		b.buf = append(b.buf, "true"...)
	} else {
		b.buf = append(b.buf, "false"...)
	}
	b.close()
}

// internalError returns the error for a bug of this package.
func internalError(err error) *jsonrpc.Error {
	return failureError(&run.Failure{Cause: err}, subject{})
}
