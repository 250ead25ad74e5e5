package message

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// The largest number of skills in the question for a skill.
const (
	maxListedText = 50
	maxListedData = 1000
)

// WhichSkill returns the text and the data of the question for a skill. problem says why the message names none, if it seems to; empty: it does not.
func WhichSkill(skills []catalog.Entry, problem string) (text string, data jsontext.Value) {
	var b strings.Builder
	if problem != "" {
		b.WriteString(problem + " ")
	}
	b.WriteString("Which skill do you want to use? Send the name of one, or a data part {\"skill\": <name>, \"input\": {…}}.")
	for i := range skills[:min(len(skills), maxListedText)] {
		b.WriteString("\n- " + skills[i].Name)
		if d := task.Quoted(skills[i].Description); d != "" {
			b.WriteString(": " + d)
		}
	}
	if more := len(skills) - maxListedText; more > 0 {
		b.WriteString("\nand further ones: see the data, or the agent card.")
	}
	var w front.Writer
	w.Open()
	w.Texts("missing", []string{"skill"})
	w.OpenArray("skills")
	for i := range skills[:min(len(skills), maxListedData)] {
		w.Open()
		w.Text("name", skills[i].Name)
		w.Text("description", task.Quoted(skills[i].Description))
		w.Close()
	}
	w.CloseArray()
	w.Close()
	return b.String(), w.Buf
}

// WhichInputs returns the text and the data of the question for inputs, whose names it sorts as the descriptor has them. problem says what is wrong with a value; empty: inputs are only missing.
func WhichInputs(ctx context.Context, skill *translate.Skill, missing []string, problem string) (text string, data jsontext.Value) {
	var b strings.Builder
	if problem != "" {
		b.WriteString("That does not fit: " + problem + ". ")
	}
	b.WriteString("The skill " + task.Quoted(skill.Name) + " needs further inputs: ")
	params := parametersOf(skill)
	params.sort(missing)
	for i, name := range missing {
		if i == maxListedText {
			b.WriteString("; …")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(describeInput(&params, name))
	}
	var w front.Writer
	w.Open()
	w.Text("skill", skill.Name)
	w.Texts("missing", missing)
	if schema, err := front.InputSchema(ctx, skill.Descriptor, ""); err == nil { // else nobody reads the question
		w.Raw("inputSchema", schema)
	}
	w.Close()
	return b.String(), w.Buf
}

// Unread says that a text can't be the value of an input, since it is not JSON.
func Unread(skill *translate.Skill, name string) string {
	given := jsonrpc.Object{Members: []jsonrpc.Member{{Name: front.AppendText(nil, name), Value: jsontext.Value(`""`)}}}
	if _, wrong := skill.Check(given); wrong != nil && wrong.Argument != nil && wrong.Argument.Reason == run.WrongType {
		return task.Text(wrong)
	}
	return "the text for " + task.Quoted(name) + " is not JSON"
}

// describeInput returns the name, type and description of an input.
func describeInput(params *parameters, name string) string {
	at := params.find(name)
	if at < 0 {
		return task.Quoted(name)
	}
	p := &params.list[at]
	text := task.Quoted(name) + " (" + task.Quoted(p.Type) + ")"
	if d := task.Quoted(p.Description); d != "" {
		text += ": " + d
	}
	return text
}
