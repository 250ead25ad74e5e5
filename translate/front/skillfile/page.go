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

// Markdown is Markdown in which text of providers is escaped (CommonMark 0.31.2; tables
// as in GitHub Flavored Markdown, section 4.10). Only the functions of this file make it
// from other text.
type Markdown string

// Bounds of a text of a descriptor, in characters.
const (
	maxProse = 4000
	maxSpan  = 1000
)

// active are the characters that have a meaning in Markdown.
const active = "\\`*_[]<>|~&"

// Prose returns a text as one line, escaped, also for cells of tables.
func Prose(text string) Markdown {
	line := strings.Join(strings.Fields(safetext.Line(text, maxProse)), " ")
	var b strings.Builder
	for i, r := range line {
		if strings.ContainsRune(active, r) || startsBlock(line, i) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return Markdown(b.String())
}

// startsBlock reports whether the character at i would make the line a heading, a list item
// or a thematic break. The number of a list item has at most nine digits.
func startsBlock(line string, i int) bool {
	switch line[i] {
	case '#', '-', '+', '=':
		return i == 0
	case '.', ')':
		return 0 < i && i <= 9 && strings.Trim(line[:i], "0123456789") == ""
	}
	return false
}

// Code returns a text as a code span of one line. Its fence is longer than any sequence of
// backticks in the text.
func Code(text string) Markdown {
	line := strings.Join(strings.Fields(safetext.Line(text, maxSpan)), " ")
	if line == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(line, fence) {
		fence += "`"
	}
	if line[0] == '`' || line[len(line)-1] == '`' {
		line = " " + line + " "
	}
	return Markdown(fence + line + fence)
}

// Cell returns a text as a code span in a cell of a table, where pipes are escaped.
func Cell(text string) Markdown {
	return Markdown(strings.ReplaceAll(string(Code(text)), "|", `\|`))
}

// block returns a JSON value as a code block. No line of formatted JSON starts with a
// backtick, so that the value can't end the block.
func block(value jsontext.Value) (Markdown, error) {
	text, err := jsontext.AppendFormat([]byte(nil), value, jsontext.Multiline(true), jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return "", err
	}
	return Markdown("```json\n" + safetext.Escape(string(text), "\n") + "\n```"), nil
}
