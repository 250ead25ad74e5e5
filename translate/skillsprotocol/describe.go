package skillsprotocol

import (
	"cmp"
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
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
		return nil, failureError(failure, subject{name: call.Name, tools: f.toolsOf(ctx, failure)})
	}
	schemas := manifestSchemas{}
	var err error
	if schemas.inputs, err = front.InputSchema(ctx, d.Descriptor, ""); err == nil && detail != detailSummary {
		schemas.output, err = front.OutputSchema(ctx, d.Descriptor, "")
	}
	if err != nil {
		return nil, callerGone(ctx)
	}
	b := builder{front.Writer{Buf: make([]byte, 0, 1024+len(schemas.inputs)+len(schemas.output))}}
	b.Open()
	b.OpenMember("skill")
	b.manifest(d, schemas)
	if detail == detailFull {
		text, err := skillPage(d)
		if err != nil {
			return nil, internalError(err)
		}
		if d.Files != nil {
			main, _ := d.Files.Get(fileSkill)
			text = string(main)
		}
		if !p.request.Reserve(int64(len(text))) {
			return nil, tooLarge(p.request, nil)
		}
		b.Text("documentation", text)
	}
	b.Close()
	b.Close()
	return b.Buf, nil
}

// callerGone returns the error for a request whose context has ended: what it asks for is not made.
func callerGone(ctx context.Context) *jsonrpc.Error {
	return failureError(exchange.Interrupted(ctx, run.PhaseDescriptor, "", run.ExecutedNo), subject{})
}

// manifestSchemas are the schemas of a manifest; nil: it has none.
type manifestSchemas struct{ inputs, output jsontext.Value }

// manifest adds a descriptor as a manifest of the Skills Protocol.
func (b *builder) manifest(d *translate.Description, schemas manifestSchemas) {
	s := d.Descriptor
	b.OpenMember("manifest")
	b.Text("name", d.Name)
	b.Optional("tool_name", d.Tool)
	b.Text("display_name", line(s.Name))
	b.Text("version", s.Version)
	b.Text("description", line(s.Description))
	b.Text("kind", kindAction)
	b.state(cmp.Or(d.State, catalog.Unknown), d.Since)
	if h := d.Held; h != nil {
		b.OpenMember("change_held")
		b.Text("since", h.Since.UTC().Format(time.RFC3339))
		b.Texts("changed", h.Parts)
		b.Close()
	}
	b.timing(d)
	b.Raw("inputs", schemas.inputs)
	b.OpenMember("output")
	b.Text("content_type", s.Output.ContentType)
	b.Raw("schema", schemas.output)
	b.Optional("description", line(s.Output.Description))
	b.Close()
	if d.Files != nil {
		b.Texts("files", d.Files.Paths())
	}
	b.auth(&s.Auth)
	b.Text("access", string(s.Access))
	b.Text("capability_type", string(s.CapabilityType))
	b.OpenArray("tags")
	for _, tag := range s.Tags {
		b.Next()
		b.Buf = front.AppendText(b.Buf, line(tag))
	}
	b.CloseArray()
	b.Optional("documentation_url", line(s.DocumentationURL))
	b.OpenMember("provider")
	b.Text("name", line(s.Provider.Name))
	b.Optional("url", line(s.Provider.URL))
	b.Optional("contact", line(s.Provider.Contact))
	b.Close()
	b.Close()
}

// line returns a text of a provider as one visible line.
func line(text string) string { return safetext.Line(text, maxShown) }

// maxShown bounds the texts of a manifest, in characters.
const maxShown = 4000

// timing adds how long runs of the skill take, in milliseconds, as far as earlier runs have shown, and the timeout of calls.
func (b *builder) timing(d *translate.Description) {
	b.OpenMember("timing")
	if d.Typical > 0 {
		b.Integer("typical_ms", max(d.Typical.Milliseconds(), 1))
		b.Integer("p95_ms", max(d.P95.Milliseconds(), 1))
	}
	b.Integer("timeout_ms", d.Timeout.Milliseconds())
	b.Close()
}

// auth adds how the bridge authenticates to the provider.
func (b *builder) auth(a *document.Auth) {
	b.OpenMember("auth")
	b.Text("type", string(a.Type))
	b.Optional("description", line(a.Description))
	b.Optional("header", a.Header)
	if o := a.OAuth2; o != nil {
		b.OpenMember("oauth2")
		b.Text("authorization_url", o.AuthorizationURL)
		b.Text("token_url", o.TokenURL)
		b.TextMap("scopes", o.Scopes)
		b.Close()
	}
	if c := a.Custom; c != nil {
		b.OpenMember("custom")
		b.Text("instructions", line(c.Instructions))
		b.OpenArray("parameters")
		for i := range c.Parameters {
			b.parameter(&c.Parameters[i])
		}
		b.CloseArray()
		b.Close()
	}
	b.Close()
}

