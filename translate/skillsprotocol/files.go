package skillsprotocol

import (
	"context"
	_ "embed"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
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
		return nil, failureError(failure, subject{name: call.Name})
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

//go:embed skill.md.tmpl
var skillText string

var skillTemplate = template.Must(template.New(fileSkill).Parse(skillText))

// maxSchemaBlock bounds a schema in SKILL.md, in bytes. A longer one is only in
// descriptor.json.
const maxSchemaBlock = 4000

// pageData is the data for the template of SKILL.md.
type pageData struct {
	Title, Description          markdown
	Name, ID, Version           markdown
	Capability, Access          markdown
	Inputs                      []inputRow
	Example                     markdown
	OutputType, OutputText      markdown
	OutputSchema                markdown
	Auth                        authSection
	Provider, URL, Contact, Doc markdown
	Tags                        markdown
	Descriptor                  markdown // name of the file
}

type inputRow struct {
	Name, Type, Required, Default, Description markdown
}

type authSection struct {
	Needed                            bool
	Type, Header, Text, Scopes, Prose markdown
}

// skillPage renders SKILL.md.
func skillPage(d *translate.Description) (string, error) {
	s := d.Descriptor
	example, err := block(exampleRequest(d))
	if err != nil {
		return "", err
	}
	p := pageData{
		Title: prose(s.Name), Description: prose(s.Description),
		Name: code(d.Name), ID: code(s.ID), Version: code(s.Version),
		Capability: code(string(s.CapabilityType)), Access: code(string(s.Access)),
		Example:    example,
		OutputType: code(s.Output.ContentType), OutputText: prose(s.Output.Description),
		Auth:     authOf(&s.Auth),
		Provider: prose(s.Provider.Name), URL: code(s.Provider.URL), Contact: code(s.Provider.Contact), Doc: code(s.DocumentationURL),
		Tags:       codeList(s.Tags),
		Descriptor: code(fileDescriptor),
	}
	for i := range s.Inputs {
		p.Inputs = append(p.Inputs, rowOfInput(&s.Inputs[i]))
	}
	if n := len(s.Output.Schema); 0 < n && n <= maxSchemaBlock {
		if p.OutputSchema, err = block(s.Output.Schema); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	err = skillTemplate.Execute(&b, &p)
	return b.String(), err
}

func rowOfInput(in *document.Parameter) inputRow {
	row := inputRow{Name: cell(in.Name), Type: cell(in.Type), Required: "no", Default: cell(string(in.Default)), Description: prose(in.Description)}
	if in.Required {
		row.Required = "yes"
	}
	if len(in.Schema) > 0 {
		row.Description += " (constrained by a schema: see `inputs` of describe_skill)"
	}
	return row
}

func authOf(a *document.Auth) authSection {
	p := authSection{Needed: a.Type != document.AuthNone, Type: code(string(a.Type)), Header: code(a.Header), Text: prose(a.Description)}
	if a.OAuth2 != nil {
		p.Scopes = codeList(slices.Sorted(maps.Keys(a.OAuth2.Scopes)))
	}
	if a.Custom != nil {
		p.Prose = prose(a.Custom.Instructions)
	}
	return p
}

// codeList joins code spans with commas.
func codeList(texts []string) markdown {
	var list []string
	for _, t := range texts {
		if c := code(t); c != "" {
			list = append(list, string(c))
		}
	}
	return markdown(strings.Join(list, ", "))
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
