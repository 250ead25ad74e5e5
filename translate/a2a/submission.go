package a2a

import (
	"cmp"
	"context"
	"math"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/runs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// submission turns a message into a run. It implements [translate.Preparation].
//
// The request shares it with the goroutine that executes the call. The goroutine may change it until made is closed. After that,
// both may only read it, except for execution, which mu protects.
type submission struct {
	front   *Front
	request *request
	send    wire.Send
	asks    struct{ message, request message.Directions } // the values for the bridge in the metadata
	chosen  selection
	task    *task.Task    // nil: none was made yet
	unlock  func()        // of the task that the message is for
	until   time.Time     // when the request has waited long enough
	made    chan struct{} // closed when the task was made or the message refused
	ended   chan struct{} // closed when nothing more is done for the message, and its call was reported; nil: it has none

	fault        *jsonrpc.Error      // the message is refused with it
	subscription *tasks.Subscription // of a streaming method
	first        bool                // the message makes the task
	asked        *task.Message       // the question to the client, if inputs are missing
	inputs       *message.Inputs
	invoked      bool
	refused      bool   // the provider wants a credential; set before ended is closed
	cancel       func() // ends the following of the run
	release      func() // of the claim to follow the task

	background
}

var _ translate.Preparation = (*submission)(nil)

// unlocked releases the lock of the task.
func (s *submission) unlocked() {
	if s.unlock != nil {
		s.unlock()
		s.unlock = nil
	}
}

// run executes the call for the message and follows its run. It is a goroutine of its own: the run may outlive the request.
func (s *submission) run(ctx context.Context) {
	f := s.front
	defer s.finish(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	s.cancel = func() { cancel(run.ErrCallerCanceled) }
	defer cancel(nil)
	if s.chosen.name == "" && !s.onlySkill(ctx) {
		return
	}
	if t := s.task; t != nil && t.Ref.ExecutionID != "" { // it waited for a credential to follow its run
		s.resume(ctx)
		return
	}
	wait := f.Follow
	if f.Push != nil && s.send.Push != nil || s.task != nil && f.IsAwaited(s.task) {
		wait = math.MaxInt64 // the timeout of the call is shorter
	}
	execution := f.Bridge.Start(ctx, translate.Call{
		Caller: s.request.caller, Name: s.chosen.name, Prepare: s, Patient: true,
		Checks: &translate.RequestOf(ctx).Checks, Timeout: s.timeout(), Wait: &wait, Task: s.taskID, Answer: s.room(),
	})
	s.mu.Lock()
	s.execution = execution
	detached := s.detached
	s.mu.Unlock()
	if detached {
		execution.Detach()
	}
	var t *task.Task
	outage, stopped := false, false
	for r := range execution.Watch() {
		if !s.invoked {
			s.refuse(ctx, &r)
			continue
		}
		switch late := !time.Now().Before(s.task.Deadline); {
		case runs.GoesOn(&r) && late: // its wait ends with its timeout
			r.Failure = message.TimeIsUp(s.task, nil)
		case runs.IsOutage(&r) && late:
			r.Failure = message.TimeIsUp(s.task, r.Failure)
		case runs.IsOutage(&r):
			outage, r.State, r.Failure = true, run.Working, nil
		}
		stopped = r.Failure != nil && r.Failure.Kind == run.Stopped
		t = f.Update(ctx, cmp.Or(t, s.task), &r)
	}
	if t == nil || !runs.IsOpen(t) {
		s.refused = t != nil && t.Status.State.Interrupted() && t.Ref.ExecutionID == ""
		return
	}
	switch {
	case stopped: // the next process follows the run
		return
	case outage:
		f.Retries.Later(f.Tasks, t, 0)
		return
	}
	if now, err := f.Tasks.Get(ctx, t.Owner, t.ID); err == nil && runs.IsOpen(now) && f.IsAwaited(now) { // a webhook was set meanwhile
		s.follow(ctx, now, MethodFollow, 0)
	}
}

// finish ends a submission. It is deferred, so it also runs after a panic.
func (s *submission) finish(ctx context.Context) {
	if value := recover(); value != nil {
		if s.front.Panicked != nil {
			s.front.Panicked(ctx, value, debug.Stack())
		}
		failure := &run.Failure{By: run.Bridge, Executed: run.ExecutedMaybe, Message: "The bridge failed because of a bug."}
		if s.task != nil && s.invoked {
			s.front.Update(ctx, s.task, &run.Run{Failure: failure})
		} else if !s.isMade() {
			s.fault = s.request.failureError(failure)
		}
	}
	s.done()
	if s.release != nil {
		s.release()
	}
	close(s.ended)
}

func (s *submission) isMade() bool { return isClosed(s.made) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// done closes made, so that the request continues.
func (s *submission) done() {
	if !s.isMade() {
		s.unlocked()
		close(s.made)
	}
}

// taskID returns the id of the task, for the report of the call.
func (s *submission) taskID() string {
	if s.task == nil {
		return ""
	}
	return s.task.ID
}

func (s *submission) timeout() time.Duration {
	if d := cmp.Or(s.asks.request.Timeout, s.asks.message.Timeout); d > 0 {
		return d
	}
	if s.task != nil {
		return time.Duration(s.task.Timeout) * time.Millisecond
	}
	return 0
}

// Inputs implements [translate.Preparation]: it collects the inputs, and asks for those that are missing.
func (s *submission) Inputs(ctx context.Context, skill *translate.Skill) (jsonrpc.Object, *run.Failure) {
	s.chosen.name, s.chosen.ref = skill.Name, skill.Ref
	var have jsontext.Value
	var earlier []task.Message
	parts := s.send.Message.Parts
	if s.task != nil {
		have = s.task.Inputs
		if s.task.Skill == "" { // all statuses so far were questions for a skill, which have no files
			earlier = s.task.History
		}
		if s.task.Status.State == task.AuthRequired { // it is tried again with the same inputs
			parts = nil
		}
	}
	list, failure := message.Gather(have, earlier, parts, skill, s.chosen.texts)
	if failure != nil {
		return jsonrpc.Object{}, failure
	}
	s.inputs = list
	object := list.Object()
	missing, failure := skill.Check(object)
	if failure != nil {
		if s.task == nil || failure.Argument == nil || failure.Argument.Field != run.FieldInput || failure.Argument.Reason == run.OverLimit {
			return jsonrpc.Object{}, failure
		}
		// If a later message has a wrong value, the task asks for that input again, too.
		wrong := failure.Argument.Name
		list.Remove(wrong)
		s.asked = s.front.Say(message.WhichInputs(ctx, skill, append(missing, wrong), message.Text(failure)))
		asked, argument := *failure, *failure.Argument
		argument.Reason, asked.Argument = run.Asked, &argument
		return jsonrpc.Object{}, &asked
	}
	if len(missing) > 0 {
		problem := ""
		if list.Unread != "" {
			problem = message.Unread(skill, list.Unread)
		}
		s.asked = s.front.Say(message.WhichInputs(ctx, skill, missing, problem))
		return jsonrpc.Object{}, &run.Failure{
			Kind: run.InvalidArguments, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo,
			Message:  "the input " + quoted(missing[0]) + " is required",
			Argument: &run.Argument{Field: run.FieldInput, Name: missing[0], Pointer: message.Pointer(missing[0]), Reason: run.Asked},
		}
	}
	return object, nil
}

// Invoke implements [translate.Preparation]: it makes the task before the provider is called.
func (s *submission) Invoke(ctx context.Context, skill *translate.Skill) *run.Failure {
	if s.request.ctx.Err() != nil {
		return &run.Failure{
			Kind: run.CallerGone, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo,
			Message: "The client disconnected before the skill was invoked.",
		}
	}
	if err := s.make(ctx, func(t *task.Task) {
		t.Skill, t.Ref, t.Deadline, t.OutputType = skill.Name, skill.Ref, skill.Deadline, skill.Descriptor.Output.ContentType
		t.Inputs = s.inputs.Object().Text
		if !s.first { // a new task is SUBMITTED until the provider accepts the run
			t.SetStatus(task.Working, nil, time.Now())
		}
	}); err != nil {
		return notKept(err)
	}
	s.invoked = true
	s.done()
	return nil
}

// make makes the task in the state SUBMITTED, or adds the message to the existing one.
func (s *submission) make(ctx context.Context, complete func(*task.Task)) error {
	f, r, now := s.front, s.request, time.Now()
	owner := r.owner()
	s.first = s.task == nil
	id := f.Tasks.NewID()
	if !s.first {
		id = s.task.ID
	}
	webhook, err := f.Push.Make(ctx, owner, id, r.version, s.send.Push)
	if err != nil {
		return err
	}
	first, timeout := s.first, s.timeout()
	set := func(t *task.Task) error { // Change may call it again, so it reads nothing that changes
		if first {
			t.SetStatus(task.Submitted, nil, now)
		}
		if superseded := t.Status.Message; superseded != nil { // it is older than the message
			t.AddMessage(*superseded)
			t.Status.Message = nil
		}
		t.AddMessage(s.send.Message)
		if timeout > 0 {
			t.Timeout = timeout.Milliseconds()
		}
		complete(t)
		return push.Add(t, webhook)
	}
	if s.first {
		t := &task.Task{ID: id, Owner: owner, Context: s.send.Context, Created: now}
		if t.Context == "" {
			t.Context = f.Tasks.NewID()
		}
		if r.version == wire.V01 {
			t.Name = s.send.Task
		}
		if err = set(t); err != nil {
			return err
		}
		if err = f.Tasks.Add(ctx, t); err == nil {
			s.task = t
			f.observer().Made(ctx, &r.caller, t)
		}
	} else {
		var t *task.Task
		if t, err = f.Tasks.Change(ctx, s.task.Owner, s.task.ID, set); err == nil {
			s.task = t
		}
	}
	if err != nil {
		return err
	}
	if webhook != nil {
		f.Push.Watch(ctx, s.task)
		f.observer().WebhookChanged(ctx, &r.caller, s.task, webhook, false)
	}
	if release, ok := f.Tasks.Claim(s.task.Owner, s.task.ID, s.cancel); ok {
		s.release = release
	}
	switch {
	case r.method.streams && !r.IsNotification():
		var t *task.Task
		if t, s.subscription, err = f.Tasks.Subscribe(ctx, s.task.Owner, s.task.ID); err == nil {
			s.task = t
		}
	case s.send.Immediately && r.version != wire.V01: // the client gets the task before its run has ended, so Get stores it
		_, err = f.Tasks.Get(ctx, s.task.Owner, s.task.ID)
	}
	if err != nil { // the error prevents the invocation
		s.abandon(ctx, notKept(err))
	}
	return err
}

// abandon ends a task that can't be stored. A new task is dropped: no client has got it yet.
func (s *submission) abandon(ctx context.Context, failure *run.Failure) {
	f, t := s.front, s.task
	if s.subscription != nil {
		s.subscription.Close()
		s.subscription = nil
	}
	if !s.first {
		f.Update(ctx, t, &run.Run{Failure: failure})
		return
	}
	f.Tasks.Drop(t.Owner, t.ID)
	s.task = nil
}

// refuse handles a call that failed before the invocation: it sets the error, asks the client, or makes a task that has ended.
func (s *submission) refuse(ctx context.Context, r *run.Run) {
	f, failure := s.front, r.Failure
	if s.asked == nil && isRefusal(failure) {
		s.fault = s.request.failureError(failure)
		if failure.Argument != nil && failure.Argument.Reason == message.ReasonNoInput {
			s.fault = contentTypeNotSupported(s.request.version, message.Text(failure))
		}
		return
	}
	ends := func(t *task.Task) {
		if s.asked != nil {
			t.SetStatus(task.InputRequired, s.asked, time.Now())
		} else {
			f.Advance(t, r)
		}
	}
	err := s.make(ctx, func(t *task.Task) {
		t.Skill = s.chosen.name
		t.Ref = s.chosen.ref
		t.Ref.SkillID = cmp.Or(r.SkillID, t.Ref.SkillID)
		if s.inputs != nil {
			t.Inputs = s.inputs.Object().Text
		}
		if !s.first {
			ends(t)
		}
	})
	if err == nil && s.first {
		if _, err = f.Change(ctx, s.task, ends); err != nil {
			s.abandon(ctx, notKept(err))
		}
	}
	if err != nil {
		s.fault = s.request.failureError(notKept(err))
	}
}

// onlySkill chooses the only skill. If there are several, it asks which one is meant.
func (s *submission) onlySkill(ctx context.Context) bool {
	name, all, failure := onlySkill(s.request)
	if name != "" {
		s.chosen = selection{name: name, field: "skill"}
		return true
	}
	if s.front.Options.RejectUnclear && failure == nil {
		s.fault = s.request.invalid("message", strings.TrimSpace("names no skill: add metadata.skillId, or a data part {\"skill\", \"input\"}. "+message.NoEnvelope(s.send.Message.Parts)))
		reportAs(s.request, translate.OperationExecute, s.task, withCode(s.request.failureOf(s.fault), s.fault))
		return false
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
	if s.fault != nil {
		failure = withCode(s.request.failureOf(s.fault), s.fault)
	}
	reportAs(s.request, translate.OperationExecute, s.task, failure)
	return false
}
