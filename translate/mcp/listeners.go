package mcp

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Bounds of subscriptions.
const (
	mostListeners = 1000
	mostOfOne     = 16            // of one principal; all anonymous callers count as one
	mostTasks     = 16            // of one subscription
	mostNamed     = 4 * mostTasks // ids that are opened, of those that a client names
	longest       = time.Hour
	refreshing    = 10 * time.Second
	keepAlive     = 15 * time.Second

	pauseBetweenFollowing = 30 * time.Second
	// outputKept is how long the output of a task is kept for a stream that is being written.
	outputKept = time.Second
	// pauseBetweenCancellations is how often the database is asked whether tasks were canceled, if nothing has said so.
	pauseBetweenCancellations = 15 * time.Second
)

// listeners are the open subscriptions. The zero value is ready for use, also by several goroutines.
type listeners struct {
	open share.Pool

	mu   sync.Mutex
	next map[string]time.Time // by source: when its list is read again
}

// enter counts a subscription, if there is room for it.
func (l *listeners) enter(principal string) (release func(), ok bool) {
	subscription := &share.Part{Pool: &l.open, Owner: principal, Most: mostListeners, OfOne: mostOfOne}
	return func() { subscription.Set(0) }, subscription.Set(1)
}

// refresh reads the lists of sources again that may be stale, each for all listeners together. Listeners may have different sources. read
// returns until when each list that it could read is fresh. refresh returns when to do so again.
func (l *listeners) refresh(ctx context.Context, sources []string, read func(context.Context, []string) map[string]time.Time) (next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = map[string]time.Time{}
	}
	now := time.Now()
	var due []string
	for _, source := range sources {
		if !now.Before(l.next[source]) {
			due = append(due, source)
			l.next[source] = now.Add(refreshing) // also if the reading lasts, or fails
		}
	}
	if len(due) > 0 {
		fresh := func() map[string]time.Time {
			l.mu.Unlock()
			defer l.mu.Lock() // also if it panics
			return read(ctx, due)
		}()
		for _, source := range due {
			l.next[source] = slices.MaxFunc([]time.Time{l.next[source], fresh[source]}, time.Time.Compare)
		}
	}
	next = now.Add(longest)
	for _, source := range sources {
		if l.next[source].Before(next) {
			next = l.next[source]
		}
	}
	return next
}

// room is memory for the notification of a task, from when the output of its run is read until the notification is written.
type room struct {
	exchange.PatientBudget
	least  int64 // is reserved at least, while the run is read again
	needed int64 // the most that was asked for
}

// Reserve implements the budget of a call.
func (r *room) Reserve(size int64) bool {
	r.needed = max(r.needed, size)
	return r.PatientBudget.Reserve(max(size, r.least))
}

// Await implements the budget of a call that waits for memory.
func (r *room) Await(ctx context.Context, size, most int64) bool {
	r.needed = max(r.needed, size)
	return r.PatientBudget.Await(ctx, size, most)
}

// Release does nothing: a call releases the memory at its end, when its output is still used. The PatientBudget in it frees the memory.
func (r *room) Release() {}

// read reads a notification, which is counted until the end of the context. If there is no memory for it, read frees what it has, waits
// until there is enough, and reads it again. So the tasks of a listener, and listeners, take turns. It returns nil if there is none.
func (r *room) read(ctx context.Context, of func() jsontext.Value) jsontext.Value {
	for {
		params := of()
		if params != nil {
			context.AfterFunc(ctx, r.PatientBudget.Release)
			return params
		}
		r.PatientBudget.Release()
		if r.needed <= r.least || !r.Await(ctx, r.needed, r.needed) {
			return nil
		}
		r.least = r.needed
	}
}

// subscribedTask is a task of a subscription.
type subscribedTask struct {
	id  string
	ref run.Ref
}

// ownTasks returns the tasks of a client among those whose ids it names, in their order, each once. open returns the run of an id. It is called
// for all of them at the same time, since it may have to wait for the keys of another instance, and one reading of these is for all ids that
// are waited for then.
func ownTasks(named []string, open func(id string) (run.Ref, error)) []subscribedTask {
	var opened [mostNamed]struct {
		subscribedTask
		err error
	}
	of := make(map[string]bool, min(len(named), mostNamed))
	var group panics.Group
	for _, id := range named {
		if len(of) == mostNamed {
			break
		}
		if of[id] {
			continue
		}
		o := &opened[len(of)]
		of[id], o.id = true, id
		group.Go(func() { o.ref, o.err = open(id) })
	}
	group.Wait()
	var own []subscribedTask
	for i := range len(of) {
		if opened[i].err == nil && len(own) < mostTasks {
			own = append(own, opened[i].subscribedTask)
		}
	}
	return own
}

