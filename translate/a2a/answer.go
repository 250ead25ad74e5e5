package a2a

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// answer answers a message with its task. With wait, it waits until the task is settled, or for as long as a request may wait.
func (s *submission) answer(wait bool) (jsontext.Value, *jsonrpc.Error) {
	r := s.request
	var err error
	if !s.isReply(s.Now()) { // before the client hears of it
		err = s.Show(r.ctx)
	}
	t := s.Now()
	full := wait && s.full != nil && isClosed(s.full)
	if err == nil && wait && !full && !t.Status.State.Settled() {
		t, err = s.await(t)
	}
	if err != nil {
		return s.untold(err)
	}
	s.answered(t.Status.State)
	if full && !t.Status.State.Settled() { // its run goes on
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

// wait waits until the submission has ended, for as long as a request may wait.
func (s *submission) wait() {
	r := s.request
	longest := time.NewTimer(time.Until(s.until))
	defer longest.Stop()
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
		if t = now; t.Status.State.Settled() {
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

// answered is called at the end of the request, with the state in its answer. If the call ends with that state, answered waits for
// the report of the call, so that the access log has its result. Otherwise the call goes on without a request.
func (s *submission) answered(state task.State) {
	r := s.request
	if s.ended == nil { // the message joined a task whose run has its own call
		return
	}
	if state.Settled() && state != task.Canceled { // else the run may go on
		select {
		case <-s.ended:
			return
		case <-r.ctx.Done():
		}
	}
	s.Detach()
	select {
	case <-s.ended:
	default:
		s.front.observer().LeftRunning(r.ctx, &r.caller, s.task)
	}
}

// isReply reports whether the output of a task is the answer itself, without a task.
func (s *submission) isReply(t *task.Task) bool {
	return s.first && t.Artifact != nil && t.Status.State == task.Completed && !s.send.Immediately && s.request.version != wire.V01 &&
		slices.Contains(s.front.Options.ReplyMessage, t.Skill)
}

// reply returns the output of a task as a message.
func reply(t *task.Task) *task.Message {
	m := &task.Message{ID: t.ID, Role: task.Agent, Parts: t.Artifact.Parts, Metadata: wire.Warnings(t)}
	if m.Metadata != nil {
		m.Extensions = []string{wire.Extension}
	}
	return m
}
