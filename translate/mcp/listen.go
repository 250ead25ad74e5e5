package mcp

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// listChanges are the notifications about lists that a client can subscribe to, by their members.
var listChanges = []struct{ member, method string }{
	{"toolsListChanged", "notifications/tools/list_changed"},
	{"promptsListChanged", "notifications/prompts/list_changed"},
	{"resourcesListChanged", "notifications/resources/list_changed"},
}

// subscription is what a client listens to.
type subscription struct {
	*request

	stream   *jsonrpc.Stream
	id       jsontext.Value  // of the request
	lists    []string        // methods of the notifications
	changed  <-chan struct{} // is closed when a list changes after the acknowledgement; nil: there are no lists
	accepted jsontext.Value  // what is honoured
	tasks    []subscribedTask

	writing   chan struct{}        // has a value while something is written to the stream, and what follows is used
	open      int                  // tasks that the client has not heard of
	followers []context.CancelFunc // by task; nil: the client knows that it has ended
	leave     func()               // ends the subscription
}

// errTooManyListeners is the error for a subscription that is one too many.
var errTooManyListeners = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "Too many subscriptions are open; close one, or try again later"}

// listen answers subscriptions/listen with a stream of notifications.
func listen(r *request) (jsontext.Value, *jsonrpc.Error) {
	wanted := r.Param("notifications").Value
	switch {
	case wanted == nil:
		return r.refuse(invalid("notifications is required"))
	case wanted.Kind() != '{':
		return r.refuse(invalid("notifications must be an object"))
	}
	if fault := r.StreamFault(); fault != nil {
		return r.refuse(fault)
	}
	s, fault := subscriptionOf(r, wanted)
	if fault != nil {
		return r.refuse(fault)
	}
	if !front.AcceptsStream(r.HTTP, "text/event-stream") {
		return r.refuse(&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Invalid Request: subscriptions are streams; send Accept: text/event-stream", Status: http.StatusOK})
	}
	release, ok := r.front.listeners.enter(r.caller.Principal)
	if !ok {
		failure := front.FailureOf(errTooManyListeners)
		failure.Kind = run.RateLimited // which is no fault of the server
		r.report(failure)
		return nil, errTooManyListeners
	}
	defer release()
	defer r.report(nil)
	r.front.Streaming(1)
	defer r.front.Streaming(-1)
	s.stream = r.Stream()
	s.stream.EndBy(time.Now().Add(longest + time.Minute))
	r.Params, r.Members = nil, nil
	r.meta = wire.Meta{Tasks: r.meta.Tasks}
	r.Release()
	if len(s.lists) > 0 { // before the acknowledgement: the client gets every change after that
		defer r.front.Bridge.Listen()()
		s.changed = r.front.Bridge.Changed(r.caller.Principal)
	}
	if s.stream.Notify("notifications/subscriptions/acknowledged", s.params(func(w *front.Writer) { w.Raw("notifications", s.accepted) })) != nil {
		return nil, nil
	}
	if len(s.lists) > 0 || len(s.tasks) > 0 {
		s.serve()
	}
	w := r.open(resultComplete)
	_ = s.stream.Result(0, w.end(func(w *front.Writer) { w.Raw(wire.MetaSubscription, s.id) })) // an error would mean that the client is gone
	return nil, nil
}

// subscriptionOf reads what a client asks to listen to. It ignores members and ids that it does not know.
func subscriptionOf(r *request, wanted jsontext.Value) (*subscription, *jsonrpc.Error) {
	s := &subscription{request: r, id: r.ID.Clone()}
	var w front.Writer
	w.Open()
	for _, c := range listChanges {
		unseen := c.member == "toolsListChanged" && r.front.Options.Search // the list does not change
		v := jsonrpc.ValueOf(wanted, c.member)
		if kind := v.Kind(); v != nil && kind != 't' && kind != 'f' {
			return nil, invalid("notifications." + c.member + " must be true or false")
		} else if kind == 't' && !unseen {
			s.lists = append(s.lists, c.method)
			w.Bool(c.member, true)
		}
	}
	ids := jsonrpc.ValueOf(wanted, "taskIds")
	if ids != nil && ids.Kind() != '[' {
		return nil, invalid("notifications.taskIds must be an array")
	}
	if ids != nil && r.front.Options.TaskAfter >= 0 {
		var named []string
		for v := range jsonrpc.Items(ids) {
			named = append(named, jsonrpc.Text(v))
		}
		if len(named) > 0 && !r.meta.Tasks {
			return nil, withoutTasks()
		}
		s.tasks = ownTasks(named, func(id string) (run.Ref, error) { return r.front.Tokens.Open(r.ctx, id, r.caller.Principal) })
		own := make([]string, len(s.tasks))
		for i := range s.tasks {
			own[i] = s.tasks[i].id
		}
		w.Texts("taskIds", own)
	}
	w.Close()
	s.accepted = w.Buf
	return s, nil
}

// params returns the params of a notification.
func (s *subscription) params(add func(*front.Writer)) jsontext.Value {
	return s.withID(front.Object(func(w *front.Writer) {
		if add != nil {
			add(w)
		}
	}))
}

// withID adds the id of the subscription to the params of a notification, in their buffer.
func (s *subscription) withID(params jsontext.Value) jsontext.Value {
	w := front.Writer{Buf: params[:len(params)-1]}
	w.OpenMember("_meta")
	w.Raw(wire.MetaSubscription, s.id)
	w.Close()
	w.Close()
	return w.Buf
}

// canceledTask returns the params of the notification of a task if it was canceled; nil: it was not.
func (s *subscription) canceledTask(index int) jsontext.Value {
	t := &s.tasks[index]
	at := canceledAt(s.request, &t.ref)
	if at.IsZero() {
		return nil
	}
	return s.withID(canceledTask(s.request, t.id, &t.ref, at))
}
