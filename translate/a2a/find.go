package a2a

import (
	"errors"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
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
		return nil, r.invalid(contextField(r.version), "is not that of the task")
	case t.Status.State.Terminal():
		return nil, unsupported(r.version, "the task has ended ("+t.Status.State.String()+"); start a new one, with the same context if it belongs together")
	}
	return t, nil
}

func contextField(v wire.Version) string {
	if v == wire.V01 {
		return "sessionId"
	}
	return "message.contextId"
}

// askedIn returns the id of the task whose question a message answers that names its context but no task, as some clients do; empty: it is a new
// request. A message that names another skill is one. If several tasks of the context wait, the client has to say which one is meant.
func (r *request) askedIn(send *wire.Send, named choices) (id string, fault *jsonrpc.Error) {
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
	for _, c := range named {
		waiting = slices.DeleteFunc(waiting, func(e *ledger.Entry) bool { return e.Skill != "" && e.Skill != c.name && e.Skill != r.listed(c.name) })
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
