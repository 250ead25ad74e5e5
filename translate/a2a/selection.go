package a2a

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// maxName bounds the names of skills that a client may send, in bytes.
const maxName = 256

// choice is a name of a skill in a request, and the path of the member that has it.
type choice struct{ field, name string }

// choices are different names, up to [message.MaxNames].
type choices []choice

func (c *choices) add(field, name string) {
	if name != "" && len(*c) < message.MaxNames && !slices.ContainsFunc(*c, func(c choice) bool { return c.name == name }) {
		*c = append(*c, choice{field, name})
	}
}

// named returns the names of skills in a request with a message, and what else it asks for.
func (r *request) named(send *wire.Send) (named choices, asked message.Directions) {
	named.add("the URL", r.skill)
	named.add("tenant", send.Tenant)
	for i := range send.Message.Parts {
		if name, _, ok := message.Envelope(&send.Message.Parts[i]); ok {
			named.add(message.PartField(i), name)
		}
	}
	for _, from := range [...]struct {
		field    string
		metadata jsontext.Value
	}{{"message.metadata", send.Message.Metadata}, {"metadata", send.Metadata}} {
		said := message.DirectionsIn(from.metadata)
		for _, name := range said.Skills {
			named.add(from.field, name)
		}
		asked.Timeout, asked.Priority = cmp.Or(said.Timeout, asked.Timeout), cmp.Or(said.Priority, asked.Priority)
	}
	return named, asked
}

// selection is the skill that a message selects.
type selection struct {
	name string // empty: the message names none
	// field is the path of the member of the request that has the name.
	field string
	// texts are the indexes of the parts whose text is the name, so that it is not an input.
	texts []int
	ref   run.Ref // identifies the skill, once it is found
}

// selectSkill returns the skill that a message selects. t is the task that it is for; nil: a new one. If there are different names, agree finds out whether
// they mean the same skill.
func (r *request) selectSkill(t *task.Task, named choices, parts []task.Part) (selection, *jsonrpc.Error) {
	f := r.front
	var all choices
	if t != nil {
		all.add("message.taskId", t.Skill)
	}
	for _, c := range named {
		if len(c.name) > maxName {
			return selection{}, r.invalid(c.field, "names a skill with more than 256 bytes")
		}
		all.add(c.field, c.name)
	}
	if len(all) > 0 {
		return r.agree(all)
	}
	var texts []int
	for i, looked := 0, 0; i < len(parts) && looked < message.MaxNames; i++ {
		name := nameIn(&parts[i])
		if name == "" {
			continue
		}
		looked++
		if listed, failure := f.Bridge.Find(r.ctx, name, r.caller.Principal); failure == nil {
			all.add(message.PartField(i), listed)
			texts = append(texts, i)
		}
	}
	if len(all) > 0 {
		chosen, fault := r.agree(all)
		chosen.texts = texts
		return chosen, fault
	}
	if standard := f.Options.DefaultSkill; standard != "" {
		if _, failure := f.Bridge.Find(r.ctx, standard, r.caller.Principal); failure != nil && failure.Kind == run.SkillNotFound {
			if f.Options.Restricted {
				return selection{}, nil
			}
			if f.NoDefault != nil {
				f.NoDefault(r.ctx)
			}
		}
		return selection{name: standard, field: "skill"}, nil
	}
	return selection{}, nil
}

// nameIn returns the text of a part if it may be the name of a skill; otherwise it is empty.
func nameIn(p *task.Part) string {
	name := strings.TrimSpace(p.Text)
	if p.Kind != front.PartText || len(name) > maxName || strings.ContainsAny(name, " \n\t{") {
		return ""
	}
	return name
}

// agree returns the skill that all choices mean; if they mean several skills, an error.
func (r *request) agree(choices choices) (selection, *jsonrpc.Error) {
	f := r.front
	chosen := selection{name: choices[0].name, field: choices[0].field}
	if len(choices) == 1 {
		return chosen, nil
	}
	var common string
	for _, c := range choices {
		listed, failure := f.Bridge.Find(r.ctx, c.name, r.caller.Principal)
		if failure != nil {
			if isRefusal(failure) {
				return selection{}, r.failureError(failure)
			}
			listed = c.name
		}
		if common != "" && listed != common {
			return selection{}, r.invalid(c.field, "names the skill "+quoted(c.name)+", but "+choices[0].field+" names "+quoted(choices[0].name))
		}
		common = listed
	}
	return chosen, nil
}

// maxDescribed is the largest number of skills whose descriptors are read for the question which one is meant, to leave out those that do not work.
const maxDescribed = 50

// onlySkill returns the name of the only skill that the caller may see. If there are several, it returns all of them that may work. One that does not
// work counts as well: otherwise a message for it would go to another one.
func onlySkill(r *request) (name string, all []catalog.Entry, failure *run.Failure) {
	f := r.front
	listing := f.Bridge.List(r.ctx, translate.Query{Caller: quiet(r.caller), Executable: true, Descriptors: maxDescribed})
	if len(listing.Skills) == 1 && listing.Broken == 0 && len(listing.Unavailable) == 0 {
		return listing.Skills[0].Name, nil, nil
	}
	if len(listing.Skills) == 0 && len(listing.Unavailable) > 0 {
		return "", nil, listing.Unavailable[0].Failure
	}
	return "", listing.Skills, nil
}

// onlySkill chooses the only skill. If there are several, it asks which one is meant.
func (s *submission) onlySkill(ctx context.Context) bool {
	name, all, failure := onlySkill(s.request)
	if name != "" {
		s.chosen = selection{name: name, field: "skill"}
		return true
	}
	var have jsontext.Value
	if s.task != nil {
		have = s.task.Inputs
	}
	list, wrong := message.GatherData(have, s.send.Message.Parts)
	switch {
	case wrong != nil:
		failure = wrong
	case failure == nil:
		s.inputs = list
		s.asked = s.front.Say(message.WhichSkill(all, message.NoEnvelope(s.send.Message.Parts)))
		failure = &run.Failure{
			Kind: run.InvalidArguments, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo,
			Message: "the message names no skill", Argument: &run.Argument{Field: run.FieldSkill, Reason: run.Asked},
		}
	}
	s.refuse(ctx, &run.Run{Failure: failure})
	if s.taken {
		return false
	}
	if s.fault != nil {
		failure = withCode(s.request.failureOf(s.fault), s.fault)
	}
	reportAs(s.request, translate.OperationExecute, s.task, failure)
	return false
}
