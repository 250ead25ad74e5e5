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
// descriptor.json is the descriptor as published.
func (f *Front) readSkillFile(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	call := describeCall(ctx, p)
	path := p.required(paramPath, fileSkill+" or "+fileDescriptor)
	if p.failure == nil && path != fileSkill && path != fileDescriptor {
		p.reject(paramPath, run.NotFound, "must be "+fileSkill+" or "+fileDescriptor+": skills have no other files here", fileSkill, fileDescriptor)
	}
	if p.failure != nil {
		return nil, p.refusal()
	}
	d, failure := f.bridge(p).Describe(ctx, call)
	if failure != nil {
		return nil, failureError(failure, subject{name: call.Name, tools: f.toolsOf(ctx, failure)})
	}
	content := string(d.Document)
	if path == fileSkill {
		page, err := skillPage(d)
		if err != nil {
			return nil, internalError(err)
		}
		content = page
	}
	b := builder{front.Writer{Buf: make([]byte, 0, 128+len(content)+len(content)/8)}}
	b.Open()
	b.Text("name", d.Name)
	b.Text("path", path)
	b.Text("content", content)
	b.Close()
	return b.Buf, nil
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