// parameter adds a parameter of a custom authentication.
func (b *builder) parameter(p *document.Parameter) {
	b.Open()
	b.Text("name", line(p.Name))
	b.Text("type", line(p.Type))
	b.Text("description", line(p.Description))
	b.Bool("required", p.Required)
	b.Close()
}

// internalError returns the error for a bug of this package.
func internalError(err error) *jsonrpc.Error {
	return failureError(&run.Failure{Cause: err}, subject{})
}

// The files of each skill.
const (
	fileSkill      = "SKILL.md"
	fileDescriptor = "descriptor.json"
)

// readSkillFile answers read_skill_file. SKILL.md is rendered from the descriptor;
// descriptor.json is the descriptor as published. Skills of a site have the files that the site has published, and no others.
func (f *Front) readSkillFile(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	call := describeCall(ctx, p)
	path := p.required(paramPath, "the path of a file, such as "+fileSkill)
	if p.failure == nil && path != fileSkill && path != fileDescriptor && !f.Files {
		p.rejectPath()
	}
	if p.failure != nil {
		return nil, p.refusal()
	}
	d, failure := f.bridge(p).Describe(ctx, call)
	if failure != nil {
		return nil, failureError(failure, subject{name: call.Name, tools: f.toolsOf(ctx, failure)})
	}
	var content front.Content
	published := d.Files != nil
	switch {
	case published:
		if !p.request.Reserve(int64(d.Files.SizeOf(path))) { // before it is unpacked
			return nil, tooLarge(p.request, nil)
		}
		text, ok := d.Files.Get(path)
		if !ok {
			paths := d.Files.Paths()
			p.reject(paramPath, run.NotFound, "must be the path of a file of the skill", paths[:min(len(paths), maxCandidatePaths)]...)
			return nil, p.refusal()
		}
		content = front.ContentOf(text)
		if !p.request.Reserve(int64(content.Size)) {
			return nil, tooLarge(p.request, nil)
		}
	case path == fileSkill:
		page, err := f.skillPage(ctx, d)
		if err != nil {
			return nil, internalError(err)
		}
		content = front.ContentOf([]byte(page))
	case path == fileDescriptor:
		content = front.ContentOf(d.Document)
	default:
		p.rejectPath()
		return nil, p.refusal()
	}
	var b builder
	b.Open()
	b.Text("name", d.Name)
	b.Text("path", path)
	if !content.IsText {
		b.Text("encoding", "base64")
	}
	b.Content("content", content)
	if published && path == fileSkill && len(d.Files.Paths()) > 1 {
		b.Texts("files", d.Files.Paths())
	}
	b.Close()
	return b.Buf, nil
}

// rejectPath rejects the path of a file that skills have only if a site publishes them.
func (p *params) rejectPath() {
	p.reject(paramPath, run.NotFound, "must be "+fileSkill+" or "+fileDescriptor+": the skill has no other files here", fileSkill, fileDescriptor)
}

// maxCandidatePaths bounds the paths in the answer to a wrong one.
const maxCandidatePaths = 20

// skillPage returns SKILL.md.
func (f *Front) skillPage(ctx context.Context, d *translate.Description) (string, error) {
	if f.Page != nil {
		if page, err := f.Page(ctx, d); err == nil {
			return page, nil
		}
	}
	return skillPage(d)
}

// skillPage renders SKILL.md.
func skillPage(d *translate.Description) (string, error) {
	return skillfile.Page(d, &skillfile.Words{
		Name: "Name for `" + methodExecute + "`", Arguments: paramArgs, Inputs: "`inputs` of " + methodDescribe,
		Example: exampleRequest(d), Descriptor: fileDescriptor,
	})
}

// exampleRequest returns an example request of execute_skill.
func exampleRequest(d *translate.Description) jsontext.Value {
	var b builder
	b.Open()
	b.Text("jsonrpc", "2.0")
	b.Text("id", "1")
	b.Text("method", methodExecute)
	b.OpenMember("params")
	b.Text("name", d.Name)
	b.Raw("args", front.SampleInputs(d.Descriptor.Inputs))
	b.Close()
	b.Close()
	return b.Buf
}
