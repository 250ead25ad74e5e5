package skillfile

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

//go:embed skill.md.tmpl
var skillText string

var skillTemplate = template.Must(template.New("SKILL.md").Funcs(template.FuncMap{
	"prose": Prose, "codes": CodeList,
	"code": func(text any) Markdown { return Code(fmt.Sprint(text)) }, // kinds and types, too
}).Parse(skillText))

// maxSchemaBlock bounds a schema in SKILL.md, in bytes. A longer one is only in
// descriptor.json.
const maxSchemaBlock = 4000

// pageData is the data for the template of SKILL.md. Its texts are the provider's: the template escapes them.
type pageData struct {
	*document.Descriptor
	*Words
	Inputs                []InputRow
	Example, OutputSchema Markdown
	Scopes                []string
}

// InputRow is a row in a table of inputs.
type InputRow struct {
	Name, Type, Required, Default, Description Markdown
}

// Words are what differs in SKILL.md between the protocols of agents.
type Words struct {
	Name       string         // what the name of the skill is for, as Markdown
	Arguments  string         // the member of a call with the inputs
	Inputs     string         // where the schemas of the inputs are, as Markdown
	Example    jsontext.Value // of a call
	Descriptor string         // the file with the descriptor
	// CallName is the name for calls; empty: that of the description.
	CallName string
}

// Page renders SKILL.md, a text that explains a skill to a language model. It escapes the texts of the provider.
func Page(d *translate.Description, words *Words) (string, error) {
	s := d.Descriptor
	example, err := block(words.Example)
	if err != nil {
		return "", err
	}
	p := pageData{Descriptor: s, Words: words, Example: example}
	if words.CallName == "" {
		p.CallName = d.Name
	}
	if s.Auth.OAuth2 != nil {
		p.Scopes = slices.Sorted(maps.Keys(s.Auth.OAuth2.Scopes))
	}
	for i := range s.Inputs {
		p.Inputs = append(p.Inputs, RowOf(&s.Inputs[i], maxProse, maxSpan, ": see "+words.Inputs))
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

// RowOf returns the row of an input, with at most so many characters of its description and of its other texts. schema says where its schema is.
func RowOf(in *document.Parameter, description, other int, schema string) InputRow {
	cell := func(text string) Markdown { return Cell(safetext.Line(text, other)) }
	row := InputRow{cell(in.Name), cell(in.Type), "no", cell(string(in.Default)), Prose(safetext.Line(in.Description, description))}
	if in.Required {
		row.Required = "yes"
	}
	if len(in.Schema) > 0 {
		row.Description += Markdown(" (constrained by a schema" + schema + ")")
	}
	return row
}

// CodeList joins code spans with commas.
func CodeList(texts []string) Markdown {
	var list []string
	for _, t := range texts {
		if c := Code(t); c != "" {
			list = append(list, string(c))
		}
	}
	return Markdown(strings.Join(list, ", "))
}
