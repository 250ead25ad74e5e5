package a2a

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// minAnonymousName is the minimum length of the id that an anonymous client of A2A 0.1 chooses for a task, in characters: every
// anonymous client that knows the id can read the task.
const minAnonymousName = 16

// taskOf returns the task that a message is for; nil: the message makes a new one.
func (r *request) taskOf(send *wire.Send, named choices) (t *task.Task, fault *jsonrpc.Error) {
	byContext := send.Task == "" && send.Context != "" && r.version != wire.V01
	if byContext {
		if send.Task, fault = r.askedIn(send, named); fault != nil {
			return nil, fault
		}
	}
	if send.Task == "" {
		return nil, nil
	}
	if r.version == wire.V01 && r.caller.Principal == "" && len([]rune(send.Task)) < minAnonymousName {
		return nil, r.invalid("id", "of a caller without a principal needs at least 16 characters, since it is the only secret of the task")
	}
	t, err := r.find(send.Task)
	switch {
	case r.version == wire.V01 && (errors.Is(err, ledger.ErrNoEntry) || err == nil && t.Status.State.Terminal()):
		return nil, nil // it makes a new task under the client's id
	case byContext && (errors.Is(err, ledger.ErrNoEntry) || err == nil && t.Status.State != task.InputRequired): // it was answered meanwhile
		send.Task = ""
		return nil, nil
	case err != nil:
		return nil, r.taskError(send.Task, err)
	case send.Context != "" && send.Context != t.Context:
		field := "message.contextId"
		if r.version == wire.V01 {
			field = "sessionId"
		}
		return nil, r.invalid(field, "is not that of the task")
	case t.Status.State.Terminal():
		return nil, unsupported(r.version, "the task has ended ("+t.Status.State.String()+"); start a new one, with the same context if it belongs together")
	}
	return t, nil
}

// askedIn returns the id of the task whose question a message answers that names its context but no task, as some clients do; empty: it is a new
// request. A message that names another skill is one. If several tasks of the context wait, the client has to say which one is meant.
func (r *request) askedIn(send *wire.Send, named choices) (id string, fault *jsonrpc.Error) {
	known := r.caller.Principal != ""
	if !known && len([]rune(send.Context)) < minAnonymousName { // others may have chosen it, too
		return "", nil
	}
	q := &ledger.LabelQuery{
		Owner: r.front.Owner(r.caller.Principal), Group: send.Context, State: uint8(task.InputRequired), Limit: maxWaiting, Bytes: 1 << 20,
	}
	type asking struct{ id, skill string } // without the notes: those of all may be large
	var waiting []asking
	for more := true; more && len(waiting) < maxWaiting; {
		page, err := r.front.Ledger.Labelled(r.ctx, q)
		if err != nil {
			return "", r.taskError(send.Context, err)
		}
		for _, e := range page.Entries {
			waiting = append(waiting, asking{e.ID, e.Skill})
		}
		more, q.After, q.AfterID = page.More, page.NextAt, page.NextID
	}
	if len(waiting) == 0 {
		return "", nil
	}
	for _, c := range named {
		listed := r.listed(c.name)
		waiting = slices.DeleteFunc(waiting, func(a asking) bool { return a.skill != "" && a.skill != c.name && a.skill != listed })
	}
	switch len(waiting) {
	case 0:
		return "", nil
	case 1:
		return waiting[0].id, nil
	}
	return "", r.invalid("message.taskId", "has to say which task of the context is meant: several wait for an answer, such as "+waiting[0].id+" and "+waiting[1].id)
}

// maxWaiting is how many tasks of a context are looked at that wait for an answer.
const maxWaiting = 100

// find returns a task of the caller by its id, or by the id that a client of A2A 0.1 has chosen for it.
func (r *request) find(id string) (*task.Task, error) {
	e, err := r.entry(id)
	if err != nil {
		return nil, err
	}
	for _, name := range [...]string{r.skill, r.tenant} {
		if len(name) > maxName || name != "" && e.Skill != "" && e.Skill != name && e.Skill != r.listed(name) {
			return nil, ledger.ErrNoEntry
		}
	}
	return r.read(e)
}

