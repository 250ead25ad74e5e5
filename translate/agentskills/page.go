package agentskills

import (
	_ "embed"
	"strings"
	"text/template"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

//go:embed skill.md.tmpl
var pageText string

var pageTemplate = template.Must(template.New("SKILL.md").Parse(pageText))

//go:embed read.md.tmpl
var readText string

// readTemplate is the template for skills that can only be read: the site's text below a front matter of the bridge.
var readTemplate = template.Must(template.New("SKILL.md").Parse(readText))

// Bounds of the parts of a page. With them, a page has less than 200 lines, and less than maxPage bytes.
const (
	maxInputs   = 100
	maxPaths    = 100
	maxTable    = 16 << 10 // bytes
	maxProse    = 500      // characters of a description of an input
	maxSays     = 2000     // characters of the description of the skill
	maxArgs     = 4 << 10  // bytes of the example
	maxPage     = 64 << 10
	urlMark     = "\x00" // stands for the public URL; no cleaned text has it
	waitOfCall  = 50000  // milliseconds: commands of many agents end after a minute or two
	variable    = "SKILL_BRIDGE_AUTHORIZATION"
	authorizing = ` -H "Authorization: $` + variable + `"`
)

// skill is a skill as a page shows it.
type skill struct {
	file       string // its name in the Agent Skills format
	name       string // for calls
	source     string
	descriptor *document.Descriptor
	files      *skillsite.Files // of a skill that can only be read; nil: it can be executed
}

// pageData is the data for the template of a page.
type pageData struct {
	FrontMatter            *skillfile.FrontMatter
	Title, Says, Tags      skillfile.Markdown
	Inputs                 []skillfile.InputRow
	More                   int
	Schemas                bool
	URL, Header, Variable  string
	Call                   string // JSON
	Body                   string // of a skill that can only be read
	Files                  skillfile.Markdown
	OutputType, OutputText skillfile.Markdown
}

// page renders the SKILL.md of a skill, in parts between which the public URL of the endpoint belongs.
func (s *skill) page(description string, authenticated bool) ([]string, error) {
	d := s.descriptor
	p := pageData{
		FrontMatter: &skillfile.FrontMatter{
			Name: s.file, Description: description, Version: d.Version, Provider: d.Provider.Name, Source: s.source,
			Compatibility: "Needs network access to " + urlMark + " and a program that sends HTTP requests, such as curl.",
		},
		Title: prose(d.Name, skillfile.MaxField), Says: prose(d.Description, maxSays), Tags: skillfile.CodeList(skillfile.CleanTags(d.Tags)),
		URL: urlMark, Call: s.call(),
		OutputText: prose(d.Output.Description, maxProse),
	}
	if d.Output.ContentType != "" {
		p.OutputType = skillfile.Code(skillfile.Plain(d.Output.ContentType, skillfile.MaxField))
	}
	if p.Title == "" {
		p.Title = prose(s.name, skillfile.MaxField)
	}
	if s.files != nil {
		main, _ := s.files.Get(skillsite.Main)
		p.Body = strings.ReplaceAll(string(skillsite.Body(main)), urlMark, "")
		paths := s.files.Paths()[1:]
		p.Files, p.More = skillfile.CodeList(paths[:min(len(paths), maxPaths)]), max(len(paths)-maxPaths, 0)
		p.Call = s.reading()
		if p.Files == "" {
			p.FrontMatter.Compatibility = ""
		}
	}
	if authenticated {
		p.Header, p.Variable = authorizing, variable
	}
	size := 0
	for i := range d.Inputs {
		p.Schemas = p.Schemas || len(d.Inputs[i].Schema) > 0
		row := skillfile.RowOf(&d.Inputs[i], maxProse, skillfile.MaxField, "")
		if size += 20 + len(row.Name) + len(row.Type) + len(row.Default) + len(row.Description); i == maxInputs || size > maxTable {
			p.More = len(d.Inputs) - i
			break
		}
		p.Inputs = append(p.Inputs, row)
	}
	t := pageTemplate
	if s.files != nil {
		t = readTemplate
	}
	var b strings.Builder
	if err := t.Execute(&b, &p); err != nil {
		return nil, err
	}
	return strings.Split(b.String(), urlMark), nil
}

// requestOf returns a request for a command line in apostrophes: it is one line of printable characters and has no apostrophe.
func requestOf(method string, params func(*front.Writer)) string {
	request := front.Object(func(w *front.Writer) {
		w.Text("jsonrpc", "2.0")
		w.Integer("id", 1)
		w.Text("method", method)
		w.Raw("params", front.Object(params))
	})
	return strings.ReplaceAll(safetext.Escape(string(request), ""), "'", `\u0027`)
}

// reading returns the request that reads a file of the skill.
func (s *skill) reading() string {
	return requestOf("read_skill_file", func(w *front.Writer) {
		w.Text("name", s.name)
		w.Text("path", "PATH")
	})
}

// prose returns a text of a provider as one line of at most limit characters.
func prose(text string, limit int) skillfile.Markdown {
	return skillfile.Prose(safetext.Line(text, limit))
}

// call returns an example of a call.
func (s *skill) call() string {
	args := front.SampleInputs(s.descriptor.Inputs)
	if len(args) > maxArgs || args.Compact(jsontext.AllowDuplicateNames(true)) != nil {
		args = jsontext.Value("{}")
	}
	return requestOf("execute_skill", func(w *front.Writer) {
		w.Text("name", s.name)
		if len(s.descriptor.Inputs) > 0 {
			w.Raw("args", args)
		}
		w.Integer("wait_ms", waitOfCall)
	})
}
