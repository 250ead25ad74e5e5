package skillsprotocol

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

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
		Name: "Name for `" + methodExecute + "`", Arguments: paramNames[paramArgs], Inputs: "`inputs` of " + methodDescribe,
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
