package a2a

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/runs"
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

// maxTaken is how often a message is looked at again because another message has changed its task first.
const maxTaken = 10

// send answers SendMessage, SendStreamingMessage and their older forms.
func send(r *request) (result jsontext.Value, fault *jsonrpc.Error) {
	for range maxTaken {
		var taken bool
		if result, fault, taken = r.send(); !taken {
			return result, fault
		}
	}
	return r.refused(r.failureError(notKept(errTaken)))
}

// send is the method send, unless the task of the message is taken.
func (r *request) send() (result jsontext.Value, fault *jsonrpc.Error, taken bool) {
	f := r.front
	refused := func(fault *jsonrpc.Error) (jsontext.Value, *jsonrpc.Error, bool) {
		result, fault := r.refused(fault)
		return result, fault, false
	}
	send, violations := wire.DecodeSend(r.version, r.params())
	if len(violations) > 0 {
		return refused(r.violated(violations...))
	}
	if send.Push != nil && f.Push == nil {
		return refused(pushNotSupported(r.version))
	}
	t, fault := r.taskOf(&send)
	if fault != nil {
		return refused(fault)
	}
	if send.Push != nil {
		if wrong := f.Push.Violation(r.ctx, r.version, t, send.Push, true); wrong != nil {
			return refused(r.violated(*wrong))
		}
	}
	s := &submission{front: f, request: r, send: send, task: t, until: time.Now().Add(longestWait(r)), made: make(chan struct{}), ended: make(chan struct{})}
	s.full = make(chan struct{})
	s.Tasks, s.Unkept = &f.Tasks, s.isReply
	s.Set(t)
	s.asks.message, s.asks.request = message.DirectionsIn(send.Message.Metadata), message.DirectionsIn(send.Metadata)
	s.send.Metadata = nil // it may be long, and streams last long
	if s.chosen, fault = r.selectSkill(s); fault != nil {
		return refused(fault)
	}
	if t != nil && runs.IsOpen(t) {
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
	case s.taken:
		<-s.ended
		return nil, nil, true
	case s.fault != nil:
		result, fault = r.fail(s.fault)
	case s.feed != nil:
		last := s.task.Status.State
		fault = r.stream(s.task, s.feed, send.HistoryLength, func(state task.State) bool {
			last = state
			return stopSending(state)
		})
		s.answered(last)
	case r.IsNotification():
		s.answered(task.Working)
	default:
		result, fault = s.answer(waits)
	}
	return result, fault, false
}

// refused reports a call that is refused before a call of the bridge, and returns its answer.
func (r *request) refused(fault *jsonrpc.Error) (jsontext.Value, *jsonrpc.Error) {
	r.report(withCode(r.failureOf(fault), fault))
	return r.fail(fault)
}

// taskOf returns the task that a message is for; nil: the message makes a new one.
func (r *request) taskOf(send *wire.Send) (t *task.Task, fault *jsonrpc.Error) {
	byContext := send.Task == "" && send.Context != "" && r.version != wire.V01
	if byContext {
		if send.Task, fault = r.askedIn(send); fault != nil {
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
	case errors.Is(err, ledger.ErrNoEntry):
		return taskNotFound(r.version, id)
	case errors.Is(err, run.ErrNoRoom):
		return noRoom(r, "the task "+id)
	}
	return r.failureError(notKept(err))
}

// join handles a message to a task whose run goes on: it adds the message to the history.
func (s *submission) join() (result jsontext.Value, fault *jsonrpc.Error, taken bool) {
	f, r := s.front, s.request
	s.ended = nil
	cursor := s.task.Entry.Version
	t, err := f.Change(r.ctx, s.task, func(t *task.Task) error {
		if !runs.IsOpen(t) {
			return errTaken
		}
		t.AddMessage(s.send.Message)
		t.Pushed = t.Pushed || s.send.Push != nil
		return nil
	})
	if errors.Is(err, errTaken) || errors.Is(err, ledger.ErrEnded) {
		return nil, nil, true
	}
	var webhook *wire.PushConfig
	if err == nil {
		s.task, r.task = t, t
		s.Set(t)
		if s.send.Push != nil {
			webhook, err = f.Push.Attach(r.ctx, t, r.version, s.send.Push, cursor)
		}
	}
	if err != nil {
		result, fault = r.refused(r.taskError(s.send.Task, err))
		return result, fault, false
	}
	if webhook != nil {
		f.observer().WebhookChanged(r.ctx, &r.caller, t, webhook, false)
	}
	if r.method.streams && !r.IsNotification() {
		fault = r.stream(t, f.Feed(t), s.send.HistoryLength, stopSending)
	} else {
		result, fault = s.answer(!s.send.Immediately || r.version == wire.V01)
	}
	r.report(withCode(r.failureOf(fault), fault))
	return result, fault, false
}

// answer answers a message with its task. With wait, it waits until the task is settled, or for as long as a request may wait.
func (s *submission) answer(wait bool) (jsontext.Value, *jsonrpc.Error) {
	r := s.request
	var err error
	if !s.isReply(s.Now()) { // before the client hears of it
		err = s.Show(r.ctx)
	}
	t := s.Now()
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
		if err := s.Show(r.ctx); err != nil {
			return s.untold(err)
		}
		return nil, fault
	}
	if s.IsLate() {
		s.Drop()
		return wire.AppendMessageResult(nil, r.version, reply(t), t), nil
	}
	return wire.AppendSendResult(r.ResultBuffer(0), r.version, t, s.send.HistoryLength), nil
}

// await waits until a task is settled, or for as long as the request may wait, and returns the task.
func (s *submission) await(t *task.Task) (*task.Task, error) {
	r := s.request
	ctx, cancel := context.WithDeadline(r.ctx, s.until)
	defer cancel()
	if stopping := r.front.Stopping; stopping != nil {
		defer context.AfterFunc(stopping, cancel)()
	}
	for e := range r.front.Ledger.Watch(ctx, t.Entry) {
		if e == nil {
			return nil, ledger.ErrNoEntry
		}
		now, err := r.read(e)
		if err != nil {
			return nil, err
		}
		if t = now; settled(t) {
			break
		}
	}
	return t, nil
}

// untold answers a message whose task can't be shown, because the database has failed.
func (s *submission) untold(err error) (jsontext.Value, *jsonrpc.Error) {
	if errors.Is(err, run.ErrNoRoom) || errors.Is(err, ledger.ErrNoEntry) {
		s.answered(task.Working)
		return s.request.fail(s.request.taskError(s.task.ID, err))
	}
	failure := untold(s.request.version, s.task, err)
	if s.ended != nil && (!s.invoked || isClosed(s.ended) && s.refused) { // nothing was executed: the client may send the message again
		failure = notKept(err)
		s.Drop()
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
