package a2a

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// submission turns a message into a run. It implements [translate.Preparation].
//
// The request shares it with the goroutine that executes the call. The goroutine may change it until made is closed. After that,
// both may only read it, except for the Run.
type submission struct {
	front   *Front
	request *request
	send    wire.Send
	wishes  task.Wishes // of this message
	chosen  selection
	task    *task.Task    // that the message is for, or the first version of the one it makes; nil: none was made yet
	until   time.Time     // when the request has waited long enough
	made    chan struct{} // closed when the task was made or the message refused
	ended   chan struct{} // closed when nothing more is done for the message, and its call was reported; nil: it has none

	fault   *jsonrpc.Error // the message is refused with it
	taken   bool           // another message or call has changed the task first, so that this one is looked at again
	feed    *ledger.Feed   // of a streaming method
	first   bool           // the message makes the task
	asked   *task.Message  // the question to the client, if inputs are missing
	inputs  *message.Inputs
	late    bool // mayBeLate at the beginning: it stays so, also if the database can be reached a moment later
	invoked bool
	refused bool // the provider wants a credential; set before ended is closed

	taskRun
	full chan struct{} // closed when the output waits for memory
}

// taskRun is the run of a task, as the submission that has begun it follows it. It may outlive its request.
type taskRun struct {
	ledger.Call
	newest  atomic.Pointer[task.Task] // the newest version of the task that is known here
	replies atomic.Bool               // the newest version is answered as a message, and is not in the ledger
	writing sync.Mutex                // held while the task is written
	lost    bool                      // the end of the run could be neither written nor kept, under the lock
}

// execute executes the call for the message and follows its run, which may outlive the request.
func (s *submission) execute(ctx context.Context) {
	f := s.front
	f.Ledger.Reach(ctx)
	if s.chosen.name == "" && !s.onlySkill(ctx) {
		return
	}
	if t := s.task; t != nil && t.Ref.ExecutionID != "" { // it waited for a credential to follow its run
		s.resume(ctx)
		return
	}
	wanted := s.wanted()
	wait := time.Duration(math.MaxInt64) // the timeout of the call is shorter
	x := f.Bridge.Start(ctx, translate.Call{
		Caller: s.request.caller, Name: s.chosen.name, Prepare: s, Patient: true, Unattended: true, Followed: true,
		Checks: &translate.RequestOf(ctx).Checks, Timeout: time.Duration(wanted.Timeout) * time.Millisecond, Priority: wanted.Priority, Wait: &wait, Task: s.taskID, Answer: s.room(),
	})
	s.follow(ctx, x, func(r *run.Run) bool {
		skill := x.Skill()
		late := skill != nil && !skill.Deadline.IsZero() && !time.Now().Before(skill.Deadline) // by the clock of this process, as the call is
		switch {
		case r.GoesOn() && late: // this is the last state before its timeout
			r.Failure = task.TimeIsUp(s.task, nil)
		case task.IsOutage(r) && late:
			r.Failure = task.TimeIsUp(s.task, r.Failure)
		case task.IsOutage(r):
			r.State, r.Failure = run.Working, nil
		}
		return true
	})
	s.refused = s.invoked && s.newest.Load().Status.State.Interrupted() && s.newest.Load().Ref.ExecutionID == ""
}

// follow gives the task the states of an execution. news reports whether a state is one of the task, and may change it.
func (s *submission) follow(ctx context.Context, x translate.Execution, news func(*run.Run) bool) {
	s.Follow(ctx, x, func(r *run.Run) bool {
		switch {
		case !s.invoked:
			s.refuse(ctx, r)
		case news(r):
			s.advance(r)
		}
		return s.invoked
	})
}

// resume follows the run of a task that waited for a credential.
func (s *submission) resume(ctx context.Context) {
	failure := s.make(ctx, func(t *task.Task) { t.SetStatus(task.Working, nil, s.front.Ledger.Now()) })
	if failure != nil {
		if !s.taken {
			s.fault = s.request.failureError(failure)
		}
		return
	}
	s.invoked = true
	s.done()
	wait, ref := time.Duration(math.MaxInt64), s.task.Ref
	ref.Kept = ""
	s.follow(ctx, s.front.Bridge.Resume(ctx, ref, translate.Call{
		Caller: s.request.caller, Detached: true, Wait: &wait, Task: s.taskID, Answer: s.room(),
	}), func(r *run.Run) bool {
		mayBeFound := r.Failure != nil && r.Failure.NotOffered() // by the ledger, which follows it then
		return !mayBeFound && s.front.IsNews(s.task, r)
	})
}

