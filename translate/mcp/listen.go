package mcp

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Bounds of subscriptions.
const (
	maxTasksOfListener    = 16
	longestListening      = time.Hour
	listenKeepAlive       = 15 * time.Second
	pauseBetweenFollowing = 30 * time.Second
	// outputKept is how long the output of a task is kept for a stream that is being written.
	outputKept = time.Second
	// pauseBetweenCancellations is how often the storage is asked whether tasks were canceled at another instance.
	pauseBetweenCancellations = 15 * time.Second
)

// listChanges are the notifications about lists that a client can subscribe to, by their members.
var listChanges = []struct{ member, method string }{
	{"toolsListChanged", "notifications/tools/list_changed"},
	{"promptsListChanged", "notifications/prompts/list_changed"},
	{"resourcesListChanged", "notifications/resources/list_changed"},
}

// announces reports whether a change of a list is announced: clients have to see it.
func (o *Options) announces(change string) bool {
	return (change != "toolsListChanged" || !o.Search) && (change != "promptsListChanged" || o.Prompts)
}

// subscription is what a client listens to.
type subscription struct {
	id       jsontext.Value // of the request
	lists    []string       // methods of the notifications
	accepted jsontext.Value // what is honoured
	tasks    []followedTask
}

type followedTask struct {
	id  string
	ref run.Ref
}

// listen answers subscriptions/listen with a stream of notifications.
func listen(r *request) (jsontext.Value, *jsonrpc.Error) {
	wanted := r.params[paramNotifications].Value
	if wanted.Kind() != '{' {
		return nil, invalid("notifications must be an object")
	}
	if fault := r.StreamFault(); fault != nil {
		return nil, fault
	}
	s := subscriptionOf(r, wanted)
	if !acceptsStream(r) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Not acceptable: send Accept: text/event-stream", Status: http.StatusNotAcceptable}
	}
	release, ok := r.front.listeners.Enter(r.caller.Principal)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "Too many subscriptions are open; close one, or try again later"}
	}
	defer release()
	if report := r.front.Streaming; report != nil {
		report(1)
		defer report(-1)
	}
	stream := r.Stream()
	r.params, r.Request.Params, r.Request.Members = params{}, nil, nil
	r.meta = meta{tasks: r.meta.tasks}
	r.Release()
	if stream.Notify("notifications/subscriptions/acknowledged", s.params(func(w *front.Writer) { w.Raw("notifications", s.accepted) })) != nil {
		return nil, nil
	}
	if len(s.lists) > 0 || len(s.tasks) > 0 {
		r.notify(stream, s)
	}
	w := r.open(resultComplete)
	_ = stream.Result(0, w.end(func(w *front.Writer) { w.Raw(metaSubscription, s.id) })) // an error would mean that the client is gone
	return nil, nil
}

// subscriptionOf reads what a client wants to listen to. What is not known is not honoured.
func subscriptionOf(r *request, wanted jsontext.Value) *subscription {
	s := &subscription{id: r.ID.Clone()}
	var w front.Writer
	w.Open()
	for _, c := range listChanges {
		if wire.Member(wanted, c.member).Kind() == 't' && r.front.Options.announces(c.member) {
			s.lists = append(s.lists, c.method)
			w.Raw(c.member, jsontext.Value("true"))
		}
	}
	if ids := wire.Member(wanted, "taskIds"); ids.Kind() == '[' && r.meta.tasks {
		w.OpenArray("taskIds")
		for _, v := range front.Items(ids) {
			ref, err := r.front.Tokens.Open(r.ctx, wire.Text(v), r.caller.Principal)
			if err != nil || len(s.tasks) == maxTasksOfListener {
				continue
			}
			s.tasks = append(s.tasks, followedTask{wire.Text(v), ref})
			w.Next()
			w.Buf = front.AppendText(w.Buf, wire.Text(v))
		}
		w.CloseArray()
	}
	w.Close()
	s.accepted = w.Buf
	return s
}

// params returns the params of a notification.
func (s *subscription) params(add func(*front.Writer)) jsontext.Value {
	var w front.Writer
	w.Open()
	if add != nil {
		add(&w)
	}
	w.OpenMember("_meta")
	w.Raw(metaSubscription, s.id)
	w.Close()
	w.Close()
	return w.Buf
}

