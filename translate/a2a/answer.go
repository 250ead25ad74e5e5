package a2a

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// answer answers a message with its task. With wait, it waits until the task is settled, or for as long as a request may wait.
func (s *submission) answer(wait bool) (jsontext.Value, *jsonrpc.Error) {
	r := s.request
	var err error
	if !s.replies.Load() { // before the client hears of it
		err = s.show(r.ctx)
	}
	t := s.newest.Load()
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
	if !r.Reserve(wire.TaskEvent(r.version, t, wire.WholeTask, s.send.HistoryLength).Size()) { // then a task that would be answered with a message stays, too
		if err := s.show(r.ctx); err != nil {
			return s.untold(err)
		}
		return nil, noRoom(r, "the task "+t.ID)
	}
	if s.replies.Load() {
		s.drop(false)
		return wire.AppendMessageResult(nil, r.version, reply(t), t), nil
	}
	return wire.AppendSendResult(r.ResultBuffer(0), r.version, t, s.send.HistoryLength), nil
}

// wait waits until the submission has ended, for as long as a request may wait.
func (s *submission) wait() {
	r := s.request
	longest := time.NewTimer(time.Until(s.until))
	defer longest.Stop()
	select {
	case <-s.ended:
	case <-s.full:
	case <-longest.C:
	case <-r.ctx.Done():
	case <-r.front.Stopping:
	}
}

// await waits until a task is settled, or for as long as the request may wait, and returns the task.
func (s *submission) await(t *task.Task) (*task.Task, error) {
	r := s.request
	feed := r.front.Ledger.Feed(t.Entry)
	defer feed.Close()
	longest := time.NewTimer(time.Until(s.until))
	defer longest.Stop()
	for !t.Status.State.Settled() {
		select {
		case e, more := <-feed.Versions:
			if !more {
				return nil, ledger.ErrNoEntry
			}
			now, err := r.read(e)
			if err != nil {
				return nil, err
			}
			t = now
		case <-longest.C:
			return t, nil
		case <-r.ctx.Done():
			return t, nil
		case <-r.front.Stopping:
			return t, nil
		}
	}
	return t, nil
}

// untold answers a message whose task can't be shown, because the database has failed.
func (s *submission) untold(err error) (jsontext.Value, *jsonrpc.Error) {
	if errors.Is(err, run.ErrNoRoom) || errors.Is(err, ledger.ErrNoEntry) {
		s.answered(task.Working)
		return nil, s.request.taskError(s.task.ID, err)
	}
	failure := untold(s.request.version, s.task, err)
	if s.ended != nil && (!s.invoked || isClosed(s.ended) && s.refused) { // nothing was executed: the client may send the message again
		failure = notKept(err)
		s.drop(true)
	}
	s.answered(task.Working)
	return nil, s.request.failureError(failure)
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
		s.front.Observer.LeftRunning(r.ctx, new(r.about(s.task)), &s.task.Ref)
	}
}

// isReply reports whether the output of a task is the answer itself, without a task.
func (s *submission) isReply(t *task.Task) bool {
	is := s.first && t.Artifact != nil && t.Status.State == task.Completed && !s.send.Immediately && s.request.version != wire.V01 &&
		slices.Contains(s.front.Options.ReplyMessage, t.Skill)
	s.replies.Store(is)
	return is
}

// reply returns the output of a task as a message.
func reply(t *task.Task) *task.Message {
	m := &task.Message{ID: t.ID, Role: task.Agent, Parts: t.Artifact.Parts, Metadata: wire.Warnings(t)}
	if m.Metadata != nil {
		m.Extensions = []string{wire.Extension}
	}
	return m
}

const (
	// roomWait is the time that a stream waits for memory for an event.
	roomWait = 10 * time.Second
	// maxOwnEvent bounds the events and answers that each request encodes for itself, in bytes. Requests share longer ones.
	maxOwnEvent = 4 << 10
)

// enterStream counts a stream, or returns the failure if too many are open.
func (f *Front) enterStream(principal string) (leave func(), full *run.Failure) {
	o := &f.Options
	stream := &share.Part{Pool: f.Streams, Owner: f.Owner(principal).Realm + "\n" + principal, Most: int64(cmp.Or(o.Streams, math.MaxInt)), OfOne: int64(o.StreamsOfOne)}
	if stream.Set(1) {
		return func() { stream.Set(0) }, nil
	}
	return nil, run.TooMuch(run.PhaseInvoke, "Too many streams are open here: end one, or ask without a stream.",
		run.Limit{Name: "keep", Max: int64(o.StreamsOfOne)}, run.RetryIn(5*time.Second, 5))
}

