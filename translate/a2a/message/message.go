// Package message reads messages of A2A: it finds the names of skills, and the inputs for a skill, in their data, texts, files
// and metadata. It also makes the texts and parts that tasks are answered with.
package message

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Envelope returns the skill and the inputs of a part that is an object {"skill", "input"}: data, or a text that is such an
// object.
func Envelope(p *task.Part) (name string, input jsontext.Value, ok bool) {
	for key, value := range jsonrpc.Members(objectOf(p)) {
		switch member, kind := string(jsonrpc.Unquote(key)), value.Kind(); {
		case member == "skill" && kind == '"':
			name = jsonrpc.Text(value)
		case member == "input" && kind == '{':
			input = value
		case member == "input" && kind == 'n': // null is the same as absent
		default:
			return "", nil, false
		}
	}
	return name, input, name != ""
}

// objectOf returns the object of a part that has a member skill, or nil.
func objectOf(p *task.Part) jsontext.Value {
	var object jsontext.Value
	switch p.Kind {
	case front.PartData:
		object = p.Data
	case front.PartText:
		if !strings.HasPrefix(strings.TrimSpace(p.Text), "{") {
			return nil
		}
		object = jsontext.Value(p.Text)
		if !isJSON(object) {
			return nil
		}
	}
	if object.Kind() != '{' || !bytes.Contains(object, []byte(`"skill"`)) && bytes.IndexByte(object, '\\') < 0 {
		return nil
	}
	return object
}

// NoEnvelope says why parts with a member skill name no skill; empty: there are none.
func NoEnvelope(parts []task.Part) string {
	for i := range parts {
		if _, _, ok := Envelope(&parts[i]); ok {
			continue
		}
		for key, value := range jsonrpc.Members(objectOf(&parts[i])) {
			if string(jsonrpc.Unquote(key)) == "skill" && value.Kind() == '"' {
				return PartField(i) + " names no skill: only an object of nothing but \"skill\" and, optionally, an object \"input\" does. All members of other objects are inputs."
			}
		}
	}
	return ""
}

// maxDepth bounds how deep a text that is JSON may nest.
const maxDepth = 512

// isJSON reports whether a text is one JSON value that nests at most maxDepth deep.
func isJSON(v jsontext.Value) bool { return !jsonrpc.Deeper(v, maxDepth) && v.IsValid() }

// Directions are the values for the bridge in the metadata of a message or request.
type Directions struct {
	task.Wishes

	Skills []string // the names of skills, up to MaxNames
}

// MaxNames bounds the names of skills that are read from a message. A skill has fewer spellings of its name.
const MaxNames = 16

// maxTimeout bounds the timeout that a client may ask for. The bridge's own maximum is shorter.
const maxTimeout = 1000 * time.Hour

// DirectionsIn reads metadata: names of skills, and from the object of the extension a name, timeoutMs (-1: it is none) and priority.
func DirectionsIn(metadata jsontext.Value) (d Directions) {
	name := func(value jsontext.Value) {
		if s := jsonrpc.Text(value); s != "" && len(d.Skills) < MaxNames {
			d.Skills = append(d.Skills, s)
		}
	}
	for key, value := range jsonrpc.Members(metadata) {
		switch string(jsonrpc.Unquote(key)) {
		case "skillId", "skill_id", "skill":
			name(value)
		case wire.Extension:
			for key, value := range jsonrpc.Members(value) {
				switch string(jsonrpc.Unquote(key)) {
				case "skill":
					name(value)
				case "priority":
					d.Priority = jsonrpc.Word(value)
				case "timeoutMs":
					// Clients that are built on Protocol Buffers write whole numbers as 5000.0.
					if n, _ := strconv.ParseFloat(string(value), 64); n > 0 { // 0 if it is no number
						d.Timeout = max(1, int64(min(n, float64(maxTimeout.Milliseconds()))))
					} else if !jsonrpc.IsNull(value) {
						d.Timeout = -1
					}
				}
			}
		}
	}
	return d
}

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
	return b.String(), front.Object(func(w *front.Writer) {
		w.Texts("missing", []string{"skill"})
		w.OpenArray("skills")
		for i := range skills[:min(len(skills), maxListedData)] {
			w.Open()
			w.Text("name", skills[i].Name)
			w.Text("description", task.Quoted(skills[i].Description))
			w.Close()
		}
		w.CloseArray()
	})
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
		b.WriteString(task.Quoted(name))
		if at := params.find(name); at >= 0 {
			p := &params.list[at]
			b.WriteString(" (" + task.Quoted(p.Type) + ")")
			if d := task.Quoted(p.Description); d != "" {
				b.WriteString(": " + d)
			}
		}
	}
	return b.String(), front.Object(func(w *front.Writer) {
		w.Text("skill", skill.Name)
		w.Texts("missing", missing)
		if schema, err := front.InputSchema(ctx, skill.Descriptor, ""); err == nil { // else the client has left
			w.Raw("inputSchema", schema)
		}
	})
}

// Unread says that a text can't be the value of an input, since it is not JSON.
func Unread(skill *translate.Skill, name string) string {
	given := jsonrpc.Object{Members: []jsonrpc.Member{{Name: front.AppendText(nil, name), Value: jsontext.Value(`""`)}}}
	if _, wrong := skill.Check(given); wrong != nil && wrong.Argument != nil && wrong.Argument.Reason == run.WrongType {
		return task.Text(wrong)
	}
	return "the text for " + task.Quoted(name) + " is not JSON"
}
