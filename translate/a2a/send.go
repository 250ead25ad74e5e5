package a2a

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/loads"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// minAnonymousName is the minimum length of the id that an anonymous client of A2A 0.1 chooses for a task, in characters: every
// anonymous client that knows the id can read the task.
const minAnonymousName = 16

// send answers SendMessage, SendStreamingMessage and their older forms.
func send(r *request) (jsontext.Value, *jsonrpc.Error) {
	f := r.front
	send, violations := wire.DecodeSend(r.version, r.params())
	if len(violations) > 0 {
		return r.refused(r.violated(violations...))
	}
	if send.Push != nil && f.Push == nil {
		return r.refused(pushNotSupported(r.version))
	}
	t, unlock, fault := r.taskOf(&send)
	if fault != nil {
		return r.refused(fault)
	}
	if send.Push != nil {
		if wrong := f.Push.Violation(r.ctx, r.version, t, send.Push, true); wrong != nil {
			unlock()
			return r.refused(r.violated(*wrong))
		}
	}
	s := &submission{front: f, request: r, send: send, task: t, unlock: unlock, until: time.Now().Add(longestWait(r)), made: make(chan struct{}), ended: make(chan struct{})}
	s.full = make(chan struct{})
	s.asks.message, s.asks.request = message.DirectionsIn(send.Message.Metadata), message.DirectionsIn(send.Metadata)
	s.send.Metadata = nil // it may be long, and streams last long
	if s.chosen, fault = r.selectSkill(s); fault != nil {
		s.unlocked()
		return r.refused(fault)
	}
	if t != nil && (t.Status.State == task.Submitted || t.Status.State == task.Working) {
		return s.join()
	}
	ctx := context.WithoutCancel(r.ctx)
	go func() {
		front.GrowStack(0)
		s.run(ctx)
	}()
	waits := !s.send.Immediately || r.version == wire.V01
	if waits && !r.method.streams && !r.IsNotification() {
		s.wait() // before made is read: most runs end at once, and then the request is woken once instead of twice
	}
	<-s.made
	switch {
	case s.fault != nil:
		return r.fail(s.fault)
	case s.subscription != nil:
		last := s.task.Status.State
		fault := r.stream(s.task, s.subscription, send.HistoryLength, func(state task.State) bool {
			last = state
			return stopSending(state)
		})
		s.answered(last)
		return nil, fault
	case r.IsNotification():
		s.answered(task.Working)
		return nil, nil
	}
	return s.answer(waits)
}

// refused reports a call that is refused before a call of the bridge, and returns its answer.
func (r *request) refused(fault *jsonrpc.Error) (jsontext.Value, *jsonrpc.Error) {
	r.report(withCode(r.failureOf(fault), fault))
	return r.fail(fault)
}

// taskOf returns the task that a message is for, and locks it; nil: the message makes a new one.
func (r *request) taskOf(send *wire.Send) (t *task.Task, unlock func(), fault *jsonrpc.Error) {
	f := r.front
	none := func() {}
	byContext := send.Task == "" && send.Context != "" && r.version != wire.V01
	if byContext {
		if send.Task, fault = r.askedIn(send); fault != nil {
			return nil, none, fault
		}
	}
	if send.Task == "" {
		return nil, none, nil
	}
	if r.version == wire.V01 && r.caller.Principal == "" && len([]rune(send.Task)) < minAnonymousName {
		return nil, none, r.invalid("id", "of a caller without a principal needs at least 16 characters, since it is the only secret of the task")
	}
	t, err := r.find(send.Task)
	if r.version == wire.V01 && isNew(t, err) {
		unlock, err = f.Tasks.Lock(r.ctx, r.owner(), "name "+send.Task) // so that a message that is sent twice at the same time starts one run
		if err != nil {
			return nil, none, r.taskError(send.Task, err)
		}
		if t, err = r.find(send.Task); isNew(t, err) {
			return nil, unlock, nil
		}
		unlock()
	}
	switch {
	case byContext && errors.Is(err, tasks.ErrNoTask): // it has expired meanwhile
		send.Task = ""
		return nil, none, nil
	case err != nil:
		return nil, none, r.taskError(send.Task, err)
	}
	unlock, err = f.Tasks.Lock(r.ctx, t.Owner, t.ID)
	if err != nil {
		return nil, none, r.taskError(send.Task, err)
	}
	t, err = r.find(send.Task) // another message may have changed it
	switch {
	case byContext && (err != nil || t.Status.State != task.InputRequired): // it was answered meanwhile
		unlock()
		send.Task = ""
		return nil, none, nil
	case err != nil:
		fault = r.taskError(send.Task, err)
	case send.Context != "" && send.Context != t.Context:
		fault = r.invalid(contextField(r.version), "is not that of the task")
	case t.Status.State.Terminal() && r.version == wire.V01: // it has ended meanwhile
		unlock()
		return r.taskOf(send)
	case t.Status.State.Terminal():
		fault = unsupported(r.version, "the task has ended ("+t.Status.State.String()+"); start a new one, with the same context if it belongs together")
	}
	if fault != nil {
		unlock()
		return nil, none, fault
	}
	return t, unlock, nil
}

