package a2a

import (
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
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
	r.front.look(r.ctx, t)
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
	now, err := f.Change(r.ctx, t, func(t *task.Task) error {
		var m *task.Message
		switch {
		case t.Status.State.Interrupted() && t.Ref.ExecutionID == "":
		case !f.Options.Abandon:
			return errGoesOn
		default:
			m = f.Say(task.Abandoned(t.Ref.ExecutionID != ""))
		}
		t.SetStatus(task.Canceled, m, f.Ledger.Now())
		return nil
	})
	switch {
	case errors.Is(err, ledger.ErrEnded):
		if now, err = r.find(q.ID); err == nil {
			return nil, notCancelable(r.version, now, "it has ended ("+now.Status.State.String()+")")
		}
	case errors.Is(err, errGoesOn):
		return nil, notCancelable(r.version, t, err.Error())
	}
	if err != nil {
		return nil, r.taskError(q.ID, err)
	}
	r.task = now
	r.changed(r.ctx, taskCanceled, now, "", "")
	return wire.AppendTask(r.ResultBuffer(0), r.version, now, q.HistoryLength, true), nil
}

// listTasks answers ListTasks.
func listTasks(r *request) (jsontext.Value, *jsonrpc.Error) {
	q, violations := wire.DecodeList(r.params())
	if len(violations) > 0 {
		return nil, r.violated(violations...)
	}
	r.tenant = q.Tenant
	page, err := r.list(&q)
	switch {
	case errors.Is(err, errBadToken):
		return nil, r.invalid("pageToken", "is none that this agent has made")
	case err != nil:
		return nil, r.taskError("", err)
	}
	list := make([]*task.Task, 0, len(page.Entries))
	for _, e := range page.Entries {
		if e.State == ledger.Unknown {
			if e, err = r.front.Given(e); err != nil {
				return nil, r.taskError("", err)
			}
		}
		if t, err := task.FromEntry(e, page.Apart[e.ID]); err == nil { // else it is damaged
			list = append(list, t)
		}
	}
	if !r.Reserve(wire.PageSize(list, &q)) {
		return nil, noRoom(r, "the tasks")
	}
	next := ""
	if page.More {
		next = pageToken(page.NextAt, page.NextID)
	}
	return wire.AppendPage(nil, list, next, q.PageSize, page.Total, &q), nil
}

// maxPage is the size of the largest page, in bytes. A page has at least one task.
const maxPage = 8 << 20

// list returns a page of the caller's tasks. It is empty for anonymous callers: they can't be distinguished, and each would see the tasks
// of all.
func (r *request) list(q *wire.ListQuery) (*ledger.LabelPage, error) {
	skill, one := r.limit()
	switch {
	case one && r.caller.Principal != "":
		query := &ledger.LabelQuery{
			Owner: r.front.Owner(r.caller.Principal), Group: q.Context, Skill: skill, State: uint8(q.State), Since: q.Since, Limit: q.PageSize,
			Whole: q.Artifacts, Bytes: maxPage,
		}
		if q.PageToken != "" {
			var ok bool
			if query.After, query.AfterID, ok = decodeToken(q.PageToken); !ok {
				return nil, errBadToken
			}
		}
		return r.front.Ledger.Labelled(r.ctx, query)
	case q.PageToken != "": // an empty list has no further page
		return nil, errBadToken
	}
	return new(ledger.LabelPage), nil
}

// errBadToken is the error for a page token that pageToken has not made.
var errBadToken = errors.New("the page token is not valid")

// pageToken returns the token for the tasks after a task.
func pageToken(at time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.UTC().Format(time.RFC3339Nano) + " " + id))
}

func decodeToken(token string) (at time.Time, id string, ok bool) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(text) > 100 {
		return time.Time{}, "", false
	}
	when, id, _ := strings.Cut(string(text), " ")
	at, err = time.Parse(time.RFC3339Nano, when)
	_, ok = run.TimeOfID(id)
	return at, id, ok && err == nil
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