// finish ends a submission.
func (s *submission) finish(_ context.Context, bug *run.Failure) {
	defer func() { // also after a panic of who hears of it
		s.done()
		s.End()
		close(s.ended)
	}()
	switch {
	case bug == nil:
	case s.task != nil && s.invoked:
		s.advance(&run.Run{Failure: bug})
	case !isClosed(s.made):
		s.fault = s.request.failureError(bug)
	}
}

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
	if !isClosed(s.made) {
		close(s.made)
	}
}

// room returns the memory for the output of the run while it is read. The run waits for it, but no request does.
func (s *submission) room() *jsonrpc.Room {
	room := s.front.Server.Room(s.request.caller.Principal)
	room.OnWait = sync.OnceFunc(func() { close(s.full) })
	return room
}

// taskID returns the id of the task, for the report of the call.
func (s *submission) taskID() string {
	if s.task == nil {
		return ""
	}
	return s.task.ID
}

// wanted returns what this message asks of the execution, or else what earlier ones for the task have asked.
func (s *submission) wanted() task.Wishes {
	wanted := s.wishes
	if s.task != nil {
		wanted.Timeout, wanted.Priority = cmp.Or(wanted.Timeout, s.task.Timeout), cmp.Or(wanted.Priority, s.task.Priority)
	}
	return wanted
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
		s.asked = s.front.Say(message.WhichInputs(ctx, skill, append(missing, wrong), task.Text(failure)))
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
		return jsonrpc.Object{}, run.WrongArgument(run.Argument{Field: run.FieldInput, Name: missing[0], Pointer: jsonvalue.Pointer(missing[:1]), Reason: run.Asked},
			"the input "+task.Quoted(missing[0])+" is required")
	}
	return object, nil
}

// Invoke implements [translate.Preparation]: it makes the task before the provider is called.
func (s *submission) Invoke(ctx context.Context, skill *translate.Skill) *run.Failure {
	if s.request.ctx.Err() != nil {
		return run.NotExecuted(run.CallerGone, run.PhaseInvoke, "The client disconnected before the skill was invoked.")
	}
	var deadline time.Time
	if !skill.Deadline.IsZero() {
		deadline = s.front.Ledger.Now().Add(time.Until(skill.Deadline))
	}
	if failure := s.make(ctx, func(t *task.Task) {
		t.Skill, t.Ref, t.Deadline, t.OutputType = skill.Name, skill.Ref, deadline, skill.Descriptor.Output.ContentType
		t.Inputs = s.inputs.Object().Text
		if !s.first { // a new task is SUBMITTED until the provider accepts the run
			t.SetStatus(task.Working, nil, s.front.Ledger.Now())
		}
	}); failure != nil {
		return failure
	}
	s.invoked = true
	s.done()
	return nil
}

// make makes the task in the state SUBMITTED, or adds the message to the existing one: this is the claim, after which the provider may be called.
func (s *submission) make(ctx context.Context, complete func(*task.Task)) *run.Failure {
	f, now := s.front, s.front.Ledger.Now()
	s.first = s.task == nil
	first, wanted := s.first, s.wanted()
	set := func(t *task.Task) { // it may be called again, so it reads nothing that changes
		if first {
			t.SetStatus(task.Submitted, nil, now)
		}
		if superseded := t.Status.Message; superseded != nil { // it is older than the message
			t.AddMessage(*superseded)
			t.Status.Message = nil
		}
		if s.send.Message.Role != 0 { // else the task goes on without one
			t.AddMessage(s.send.Message)
		}
		t.Pushed = t.Pushed || s.send.Push != nil
		t.Wishes = wanted
		complete(t)
	}
	var err error
	if first {
		err = s.begin(ctx, set)
	} else {
		known := s.task.Entry.Version
		var t *task.Task
		t, err = f.Take(ctx, s.task, func(t *task.Task) error {
			if t.Entry.Version != known {
				return errTaken
			}
			set(t)
			return nil
		})
		if err == nil {
			s.task = t
			s.keep(t)
		}
	}
	switch {
	case err == nil:
		s.listen()
		return nil
	case errors.Is(err, errTaken), errors.Is(err, ledger.ErrEnded), errors.Is(err, ledger.ErrNoEntry):
		s.taken = true
		failure := run.NotExecuted(run.CallerCanceled, run.PhaseInvoke, "Another message to the task came first.")
		failure.Cause = errTaken
		return failure
	}
	return notKept(err)
}

