package a2a

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// errTaken means that another message or call has changed a task first, perhaps at another instance.
var errTaken = errors.New("the task has been changed meanwhile")

// maxTaken is how often a message is looked at again because another message has changed its task first.
const maxTaken = 10

// taken is the answer to a message whose task was changed first.
var taken = new(jsonrpc.Error)

// send answers SendMessage, SendStreamingMessage and their older forms.
func send(r *request) (jsontext.Value, *jsonrpc.Error) {
	for range maxTaken {
		if result, fault := r.send(); fault != taken {
			return result, fault
		}
	}
	return nil, r.failureError(notKept(errTaken))
}

// send answers a message, unless its task is taken.
func (r *request) send() (result jsontext.Value, fault *jsonrpc.Error) {
	f := r.front
	send, violations := wire.DecodeSend(r.version, r.params())
	if len(violations) > 0 {
		return nil, r.violated(violations...)
	}
	if send.Push != nil && f.Push == nil {
		return nil, pushNotSupported(r.version)
	}
	named, asked, fault := r.named(&send)
	if fault != nil {
		return nil, fault
	}
	t, fault := r.taskOf(&send, named)
	if fault != nil {
		return nil, fault
	}
	if send.Push != nil {
		if problem := f.Push.Client.Check(r.ctx, send.Push.URL); problem != "" {
			return nil, r.invalid(inlinePrefixes[r.version]+"url", problem)
		}
	}
	wait := f.Options.Wait
	if r.version == wire.V01 {
		wait = min(wait, maxWait01)
	}
	s := &submission{
		front: f, request: r, send: send, wishes: asked, task: t, until: time.Now().Add(wait),
		made: make(chan struct{}), ended: make(chan struct{}), full: make(chan struct{}),
	}
	s.late = s.mayBeLate()
	s.newest.Store(t)
	s.send.Metadata = nil // it may be long, and streams last long
	if s.chosen, fault = r.selectSkill(t, named, send.Message.Parts); fault != nil {
		return nil, fault
	}
	if send.Push != nil && t != nil { // before the message, so that its receiver misses no event of it
		if t, fault = attachTo(r, t, &send); fault != nil {
			return nil, fault
		}
		s.task = t
		s.newest.Store(t)
	}
	waits := !s.send.Immediately || r.version == wire.V01
	if t != nil && t.Status.State.Open() {
		return s.join(waits)
	}
	r.reported = true
	s.Go(r.ctx, f.Panicked, s.execute, s.finish)
	if waits && !r.method.streams && !r.IsNotification() {
		s.wait() // before made is read: most runs end at once, and then the request is woken once instead of twice
	}
	<-s.made
	switch {
	case s.taken:
		<-s.ended
		r.reported = false
		return nil, taken
	case s.fault != nil:
		fault = s.fault
	case s.feed != nil:
		last := s.task.Status.State
		fault = r.stream(s.task, s.feed, send.HistoryLength, func(t *task.Task) bool {
			last = t.Status.State
			return t.Settled()
		})
		s.answered(last)
	case r.IsNotification():
		s.answered(task.Working)
	default:
		result, fault = s.answer(waits)
	}
	return result, fault
}

// join handles a message to a task whose run goes on: it adds the message to the history.
func (s *submission) join(waits bool) (result jsontext.Value, fault *jsonrpc.Error) {
	f, r := s.front, s.request
	s.ended = nil
	t, err := f.Change(r.ctx, s.task, func(t *task.Task) error {
		if !t.Status.State.Open() {
			return errTaken
		}
		t.AddMessage(s.send.Message)
		t.Pushed = t.Pushed || s.send.Push != nil
		return nil
	})
	if errors.Is(err, errTaken) || errors.Is(err, ledger.ErrEnded) {
		return nil, taken
	}
	if err == nil {
		s.task, r.task = t, t
		s.newest.Store(t)
		s.listen()
	}
	switch {
	case err != nil:
		fault = r.taskError(s.send.Task, err)
	case s.feed != nil:
		fault = r.stream(t, s.feed, s.send.HistoryLength, (*task.Task).Settled)
	default:
		result, fault = s.answer(waits)
	}
	return result, fault
}

// keep makes a task the one of this submission.
func (s *submission) keep(t *task.Task) {
	s.newest.Store(t)
	s.Attend(s.front.Ledger.Ledger, t.Entry)
}

// advance gives the task the state of its run. If it can't be written, the task stays as it is here, and the ledger asks about the run again.
func (s *submission) advance(o *run.Run) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.Write(!o.GoesOn(), func() {
		t, err := s.front.Learn(s.newest.Load(), o, s.isReply)
		switch {
		case t != nil:
			s.newest.Store(t)
		case errors.Is(err, ledger.ErrLost):
			s.lost = true
		}
	})
}

// show makes sure that the task is in the ledger, so that its client can hear of it. A client hears of the end of a run also if the ledger writes it later.
func (s *submission) show(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	t := s.newest.Load()
	switch {
	case s.lost:
		return ledger.ErrLost
	case t.Entry.Version > 0:
		return nil
	}
	var err error
	s.Write(t.Entry.State.Ended(), func() { t, err = s.front.Keep(ctx, t) })
	if err == nil {
		s.newest.Store(t)
		s.replies.Store(false)
	}
	return err
}

// drop gives back the place of a task that is not in the ledger, or could not be written, and that its client does not get.
func (s *submission) drop(failed bool) {
	if e := s.newest.Load().Entry; e.Version == 0 {
		s.front.Ledger.Drop(e, failed)
	}
}
