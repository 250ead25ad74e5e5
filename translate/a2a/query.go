package a2a

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/runs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// query reads the params of a method about one task, and finds the task. For the methods that 0.3 and 0.1 share, it sets the version
// of the request to that of the task.
func (r *request) query() (*task.Task, *wire.TaskQuery, *jsonrpc.Error) {
	q, violations := wire.DecodeTaskQuery(r.version, r.params())
	if len(violations) > 0 {
		return nil, nil, r.violated(violations...)
	}
	r.tenant = q.Tenant
	t, err := r.find(q.ID)
	if err != nil {
		return nil, nil, r.taskError(q.ID, err)
	}
	if served := &r.front.Options.Versions; r.method.generation == shared && served[wire.V01] && (t.Name != "" || !served[wire.V03]) {
		r.version = wire.V01
	}
	r.task = t
	return t, &q, nil
}

// getTask answers GetTask and tasks/get.
func getTask(r *request) (jsontext.Value, *jsonrpc.Error) {
	t, q, fault := r.query()
	if fault != nil {
		return nil, fault
	}
	t = r.front.Current(r.ctx, t, r.caller)
	r.task = t
	answer := wire.TaskEvent(r.version, t, wire.TaskAnswer, q.HistoryLength)
	size := answer.Size()
	if size <= maxOwnEvent {
		return answer.AppendTo(r.ResultBuffer(0)), nil
	}
	result, err := r.front.events.Answer(r.Request, answer, size, answer.AppendTo)
	if err != nil {
		return nil, noRoom(r, "the task "+t.ID)
	}
	return result, nil
}

// errGoesOn means that a task can't be canceled.
var errGoesOn = errors.New("its run was submitted to the provider, whose protocol has no cancellation; it goes on")

// cancelTask answers CancelTask and tasks/cancel. The Skill Sharing Protocol has no cancellation: a run that was submitted goes
// on.
func cancelTask(r *request) (jsontext.Value, *jsonrpc.Error) {
	f := r.front
	t, q, fault := r.query()
	if fault != nil {
		return nil, fault
	}
	unlock, err := f.Tasks.Lock(r.ctx, t.Owner, t.ID)
	if err != nil {
		return nil, r.taskError(q.ID, err)
	}
	defer unlock()
	_, refused := f.Tasks.Change(r.ctx, t.Owner, t.ID, func(t *task.Task) error {
		var m *task.Message
		switch {
		case t.Status.State.Terminal():
			return runs.ErrEnded
		case t.Status.State.Interrupted() && t.Ref.ExecutionID == "":
		case !f.Options.Abandon:
			return errGoesOn
		default:
			m = f.Say(message.Abandoned(t.Ref.ExecutionID != ""))
		}
		t.SetStatus(task.Canceled, m, time.Now())
		return nil
	})
	unlock() // it is stored, unless another instance has ended the task meanwhile
	if refused != nil && !errors.Is(refused, runs.ErrEnded) && !errors.Is(refused, errGoesOn) {
		return nil, r.taskError(q.ID, refused)
	}
	now, err := f.Tasks.Get(r.ctx, t.Owner, t.ID)
	switch {
	case err != nil:
		return nil, r.taskError(q.ID, err)
	case errors.Is(refused, errGoesOn):
		return nil, notCancelable(r.version, now, refused.Error())
	case refused != nil, now.Status.State != task.Canceled:
		return nil, notCancelable(r.version, now, "it has ended ("+now.Status.State.String()+")")
	}
	f.Tasks.Unfollow(t.Owner, t.ID)
	r.task = now
	f.observer().Canceled(r.ctx, &r.caller, now)
	return wire.AppendTask(r.ResultBuffer(0), r.version, now, q.HistoryLength, true), nil
}

// listTasks answers ListTasks.
func listTasks(r *request) (jsontext.Value, *jsonrpc.Error) {
	q, violations := wire.DecodeList(r.params())
	if len(violations) > 0 {
		return nil, r.violated(violations...)
	}
	if q.PageSize == 0 {
		q.PageSize = wire.DefaultPageSize
	}
	r.tenant = q.Tenant
	page, err := r.list(&q)
	switch {
	case errors.Is(err, tasks.ErrBadToken):
		return nil, r.invalid("pageToken", "is none that this agent has made")
	case err != nil:
		return nil, r.taskError("", err)
	}
	if fault := reserve(r, wire.PageSize(page.Tasks, &q), "the tasks"); fault != nil {
		return nil, fault
	}
	return wire.AppendPage(nil, page.Tasks, page.NextToken, q.PageSize, page.Total, &q), nil
}

// list returns a page of the caller's tasks. It is empty for anonymous callers: they can't be distinguished, and each would see the tasks
// of all.
func (r *request) list(q *wire.ListQuery) (tasks.Page, error) {
	skill, one := r.onlySkill()
	switch {
	case one && r.caller.Principal != "":
		return r.front.Tasks.List(r.ctx, r.owner(), tasks.Query{
			Context: q.Context, Skill: skill, State: q.State, Since: q.Since, Token: q.PageToken, Limit: q.PageSize, Artifacts: q.Artifacts,
			GiveUp: r.front.Loses,
		})
	case q.PageToken != "": // an empty list has no further page
		return tasks.Page{}, tasks.ErrBadToken
	}
	return tasks.Page{}, nil
}

// extendedCard answers GetExtendedAgentCard and agent/getAuthenticatedExtendedCard.
func extendedCard(r *request) (jsontext.Value, *jsonrpc.Error) {
	f := r.front
	if f.ExtendedCard == nil {
		return nil, unsupported(r.version, "this agent has no extended card")
	}
	card, failure := f.ExtendedCard(r.ctx, r.HTTP, r.version, &r.caller)
	if failure != nil {
		return nil, r.failureError(failure)
	}
	return card, nil
}