// subscribe answers SubscribeToTask and tasks/resubscribe.
func subscribe(r *request) (jsontext.Value, *jsonrpc.Error) {
	f := r.front
	t, q, fault := r.query()
	if fault != nil {
		return nil, fault
	}
	if r.IsNotification() {
		return nil, nil
	}
	if t.Status.State.Terminal() {
		if r.version == wire.V01 {
			return nil, r.replay(t)
		}
		return nil, unsupported(r.version, "the task has ended ("+t.Status.State.String()+"); read it with "+wire.GetMethod(r.version))
	}
	return nil, r.stream(t, f.Ledger.Feed(t.Entry), q.HistoryLength, (*task.Task).Ended)
}

// replay streams the artifact and the last status of a task that has ended.
func (r *request) replay(t *task.Task) *jsonrpc.Error {
	s := r.Stream()
	if s == nil {
		return unsupported(r.version, "a stream needs a request of its own")
	}
	r.Release()
	if t.Artifact != nil {
		if ok, fault := sendEvent(r, t.Event-1, wire.Event{Task: t, Version: r.version, Kind: wire.ArtifactEvent}); !ok {
			return fault
		}
	}
	if _, fault := sendEvent(r, t.Event, wire.Event{Task: t, Version: r.version, Kind: wire.FinalStatus}); fault != nil {
		_ = s.Error(fault) // it is the last event
	}
	return nil
}

// stream sends a task and then its events, until ends reports true for the task after one. In 0.1, it does not send the task.
func (r *request) stream(t *task.Task, versions *ledger.Feed, historyLength *int, ends func(*task.Task) bool) *jsonrpc.Error {
	f := r.front
	defer versions.Close()
	s := r.Stream()
	if s == nil {
		return unsupported(r.version, "a stream needs a request of its own")
	}
	r.Release()
	f.Observer.Streaming(1)
	defer f.Observer.Streaming(-1)
	s.EndBy(time.Now().Add(maxStream + lastEvent))
	if r.version != wire.V01 {
		if ok, fault := sendEvent(r, t.Event, wire.TaskEvent(r.version, t, wire.WholeTask, historyLength)); !ok {
			return fault
		}
	} else if s.KeepAlive() != nil { // it sends the HTTP header at once: some clients wait only seconds for it
		return nil
	}
	if ends(t) {
		if r.version != wire.V10 { // these clients wait for a final event
			_, _ = sendEvent(r, t.Event, wire.Event{Task: t, Version: r.version, Kind: wire.FinalStatus}) // it is the last
		}
		return nil
	}
	pause := time.NewTicker(keepAlive)
	defer pause.Stop()
	longest := time.NewTimer(maxStream)
	defer longest.Stop()
	exiting := f.Exiting
	told := t.Event
	for {
		select {
		case e, more := <-versions.Versions:
			if !more {
				return nil
			}
			now, err := r.read(e)
			if err != nil {
				_ = s.Error(r.taskError(t.ID, err)) // it is the last event
				return nil
			}
			if !tell(r, now, told, ends) || exiting == nil && f.Exiting != nil && now.Status.State.Interrupted() {
				return nil
			}
			t, told = now, now.Event
		case <-pause.C:
			if s.KeepAlive() != nil {
				return nil
			}
			f.look(r.ctx, t)
		case <-exiting:
			if exiting = nil; !f.Ledger.Follows(t.Entry) {
				return nil
			}
		case <-longest.C:
			return nil
		case <-r.ctx.Done():
			return nil
		case <-f.Stopping:
			return nil
		}
	}
}

// tell sends the events of a version that follow one. It reports whether the stream goes on.
func tell(r *request, now *task.Task, told uint64, ends func(*task.Task) bool) bool {
	for _, u := range now.Updates(told) {
		if r.task != nil {
			r.task = u.Task
		}
		last := !u.Artifact && ends(u.Task)
		if u.Artifact { // its text is that of the version, which all streams have: they share it
			u.Task = now
		}
		ok, fault := sendEvent(r, u.Number, wire.UpdateEvent(r.version, &u, last))
		if fault != nil {
			_ = r.Stream().Error(fault) // it is the last event
		}
		if !ok || last {
			return false
		}
	}
	return true
}

// sendEvent sends an event, and waits for memory for it if it is long. It reports whether the stream goes on. If there is no memory,
// it returns the error.
func sendEvent(r *request, number uint64, e wire.Event) (ok bool, fault *jsonrpc.Error) {
	s, size := r.Stream(), e.Size()
	if size <= maxOwnEvent {
		return s.Result(number, e.AppendTo(nil)) == nil, nil
	}
	if r.room != nil { // the text is counted instead; else those who have read outputs would wait for each other
		r.room.Release()
	}
	err := r.front.events.Send(r.ctx, s, roomWait, number, e, size, e.AppendTo)
	if errors.Is(err, jsonrpc.ErrNoRoom) {
		return false, noRoom(r, "the task "+e.Task.ID)
	}
	return err == nil, nil
}