// serve sends notifications until the client leaves, the server stops, the time is over or all is told.
func (s *subscription) serve() {
	ctx, cancel := context.WithTimeout(s.request.ctx, longest)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	s.writing, s.leave, s.open, s.followers = make(chan struct{}, 1), cancel, len(s.tasks), make([]context.CancelFunc, len(s.tasks))
	background := func(work func()) {
		group.Go(func() {
			defer s.front.recovered(ctx)
			work()
		})
	}
	for i := range s.tasks {
		var following context.Context
		following, s.followers[i] = context.WithCancel(ctx)
		background(func() { s.follow(following, i) })
	}
	if len(s.tasks) > 0 {
		background(func() { s.awaitCancellations(ctx) })
	}
	if len(s.lists) > 0 {
		background(func() { s.refresh(ctx) })
	}
	changed := s.changed
	pause := time.NewTicker(keepAlive)
	defer pause.Stop()
	for {
		methods := []string(nil)
		select {
		case <-changed:
			changed = s.front.Bridge.Changed(s.caller.Principal)
			methods = s.lists
		case <-pause.C:
		case <-s.front.Stopping:
			return
		case <-ctx.Done():
			return
		}
		select {
		case s.writing <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := error(nil)
		for _, method := range methods {
			err = cmp.Or(err, s.stream.Notify(method, s.params(nil)))
		}
		if methods == nil {
			err = s.stream.KeepAlive()
		}
		<-s.writing
		if err != nil {
			return
		}
	}
}

// refresh reads the lists of the sources again.
func (s *subscription) refresh(ctx context.Context) {
	sources := s.front.Bridge.Readable(s.caller.Principal)
	for ctx.Err() == nil {
		next := s.front.listeners.refresh(ctx, sources, func(ctx context.Context, due []string) map[string]time.Time {
			return s.front.Bridge.ReadLists(ctx, front.Quiet(s.caller), due)
		})
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
		}
	}
}

// tell notifies the client of a task that has ended, unless it knows that, and ends its follower. It reports false if that would have to wait for the client,
// which reads slowly.
func (s *subscription) tell(ctx context.Context, index int, params jsontext.Value) bool {
	select {
	case s.writing <- struct{}{}:
	case <-time.After(outputKept):
		return false
	case <-ctx.Done():
		return true
	}
	defer func() { <-s.writing }()
	free := s.followers[index]
	if free == nil {
		return true
	}
	s.followers[index] = nil
	s.open--
	if s.stream.NotifyCounted("notifications/tasks", params) != nil || s.open == 0 && len(s.lists) == 0 {
		s.leave()
	}
	free()
	return true
}

// awaitCancellations tells the tasks that are canceled. The database, which knows those that were canceled at other instances, is
// asked when there may be one, and now and then.
func (s *subscription) awaitCancellations(ctx context.Context) {
	pause := time.NewTicker(pauseBetweenCancellations)
	defer pause.Stop()
	told := make([]bool, len(s.tasks))
	for all := true; ; {
		here, elsewhere := s.front.Canceled.Changed(), s.front.Canceled.Elsewhere()
		for i := range told {
			if told[i] || !all && s.tasks[i].ref.Kept != "" { // follow hears of an entry
				continue
			}
			task := s.canceledTask(i)
			for told[i] = task != nil; told[i] && !s.tell(ctx, i, task); {
			}
		}
		all = false
		select {
		case <-here:
		case <-elsewhere:
		case <-pause.C:
			all = true
		case <-ctx.Done():
			return
		}
	}
}

// follow waits for the end of a task and tells it. If the client reads slowly, so that other notifications wait, it frees the params, waits until the client
// has read, and reads them again: a listener does not keep the outputs of all its tasks.
func (s *subscription) follow(ctx context.Context, index int) {
	for ctx.Err() == nil {
		held, free := context.WithCancel(ctx)
		params := s.awaitTask(held, index)
		told := params != nil && s.tell(ctx, index, params)
		free()
		switch {
		case told:
			return
		case params == nil:
			select {
			case <-time.After(pauseBetweenFollowing):
			case <-ctx.Done():
			}
		default:
			select {
			case s.writing <- struct{}{}:
				<-s.writing
			case <-ctx.Done():
			}
		}
	}
}
