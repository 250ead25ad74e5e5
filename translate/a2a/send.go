package a2a

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
	named, asked := r.named(&send)
	t, fault := r.taskOf(&send, named)
	if fault != nil {
		return nil, fault
	}
	if send.Push != nil {
		if fault = r.checkInline(t, send.Push); fault != nil {
			return nil, fault
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
	s.Tasks, s.Unkept = &f.Tasks, s.isReply
	s.late = s.mayBeLate()
	s.Set(t)
	s.send.Metadata = nil // it may be long, and streams last long
	if s.chosen, fault = r.selectSkill(t, named, send.Message.Parts); fault != nil {
		return nil, fault
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
		fault = r.stream(s.task, s.feed, send.HistoryLength, func(state task.State) bool {
			last = state
			return state.Settled()
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
	f, r, cursor := s.front, s.request, s.task.Entry.Version
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
		s.Set(t)
		err = s.attach(r.ctx, cursor)
	}
	switch {
	case err != nil:
		fault = r.taskError(s.send.Task, err)
	case s.feed != nil:
		fault = r.stream(t, s.feed, s.send.HistoryLength, task.State.Settled)
	default:
		result, fault = s.answer(waits)
	}
	return result, fault
}

// errLost says that a task of a run could not be written, and that too much waits for that already.
var errLost = errors.New("the task is lost")

// taskRun is the run of a task, as the call follows it that has begun it, which may outlive its request.
type taskRun struct {
	ledger.Call
	// Tasks have the task.
	Tasks *task.Tasks
	// Unkept reports whether a task need not be kept, since its output is the answer itself.
	Unkept func(*task.Task) bool

	newest  atomic.Pointer[task.Task] // of the task, as far as this call knows
	late    atomic.Bool               // the task is not in the ledger yet: no client knows it, and a short run is written once
	writing sync.Mutex                // held while the task is written
	lost    error                     // why the task is not in the ledger, and will not be
}

// Draft makes a task the one of this call, which is not in the ledger yet.
func (s *taskRun) Draft(t *task.Task) {
	s.newest.Store(t)
	s.late.Store(true)
}

// Keep makes a task in the ledger the one of this call.
func (s *taskRun) Keep(t *task.Task) {
	s.newest.Store(t)
	s.Attend(s.Tasks.Ledger.Ledger, t.Entry)
	s.late.Store(false)
}

// Now returns the newest version of the task that this call knows.
func (s *taskRun) Now() *task.Task { return s.newest.Load() }

// Set notes a version of the task.
func (s *taskRun) Set(t *task.Task) { s.newest.Store(t) }

// IsLate reports whether the task is not in the ledger yet.
func (s *taskRun) IsLate() bool { return s.late.Load() }

// Advance gives the task the state of its run. If it can't be written, the task stays as it is here, and the ledger asks about the run again.
func (s *taskRun) Advance(ctx context.Context, o *run.Run) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.IsLate() {
		s.advanceDraft(ctx, o)
		return
	}
	s.Write(!o.GoesOn(), func() {
		if t := s.Tasks.Learn(s.Now(), o); t != nil {
			s.Set(t)
		}
	})
}

// advanceDraft is Advance for a task that is not in the ledger yet. It is written when its run is accepted or has ended.
func (s *taskRun) advanceDraft(ctx context.Context, o *run.Run) {
	t, err := s.Tasks.AdvanceDraft(s.Now(), o)
	if err != nil {
		return
	}
	if s.Set(t); !s.Unkept(t) {
		_ = s.write(ctx)
	}
}

// Show writes the task into the ledger, so that its client can hear of it. A client hears of the end of a run also if the ledger writes it later.
func (s *taskRun) Show(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	e := s.Now().Entry
	if s.IsLate() || s.lost != nil || e.Version > 0 || e.State.Ended() {
		return s.write(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	_, err := s.Tasks.Ledger.Change(ctx, e.Identity(), func(*ledger.Entry) error { return ledger.ErrUnchanged })
	if errors.Is(err, ledger.ErrEnded) {
		err = nil
	}
	return err
}

// write is Show for those who hold the lock.
func (s *taskRun) write(ctx context.Context) error {
	if !s.IsLate() {
		return s.lost
	}
	t := s.Now()
	if t.Status.State.Interrupted() && t.Ref.ExecutionID == "" {
		return s.insert(ctx, t)
	}
	var err error
	s.Write(t.Entry.State.Ended(), func() {
		var now *ledger.Entry
		switch now, err = s.Tasks.Ledger.Record(t.Entry); {
		case now == nil:
			s.lost = errors.Join(errLost, err)
			err = s.lost
		case now.State.Ended():
			err = nil
		}
		if now != nil && now != t.Entry {
			own := *t
			own.Entry = now
			t = s.Tasks.Of(now, &own)
		}
		s.Keep(t)
	})
	return err
}

// insert is write for a task that asks its client, for which nothing was executed: if it can't be written, the client sends the message again.
func (s *taskRun) insert(ctx context.Context, t *task.Task) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if _, failure := s.Tasks.Ledger.Insert(ctx, t.Entry); failure != nil {
		if again := s.Tasks.Ledger.Place(ctx, &ledger.Entry{Owner: t.Owner}, 0); again != nil { // Insert has given its place back
			return task.NoPlace(again)
		}
		return task.NoPlace(failure)
	}
	s.Keep(t)
	return nil
}

// writeTimeout is how long the answer to a message waits until its task is written.
const writeTimeout = 2 * time.Second

// Drop gives back the place of a task that is not in the ledger, and that nobody will see.
func (s *taskRun) Drop() {
	if s.late.Swap(false) {
		s.Tasks.Ledger.Unplace(s.Now().Entry)
	}
}
