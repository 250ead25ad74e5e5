package a2a

import (
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// maxName bounds the names of skills that a client may send, in bytes.
const maxName = 256

// choice is a name of a skill in a request, and the path of the member that has it.
type choice struct{ field, name string }

// selection is the skill that a message selects.
type selection struct {
	name string // empty: the message names none
	// field is the path of the member of the request that has the name.
	field string
	// texts are the indexes of the parts whose text is the name, so that it is not an input.
	texts []int
	ref   run.Ref // identifies the skill, once it is found
}

// selectSkill returns the skill that the message of a submission selects. If the request has different names, agree finds out
// whether they mean the same skill.
func (r *request) selectSkill(s *submission) (selection, *jsonrpc.Error) {
	send, t := &s.send, s.task
	f := r.front
	var choices []choice
	add := func(field, name string) {
		if name != "" && len(choices) < message.MaxNames && !slices.ContainsFunc(choices, func(c choice) bool { return c.name == name }) {
			choices = append(choices, choice{field, name})
		}
	}
	if t != nil {
		add("message.taskId", t.Skill)
	}
	add("the URL", r.skill)
	add("tenant", send.Tenant)
	for i := range send.Message.Parts {
		p := &send.Message.Parts[i]
		if name, _, ok := message.Envelope(p); ok {
			add(message.PartField(i), name)
		}
	}
	for _, name := range s.asks.message.Skills {
		add("message.metadata", name)
	}
	for _, name := range s.asks.request.Skills {
		add("metadata", name)
	}
	for _, c := range choices {
		if len(c.name) > maxName {
			return selection{}, r.invalid(c.field, "names a skill with more than 256 bytes")
		}
	}
	if len(choices) > 0 {
		return r.agree(choices)
	}
	var texts []int
	for i, looked := 0, 0; i < len(send.Message.Parts) && looked < message.MaxNames; i++ {
		name := nameIn(&send.Message.Parts[i])
		if name == "" {
			continue
		}
		looked++
		if listed, failure := f.Bridge.Find(r.ctx, name, r.caller.Principal); failure == nil {
			add(message.PartField(i), listed)
			texts = append(texts, i)
		}
	}
	if len(choices) > 0 {
		chosen, fault := r.agree(choices)
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

// askedIn returns the id of the task whose question a message answers that names its context but no task, as some clients do; empty: it is a new
// request. A message that names another skill is one. If several tasks of the context wait, the client has to say which one is meant.
func (r *request) askedIn(send *wire.Send) (id string, fault *jsonrpc.Error) {
	known := r.caller.Principal != ""
	if !known && len([]rune(send.Context)) < minAnonymousName { // others may have chosen it, too
		return "", nil
	}
	page, err := r.front.Ledger.Labelled(r.ctx, &ledger.LabelQuery{
		Owner: r.front.Owner(r.caller.Principal), Group: send.Context, State: uint8(task.InputRequired), Limit: maxWaiting, Bytes: maxPage,
	})
	if err != nil {
		return "", r.taskError(send.Context, err)
	}
	waiting := page.Entries
	if len(waiting) == 0 {
		return "", nil
	}
	names := append([]string{r.skill, send.Tenant}, message.DirectionsIn(send.Message.Metadata).Skills...)
	names = append(names, message.DirectionsIn(send.Metadata).Skills...)
	for i := range send.Message.Parts {
		if name, _, ok := message.Envelope(&send.Message.Parts[i]); ok && len(names) < 2*message.MaxNames {
			names = append(names, name)
		}
	}
	for _, name := range slices.Compact(names) {
		waiting = slices.DeleteFunc(waiting, func(t *ledger.Entry) bool {
			return name != "" && t.Skill != "" && t.Skill != name && t.Skill != r.listed(name)
		})
	}
	switch len(waiting) {
	case 0:
		return "", nil
	case 1:
		return waiting[0].ID, nil
	}
	return "", r.invalid("message.taskId", "has to say which task of the context is meant: several wait for an answer, such as "+waiting[0].ID+" and "+waiting[1].ID)
}

// maxWaiting is how many tasks of a context are looked at that wait for an answer.
const maxWaiting = 100

// nameIn returns the text of a part if it may be the name of a skill; otherwise it is empty.
func nameIn(p *task.Part) string {
	name := strings.TrimSpace(p.Text)
	if p.Kind != front.PartText || len(name) > maxName || strings.ContainsAny(name, " \n\t{") {
		return ""
	}
	return name
}

// agree returns the skill that all choices mean; if they mean several skills, an error.
func (r *request) agree(choices []choice) (selection, *jsonrpc.Error) {
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