// isNew reports whether a message of A2A 0.1 makes a new task under the client's id, by the result of find.
func isNew(t *task.Task, err error) bool {
	return errors.Is(err, tasks.ErrNoTask) || err == nil && t.Status.State.Terminal()
}

func contextField(v wire.Version) string {
	if v == wire.V01 {
		return "sessionId"
	}
	return "message.contextId"
}

// find returns a task of the caller by its id, or by the id that a client of A2A 0.1 has chosen for it. In the methods of 0.1, the
// chosen id comes first: the client may have begun a new run under the id of an ended task of a later version.
func (r *request) find(id string) (*task.Task, error) {
	f := r.front
	if r.reader == nil {
		r.reader = &loads.Reader{Room: func(size int64) (release func(), ok bool) {
			room := f.Server.Room(r.caller.Principal)
			return room.Release, room.Reserve(size)
		}}
		r.ctx = loads.WithReader(r.ctx, r.reader)
		r.OnAnswered(r.reader.End)
	}
	by, otherwise := f.Tasks.Get, f.Tasks.Named
	if g := r.method.generation; g == methodsOf01 || g == shared {
		by, otherwise = otherwise, by
	}
	t, err := by(r.ctx, r.owner(), id)
	if errors.Is(err, tasks.ErrNoTask) {
		t, err = otherwise(r.ctx, r.owner(), id)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range [...]string{r.skill, r.tenant} {
		if len(name) > maxName || name != "" && t.Skill != "" && t.Skill != name && t.Skill != r.listed(name) {
			return nil, tasks.ErrNoTask
		}
	}
	return t, nil
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

// onlySkill returns the listed name of the skill that URL and tenant limit the request to; empty: there is no limit. one is
// false if they name different skills.
func (r *request) onlySkill() (skill string, one bool) {
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

// taskError returns the error for a task that can't be read.
func (r *request) taskError(id string, err error) *jsonrpc.Error {
	switch {
	case errors.Is(err, tasks.ErrNoTask):
		return taskNotFound(r.version, id)
	case errors.Is(err, run.ErrNoRoom):
		return noRoom(r, "the task "+id)
	}
	return r.failureError(notKept(err))
}

// join handles a message to a task whose run goes on: it adds the message to the history.
func (s *submission) join() (jsontext.Value, *jsonrpc.Error) {
	f, r := s.front, s.request
	s.ended = nil
	webhook, err := f.Push.Make(r.ctx, s.task.Owner, s.task.ID, r.version, s.send.Push)
	if err == nil {
		s.task, err = f.Tasks.Change(r.ctx, s.task.Owner, s.task.ID, func(t *task.Task) error {
			t.AddMessage(s.send.Message)
			return push.Add(t, webhook)
		})
	}
	s.unlocked()
	if err != nil {
		return r.refused(r.taskError(s.send.Task, err))
	}
	t := s.task
	r.task = t
	if webhook != nil {
		f.Push.Watch(r.ctx, t)
		f.observer().WebhookChanged(r.ctx, &r.caller, t, webhook, false)
	}
	if r.method.streams && !r.IsNotification() {
		t, subscription, err := f.Tasks.Subscribe(r.ctx, t.Owner, t.ID)
		if err != nil {
			return r.refused(r.taskError(s.send.Task, err))
		}
		f.Current(r.ctx, t, r.caller)
		fault := r.stream(t, subscription, s.send.HistoryLength, stopSending)
		r.report(withCode(r.failureOf(fault), fault))
		return nil, fault
	}
	f.Current(r.ctx, t, r.caller)
	result, fault := s.answer(!s.send.Immediately || r.version == wire.V01)
	r.report(withCode(r.failureOf(fault), fault))
	return result, fault
}

// answer answers a message with its task. With wait, it waits until the task is settled, or for as long as a request may wait.
func (s *submission) answer(wait bool) (jsontext.Value, *jsonrpc.Error) {
	f, r := s.front, s.request
	t, err := f.Tasks.Get(r.ctx, s.task.Owner, s.task.ID)
	full := wait && s.full != nil && isClosed(s.full)
	if err == nil && wait && !full && !settled(t) {
		t, err = s.await(t)
	}
	if err != nil {
		return s.untold(err)
	}
	s.answered(t.Status.State)
	if full && !settled(t) { // its run goes on
		return nil, noRoom(r, "the task "+t.ID)
	}
	if fault := reserve(r, wire.TaskEvent(r.version, t, wire.WholeTask, s.send.HistoryLength).Size(), "the task "+t.ID); fault != nil { // then a task that would be answered with a message stays, too
		return nil, fault
	}
	if s.first && t.Artifact != nil && t.Status.State == task.Completed && !s.send.Immediately && r.version != wire.V01 && slices.Contains(f.Options.ReplyMessage, t.Skill) {
		f.Tasks.Drop(t.Owner, t.ID)
		return wire.AppendMessageResult(nil, r.version, reply(t), t), nil
	}
	return wire.AppendSendResult(r.ResultBuffer(0), r.version, t, s.send.HistoryLength), nil
}

// await waits until a task is settled, or for as long as the request may wait, and returns the task. The run may not be followed
// any more, so it is followed again.
func (s *submission) await(t *task.Task) (*task.Task, error) {
	r := s.request
	ctx, cancel := context.WithDeadline(r.ctx, s.until)
	defer cancel()
	if stopping := r.front.Stopping; stopping != nil {
		defer context.AfterFunc(stopping, cancel)()
	}
	go repeat(ctx, func() { r.refresh(t) })
	now, err := r.front.Tasks.Wait(ctx, t.Owner, t.ID, settled)
	if now != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		err = nil
	}
	return now, err
}

// untold answers a message whose task can't be shown, because the storage has failed.
func (s *submission) untold(err error) (jsontext.Value, *jsonrpc.Error) {
	failure := untold(s.request.version, s.task, err)
	if s.ended != nil && (!s.invoked || isClosed(s.ended) && s.refused) { // nothing was executed: the client may send the message again
		failure = notKept(err)
		if s.first { // and it does not know the task
			s.front.Tasks.Drop(s.task.Owner, s.task.ID)
		}
	}
	s.answered(task.Working)
	return s.request.fail(s.request.failureError(failure))
}

// reply returns the output of a task as a message.
func reply(t *task.Task) *task.Message {
	m := &task.Message{ID: t.ID, Role: task.Agent, Parts: t.Artifact.Parts, Metadata: wire.Warnings(t)}
	if m.Metadata != nil {
		m.Extensions = []string{wire.Extension}
	}
	return m
}

// settled reports whether a client that waits for a task gets its answer.
func settled(t *task.Task) bool {
	return t.Status.State.Terminal() || t.Status.State.Interrupted()
}

// wait waits until the submission has ended, for as long as a request may wait.
func (s *submission) wait() {
	r := s.request
	longest := r.front.timers.Take(time.Until(s.until))
	defer r.front.timers.GiveBack(longest)
	var stopping <-chan struct{}
	if r.front.Stopping != nil {
		stopping = r.front.Stopping.Done()
	}
	select {
	case <-s.ended:
	case <-s.full:
	case <-longest.C:
	case <-r.ctx.Done():
	case <-stopping:
	}
}

// longestWait is how long a request waits for a task.
func longestWait(r *request) time.Duration {
	if r.version == wire.V01 {
		return min(r.front.Options.Wait, maxWait01)
	}
	return r.front.Options.Wait
}

// fail answers with an error. For a method that streams, the form depends on the version: an HTTP error status, or one event.
func (r *request) fail(fault *jsonrpc.Error) (jsontext.Value, *jsonrpc.Error) {
	r.failed = withCode(r.failureOf(fault), fault)
	if r.method == nil || !r.method.streams || r.IsNotification() || r.InBatch() {
		return nil, fault
	}
	if r.version == wire.V10 {
		if fault.Status == 0 {
			own := *fault
			own.Status = streamStatus(fault.Code)
			fault = &own
		}
		return nil, fault
	}
	if fault.Status == 0 && front.AcceptsStream(r.HTTP, "text/event-stream", "text/*", "*/*") {
		if s := r.Stream(); s != nil {
			_ = s.Error(fault) // it fails only if the client has disconnected
			return nil, nil
		}
	}
	return nil, fault
}

// failureOf returns the failure behind an error, for reports.
func (r *request) failureOf(fault *jsonrpc.Error) *run.Failure {
	switch {
	case r.failed != nil:
		return r.failed
	case fault == nil:
		return nil
	}
	failure := wrongRequest(fault.Message)
	switch fault.Code {
	case jsonrpc.CodeInternalError:
		failure.Kind, failure.Argument = run.Internal, nil
	case wire.CodeTaskNotFound: // the task, or its webhook
		failure.Argument.Name, failure.Argument.Reason = "id", run.NotFound
	}
	return failure
}