// mayBeLate reports whether the task need not be in the ledger before the provider is called: no client hears of it before its request is answered.
func (s *submission) mayBeLate() bool {
	r := s.request
	return !r.method.streams && !r.IsNotification() && !s.send.Immediately && r.version != wire.V01 && s.send.Push == nil && s.front.Ledger.IsReachable()
}

// begin makes a new task.
func (s *submission) begin(ctx context.Context, set func(*task.Task)) error {
	f, r := s.front, s.request
	t := &task.Task{Owner: f.Owner(r.caller.Principal), Context: cmp.Or(s.send.Context, f.Ledger.NewID())}
	if r.version == wire.V01 {
		t.Name = s.send.Task
	}
	set(t)
	e := &ledger.Entry{Owner: t.Owner, ID: f.Ledger.NewID()}
	if err := t.Begin(e); err != nil {
		return err
	}
	var hook *wire.PushConfig
	if s.send.Push != nil {
		var err error
		if hook, e.Receiver, err = f.Push.receiver(ctx, e.Identity(), r.version, s.send.Push); err != nil {
			return err
		}
	}
	if err := task.NoPlace(f.Ledger.Fits(t.Owner, len(e.Notes))); err != nil {
		return err
	}
	for range 3 {
		var present *ledger.Entry
		var failure *run.Failure
		if s.late {
			failure = f.Ledger.Draft(ctx, e)
		} else {
			present, failure = f.Ledger.Add(ctx, e, 0)
		}
		switch {
		case failure != nil:
			return task.NoPlace(failure)
		case present == nil:
			t.ID, t.Entry = e.ID, e
			s.task = t
			s.keep(t)
			r.changed(ctx, taskMade, t, "", "")
			if hook != nil {
				r.changed(ctx, webhookSet, t, hook.ID, hook.URL)
			}
			return nil
		case !present.State.Ended():
			return errTaken
		}
		if err := f.Ledger.Unname(ctx, present.Identity()); err != nil { // the client begins a new run under the name
			return err
		}
	}
	return errTaken
}

// listen begins to hear of the events for a streaming method.
func (s *submission) listen() {
	if s.request.method.streams && !s.request.IsNotification() {
		s.feed = s.front.Ledger.Feed(s.task.Entry)
	}
}

// refuse handles a call that failed before the invocation: it sets the error, asks the client, or makes a task that has ended.
func (s *submission) refuse(ctx context.Context, r *run.Run) {
	f, failure := s.front, r.Failure
	if s.taken {
		return
	}
	if s.asked == nil && isRefusal(failure) {
		s.fault = s.request.failureError(failure)
		if failure.Argument != nil && failure.Argument.Reason == message.ReasonNoInput {
			s.fault = contentTypeNotSupported(s.request.version, task.Text(failure))
		}
		return
	}
	at, said := f.Ledger.Now(), *r
	ends := func(t *task.Task) {
		if s.asked != nil {
			t.SetStatus(task.InputRequired, s.asked, at)
		} else {
			f.Give(t, &said, at)
		}
	}
	first := s.task == nil
	later := first && !s.late // the client sees that the task was made
	problem := s.make(ctx, func(t *task.Task) {
		t.Skill = s.chosen.name
		t.Ref = s.chosen.ref
		t.Ref.SkillID = cmp.Or(r.SkillID, t.Ref.SkillID)
		if s.inputs != nil {
			t.Inputs = s.inputs.Object().Text
		}
		if !later {
			ends(t)
		}
	})
	if problem == nil && later {
		if t, err := f.Change(ctx, s.task, func(t *task.Task) error { ends(t); return nil }); err == nil {
			s.newest.Store(t)
		} else if !errors.Is(err, ledger.ErrEnded) {
			problem = notKept(err)
		}
	}
	if problem == nil && first && !later {
		if err := s.show(ctx); err != nil {
			problem = notKept(err)
			s.drop(true)
		}
	}
	if problem != nil && !s.taken {
		s.fault = s.request.failureError(problem)
	}
}