// notify sends notifications until the client leaves, the server stops or the time is over.
func (r *request) notify(stream *jsonrpc.Stream, s *subscription) {
	ctx, cancel := context.WithTimeout(r.ctx, longestListening)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	ended := make(chan endedTask)
	followers := make([]context.CancelFunc, len(s.tasks)) // nil: the task has ended
	begin := func(i int) {
		following, end := context.WithCancel(ctx)
		followers[i] = end
		group.Go(func() {
			defer r.front.recovered(ctx)
			follow(following, r, i, s.tasks[i], ended)
		})
	}
	for i := range s.tasks {
		begin(i)
	}
	if len(s.tasks) > 0 {
		group.Go(func() {
			defer r.front.recovered(ctx)
			awaitCancellations(ctx, r, s.tasks, ended)
		})
	}
	readLists := untilFresh(r)
	var changed <-chan struct{}
	refresh := time.NewTimer(0)
	defer refresh.Stop()
	if len(s.lists) > 0 {
		changed = r.front.Bridge.Changed()
	} else {
		refresh.Stop()
	}
	pause := time.NewTicker(listenKeepAlive)
	defer pause.Stop()
	open := len(s.tasks)
	for len(s.lists) > 0 || open > 0 {
		select {
		case task := <-ended:
			if followers[task.index] == nil {
				continue
			}
			followers[task.index]()
			if task.text == nil { // it is read again
				begin(task.index)
				continue
			}
			followers[task.index] = nil
			open--
			text := task.text()
			text = text[1 : len(text)-1]
			if stream.Notify("notifications/tasks", s.params(func(w *front.Writer) { w.Buf = append(w.Buf, text...) })) != nil {
				return
			}
		case <-refresh.C:
			refresh.Reset(time.Until(r.front.listeners.Refresh(ctx, r.caller.Principal, readLists)))
		case <-changed:
			changed = r.front.Bridge.Changed()
			for _, method := range s.lists {
				if stream.Notify(method, s.params(nil)) != nil {
					return
				}
			}
		case <-pause.C:
			if stream.KeepAlive() != nil {
				return
			}
		case <-r.front.Stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// endedTask is a task of a subscription, with its index there.
type endedTask struct {
	index int
	// text returns the task as an object, which is made when it is sent; nil: the task is not kept.
	text func() jsontext.Value
}

func send(ctx context.Context, to chan<- endedTask, t endedTask) {
	select {
	case to <- t:
	case <-ctx.Done():
	}
}

// awaitCancellations sends the tasks that are canceled. The storage, which knows those that were canceled at other instances, is
// asked now and then.
func awaitCancellations(ctx context.Context, r *request, tasks []followedTask, ended chan<- endedTask) {
	pause := time.NewTicker(pauseBetweenCancellations)
	defer pause.Stop()
	told := make([]bool, len(tasks))
	for {
		canceled := r.front.canceled.Changed()
		for i, t := range tasks {
			if !told[i] && hasCanceled(r, &t.ref) {
				told[i] = true
				w := result{request: r}
				w.Buf = append(w.Buf, '{')
				w.task(t.id, &t.ref, taskCancelled, abandoned, longestPoll)
				w.Close()
				send(ctx, ended, endedTask{i, func() jsontext.Value { return w.Buf }})
			}
		}
		select {
		case <-canceled:
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow waits for the end of a task and sends it. If the client reads slowly, so that other notifications wait, it sends the task
// without a text: a listener does not keep the outputs of all its tasks.
func follow(ctx context.Context, r *request, index int, t followedTask, ended chan<- endedTask) {
	text := await(ctx, r, t)
	for text == nil {
		select {
		case <-time.After(pauseBetweenFollowing):
		case <-ctx.Done():
			return
		}
		text = await(ctx, r, t)
	}
	select {
	case ended <- endedTask{index, text}:
	case <-ctx.Done():
	case <-time.After(outputKept):
		send(ctx, ended, endedTask{index: index})
	}
}

// await waits for the end of a task, and returns a function that returns the task as an object; nil: it goes on.
func await(ctx context.Context, r *request, t followedTask) func() jsontext.Value {
	caller := r.caller
	caller.Arrived = time.Now()
	execution := r.front.Bridge.Resume(ctx, t.ref, translate.Call{Caller: caller, Detached: true})
	outcome := execution.Wait()
	if isOpen(&outcome) || ctx.Err() != nil {
		return nil
	}
	skill := execution.Skill()
	return func() jsontext.Value {
		own := *r
		own.Request = new(jsonrpc.Request)
		_, task := ofRun(&own, t.id, &t.ref, skill, &outcome)
		return task
	}
}

// untilFresh returns a function that reads the lists of all sources that are stale, and returns until when all are fresh.
func untilFresh(r *request) func(context.Context) time.Time {
	caller := r.caller
	caller.Front, caller.Method = "", "" // the list is a part of the call
	return func(ctx context.Context) time.Time {
		return r.front.Bridge.List(ctx, translate.Query{Caller: caller}).FreshUntil
	}
}
