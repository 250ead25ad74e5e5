package tasks

import (
	"context"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

// maxBehind is the number of undelivered events at which a subscription is ended.
const maxBehind = 64

// Subscription delivers the events of one task to one reader. It needs a goroutine only while the reader is behind.
type Subscription struct {
	tasks   *Tasks
	entry   *entry
	updates chan task.Update

	// The lock of the entry protects the other fields.
	backlog []task.Update // events that do not fit into the channel; not nil: pump is running
	stop    chan struct{} // ends pump
	ended   bool          // no event is added any more
	stopped bool          // the backlog is not delivered any more
	cut     bool
}

// Subscribe returns the current version of a task and a subscription to all its later events. If the task has ended, there are none.
func (s *Tasks) Subscribe(ctx context.Context, owner, id string) (*task.Task, *Subscription, error) {
	for {
		e, err := s.current(ctx, owner, id, true)
		if err != nil {
			return nil, nil, err
		}
		if _, err := s.writer.show(ctx, e); err != nil {
			return nil, nil, err
		}
		e.mu.Lock()
		kept, _ := s.memory.find(owner, id)
		if !s.writer.visible(e) || kept != e && !e.now.Status.State.Terminal() { // it was changed or dropped meanwhile
			e.mu.Unlock()
			continue
		}
		s.writer.deliver(e) // to the others, what this reader gets with the task
		t := e.now
		sub := &Subscription{tasks: s, entry: e, updates: make(chan task.Update, 3)}
		s.subscriptions.Add(1)
		if t.Status.State.Terminal() || isClosed(s.closing) {
			sub.end(false)
		} else {
			e.subs = append(e.subs, sub)
		}
		e.mu.Unlock()
		return t, sub, nil
	}
}

// Updates returns the channel of the events. It is closed after the last event of the task, when the reader is 64 events
// behind, after [Subscription.Close], and when the task expires.
func (s *Subscription) Updates() <-chan task.Update { return s.updates }

// Cut reports whether the subscription was ended because the reader was too far behind.
func (s *Subscription) Cut() bool {
	s.entry.mu.Lock()
	defer s.entry.mu.Unlock()
	return s.cut
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.entry.mu.Lock()
	defer s.entry.mu.Unlock()
	s.entry.subs = slices.DeleteFunc(s.entry.subs, func(other *Subscription) bool { return other == s })
	s.end(true)
}

// end closes the channel of the events: at once, or after the backlog. The caller holds the lock of the entry.
func (s *Subscription) end(drop bool) {
	if !s.ended {
		s.ended = true
		s.tasks.subscriptions.Add(-1)
		if s.backlog == nil {
			close(s.updates)
		}
	}
	if drop && s.backlog != nil && !s.stopped {
		s.stopped = true
		close(s.stop)
	}
}

// send adds an event, or ends the subscription if the reader is too far behind. The caller holds the lock of the entry.
func (s *Subscription) send(u task.Update) {
	if s.backlog == nil {
		select {
		case s.updates <- u:
			return
		default:
		}
		s.backlog, s.stop = make([]task.Update, 0, 8), make(chan struct{})
		go s.pump()
	}
	if len(s.updates)+len(s.backlog) >= maxBehind {
		s.cut = true
		s.end(true)
		return
	}
	s.backlog = append(s.backlog, u)
}

// pump moves the backlog to the channel, as fast as the reader takes it.
func (s *Subscription) pump() {
	mu := &s.entry.mu
	mu.Lock()
	defer mu.Unlock()
	for len(s.backlog) > 0 && !s.stopped {
		u := s.backlog[0]
		mu.Unlock()
		select {
		case s.updates <- u:
		case <-s.stop:
		}
		mu.Lock()
		s.backlog = s.backlog[1:]
	}
	s.backlog = nil
	if s.ended {
		close(s.updates)
	}
}

// deliver sends the events that clients may see to all subscriptions. The caller holds the lock of the entry.
func (w *writer) deliver(e *entry) {
	all := w.storage == nil || e.now.Status.State.Terminal()
	n := 0
	for ; n < len(e.queue) && (all || e.queue[n].Number <= e.stored.Event); n++ {
		for _, sub := range e.subs {
			sub.send(e.queue[n])
		}
		e.subs = slices.DeleteFunc(e.subs, func(sub *Subscription) bool { return sub.ended })
	}
	e.queue = e.queue[n:]
	if len(e.queue) > 0 {
		if !e.dispatching {
			e.dispatching = true
			go w.dispatch(e)
		}
		return
	}
	e.queue = nil
	if e.now.Status.State.Terminal() {
		e.endSubscriptions()
	}
}

// endSubscriptions closes the channels of all subscriptions. The caller holds the lock of the entry.
func (e *entry) endSubscriptions() {
	for _, sub := range e.subs {
		sub.end(false)
	}
	e.subs, e.queue = nil, nil
}

// dispatch stores a task, so that its events can be delivered. If that fails, the writer tries again later.
func (w *writer) dispatch(e *entry) {
	_, err := w.show(context.Background(), e)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dispatching = false
	if err == nil {
		w.deliver(e)
	}
}
