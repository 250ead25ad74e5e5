package message

import (
	"cmp"
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
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
		if d := safetext.Line(skills[i].Description, maxQuoted); d != "" {
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
		w.Text("description", safetext.Line(skills[i].Description, maxQuoted))
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
	b.WriteString("The skill " + safetext.Line(skill.Name, maxQuoted) + " needs further inputs: ")
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
		return Text(wrong)
	}
	return "the text for " + safetext.Line(name, maxQuoted) + " is not JSON"
}

// describeInput returns the name, type and description of an input.
func describeInput(params *parameters, name string) string {
	at := params.find(name)
	if at < 0 {
		return safetext.Line(name, maxQuoted)
	}
	p := &params.list[at]
	text := safetext.Line(name, maxQuoted) + " (" + safetext.Line(p.Type, maxQuoted) + ")"
	if d := safetext.Line(p.Description, maxQuoted); d != "" {
		text += ": " + d
	}
	return text
}

// maxText bounds the text of a failure, in characters.
const maxText = 1000

// Text returns the text of a failure, cleaned and bounded.
func Text(f *run.Failure) string {
	return cmp.Or(strings.TrimSpace(safetext.Line(f.Text(), maxText)), "The call failed.")
}

// Failed returns the text and the data of the status message for a failure.
func Failed(failure *run.Failure) (text string, data jsontext.Value) {
	text = Text(failure)
	var w front.Writer
	w.Open()
	w.Text("code", cmp.Or(safetext.Line(string(document.CodeOf(failure)), maxQuoted), "INTERNAL_ERROR"))
	w.Text("message", text)
	w.Text("executed", string(cmp.Or(failure.Executed, run.ExecutedMaybe)))
	w.Text("next", string(nextOf(failure)))
	w.Text("source", string(cmp.Or(failure.By, run.Bridge)))
	w.Raw("details", front.Details(failure))
	w.Raw("retry", front.Retry(failure))
	w.Close()
	return text, w.Buf
}

// nextOf returns the next step after a run that is not followed any more.
func nextOf(f *run.Failure) run.Next {
	next := f.Next()
	switch {
	case next != run.NextFollowRun:
		return next
	case f.Kind == run.AuthRequired, f.Kind == run.PermissionDenied:
		return run.NextAskOperator
	}
	return run.NextNone
}

// Abandoned returns the text and the data of the status message of a task that is canceled although its run was submitted. accepted
// says that the provider has accepted the run.
func Abandoned(accepted bool) (text string, data jsontext.Value) {
	executed := run.ExecutedMaybe
	if accepted {
		executed = run.ExecutedYes
	}
	return "The bridge no longer follows the run. The provider's protocol has no cancellation: the run goes on there, and what it does is done.",
		jsontext.Value(`{"code":"ABANDONED","executed":"` + string(executed) + `","next":"none","source":"bridge"}`)
}

// TimeIsUp is the failure of a run that has not ended at the deadline of its task. unknown says why its state can't be read; nil: the
// run goes on.
func TimeIsUp(t *task.Task, unknown *run.Failure) *run.Failure {
	f := &run.Failure{
		Kind: run.DeadlineExceeded, Phase: run.PhasePoll, By: run.Bridge, Executed: run.ExecutedYes, Ref: t.Ref,
		Message: "The skill had not finished when its time was up. The run may still be going on, but the bridge no longer follows it. A new message may state a longer timeoutMs.",
	}
	switch {
	case unknown == nil:
	case unknown.Kind == run.DeadlineExceeded:
		f.Timeout = unknown.Timeout
	default:
		f.Phase, f.Reach, f.HTTPStatus, f.URL, f.Cause = unknown.Phase, unknown.Reach, unknown.HTTPStatus, unknown.URL, unknown.Cause
		f.Message = "The time of the run is up, and its state can't be read: " + unknown.Message
	}
	return f
}