// entry returns the entry of a task of the caller by its id, or by the id that a client of A2A 0.1 has chosen for it. In the methods of 0.1, the chosen id
// comes first: the client may have begun a new run under the id of an ended task of a later version.
func (r *request) entry(id string) (e *ledger.Entry, err error) {
	f, owner := r.front, r.front.Owner(r.caller.Principal)
	by := func() (*ledger.Entry, error) { return f.Ledger.Get(r.ctx, ledger.Identity{Owner: owner, ID: id}) }
	otherwise := func() (*ledger.Entry, error) { return f.Ledger.Named(r.ctx, owner, task.Key(id)) }
	if g := r.method.generation; g == methodsOf01 || g == shared {
		by, otherwise = otherwise, by
	}
	if e, err = by(); errors.Is(err, ledger.ErrNoEntry) {
		e, err = otherwise()
	}
	if err == nil && e.Front != task.Front {
		err = ledger.ErrNoEntry
	}
	if err == nil && e.State == ledger.Unknown {
		e, err = f.Given(e)
	}
	return e, err
}

// read returns the task of an entry with its artifact. If it is long and in the database only, the request has the memory for it until it is answered;
// without memory, the error is [run.ErrNoRoom].
func (r *request) read(e *ledger.Entry) (*task.Task, error) {
	return r.front.Read(r.ctx, e, func(size int64) bool {
		if r.room == nil && r.front.Server != nil {
			r.room = r.front.Server.Room(r.caller.Principal)
			r.OnAnswered(r.room.Release)
		}
		return r.room == nil || r.room.Reserve(size)
	})
}

// listed returns the name under which a skill is listed that a name means, or the name itself if it means none.
func (r *request) listed(name string) string {
	if len(name) > maxName {
		return name
	}
	if listed, failure := r.front.Bridge.Find(r.ctx, name, r.caller.Principal); failure == nil {
		return listed
	}
	return name
}

// limit returns the listed name of the skill that URL and tenant limit the request to; empty: there is no limit. one is
// false if they name different skills.
func (r *request) limit() (skill string, one bool) {
	for _, name := range [...]string{r.skill, r.tenant} {
		if name == "" {
			continue
		}
		name = r.listed(name)
		if skill != "" && skill != name {
			return "", false
		}
		skill = name
	}
	return skill, true
}

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
func (r *request) named(send *wire.Send) (named choices, asked task.Wishes, fault *jsonrpc.Error) {
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
		if said.Timeout < 0 {
			return nil, asked, r.invalid(from.field, "timeoutMs of "+wire.Extension+" must be a number of milliseconds greater than 0")
		}
		for _, name := range said.Skills {
			named.add(from.field, name)
		}
		asked.Timeout, asked.Priority = cmp.Or(said.Timeout, asked.Timeout), cmp.Or(said.Priority, asked.Priority)
	}
	return named, asked, nil
}

// selection is the skill that a message selects.
type selection struct {
	name string // empty: the message names none
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
		parts = nil // their texts are inputs
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
		return selection{name: standard}, nil
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
	chosen := selection{name: choices[0].name}
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
			return selection{}, r.invalid(c.field, "names the skill "+task.Quoted(c.name)+", but "+choices[0].field+" names "+task.Quoted(choices[0].name))
		}
		common = listed
	}
	return chosen, nil
}

// maxDescribed is the largest number of skills whose descriptors are read for the question which one is meant, to leave out those that do not work.
const maxDescribed = 50

// onlySkill chooses the only skill that the caller may see. If there are several, it asks which one is meant of those that may work. One that does
// not work counts as well: otherwise a message for it would go to another one.
func (s *submission) onlySkill(ctx context.Context) bool {
	r := s.request
	listing := s.front.Bridge.List(r.ctx, translate.Query{Caller: front.Quiet(r.caller), Executable: true, Descriptors: maxDescribed})
	if len(listing.Skills) == 1 && listing.Broken == 0 && len(listing.Unavailable) == 0 {
		s.chosen = selection{name: listing.Skills[0].Name}
		return true
	}
	var failure *run.Failure
	if len(listing.Skills) == 0 && len(listing.Unavailable) > 0 {
		failure = listing.Unavailable[0].Failure
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
		s.asked = s.front.Say(message.WhichSkill(listing.Skills, message.NoEnvelope(s.send.Message.Parts)))
		failure = run.WrongArgument(run.Argument{Field: run.FieldSkill, Reason: run.Asked}, "the message names no skill")
	}
	s.refuse(ctx, &run.Run{Failure: failure})
	if s.taken {
		return false
	}
	if s.fault != nil {
		failure = r.failureOf(s.fault)
	}
	reportAs(r, translate.OperationExecute, s.task, failure)
	return false
}
