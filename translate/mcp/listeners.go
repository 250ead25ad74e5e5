package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
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

	mu      sync.Mutex
	sources map[string]*list // by source: those that were read, of the configured ones
}

// list is the list of a source.
type list struct {
	next  time.Time // when it is read again
	fresh time.Time // until when it is; zero: it is not known
}

// enter counts a subscription, if there is room for it.
func (l *listeners) enter(principal string) (release func(), ok bool) {
	subscription := &share.Part{Pool: &l.open, Owner: principal, Most: mostListeners, OfOne: mostOfOne}
	return func() { subscription.Set(0) }, subscription.Set(1)
}

// refresh reads the lists of sources again that are stale, each for all listeners together. Listeners may have different sources. read
// returns until when each list that it could read is fresh. refresh returns when to do so again.
func (l *listeners) refresh(ctx context.Context, sources []string, read func(context.Context, []string) map[string]time.Time) (next time.Time) {
	now := time.Now()
	due, stale := l.due(sources, now)
	var fresh map[string]time.Time
	if len(due) > 0 {
		fresh = read(ctx, due)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, source := range due {
		of := l.sources[source]
		if of.fresh = fresh[source]; of.fresh.After(of.next) || !stale[i] && of.fresh.After(now) {
			of.next = of.fresh // if the list was fresh, the source was not asked
		}
	}
	next = now.Add(longest)
	for _, source := range sources {
		if at := l.sources[source].next; at.Before(next) {
			next = at
		}
	}
	return next
}

// due returns which of some sources are to be read now, and which of these are stale, as far as it is known. Others do not read them for a while.
func (l *listeners) due(sources []string, now time.Time) (due []string, stale []bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sources == nil {
		l.sources = map[string]*list{}
	}
	for _, source := range sources {
		of := l.sources[source]
		if of == nil {
			of = &list{}
			l.sources[source] = of
		}
		if now.Before(of.next) {
			continue
		}
		due, stale = append(due, source), append(stale, !of.fresh.IsZero() && !now.Before(of.fresh))
		of.next = now.Add(refreshing) // also if the reading lasts, or fails
	}
	return due, stale
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
		err      error
		panicked any
	}
	of := make(map[string]bool, min(len(named), mostNamed))
	var group sync.WaitGroup
	for _, id := range named {
		if len(of) == mostNamed {
			break
		}
		if of[id] {
			continue
		}
		o := &opened[len(of)]
		of[id], o.id = true, id
		group.Go(func() {
			defer func() { o.panicked = recover() }()
			o.ref, o.err = open(id)
		})
	}
	group.Wait()
	var own []subscribedTask
	for i := range len(of) {
		if value := opened[i].panicked; value != nil {
			panic(value) // of the goroutine that answers, which reports it
		}
		if opened[i].err == nil && len(own) < mostTasks {
			own = append(own, opened[i].subscribedTask)
		}
	}
	return own
}

// serve sends notifications until the client leaves, the server stops or the time is over.
func (s *subscription) serve() {
	ctx, cancel := context.WithTimeout(s.request.ctx, longest)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	ended := make(chan endedTask)
	followers := make([]context.CancelFunc, len(s.tasks)) // nil: the client knows that the task has ended
	for i := range s.tasks {
		var following context.Context
		following, followers[i] = context.WithCancel(ctx)
		group.Go(func() {
			defer s.front.recovered(ctx)
			s.follow(following, i, ended)
		})
	}
	if len(s.tasks) > 0 {
		group.Go(func() {
			defer s.front.recovered(ctx)
			s.awaitCancellations(ctx, ended)
		})
	}
	sources, changed := s.front.Bridge.Readable(s.caller.Principal), s.changed
	refreshed := make(chan time.Time, 1)
	refresh := time.NewTimer(0)
	defer refresh.Stop()
	if len(s.lists) == 0 {
		refresh.Stop()
	}
	pause := time.NewTicker(keepAlive)
	defer pause.Stop()
	open := len(s.tasks)
	for len(s.lists) > 0 || open > 0 {
		select {
		case task := <-ended:
			free := followers[task.index]
			if free == nil || task.params == nil { // its follower reads it again
				continue
			}
			followers[task.index] = nil
			open--
			err := s.stream.NotifyCounted("notifications/tasks", task.params)
			free()
			if err != nil {
				return
			}
		case <-refresh.C:
			group.Go(func() { // a source may be slow
				defer s.front.recovered(ctx)
				refreshed <- s.front.listeners.refresh(ctx, sources, func(ctx context.Context, due []string) map[string]time.Time {
					return s.front.Bridge.ReadLists(ctx, front.Quiet(s.caller), due)
				})
			})
		case next := <-refreshed:
			refresh.Reset(time.Until(next))
		case <-changed:
			changed = s.front.Bridge.Changed(s.caller.Principal)
			for _, method := range s.lists {
				if s.stream.Notify(method, s.params(nil)) != nil {
					return
				}
			}
		case <-pause.C:
			if s.stream.KeepAlive() != nil {
				return
			}
		case <-s.front.Stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// endedTask is a task of a subscription, with its index there.
type endedTask struct {
	index int
	// params are those of the notification; nil: they are not kept.
	params jsontext.Value
}

func send(ctx context.Context, to chan<- endedTask, t endedTask) {
	select {
	case to <- t:
	case <-ctx.Done():
	}
}

// awaitCancellations sends the tasks that are canceled. The database, which knows those that were canceled at other instances, is
// asked when there may be one, and now and then.
func (s *subscription) awaitCancellations(ctx context.Context, ended chan<- endedTask) {
	pause := time.NewTicker(pauseBetweenCancellations)
	defer pause.Stop()
	told := make([]bool, len(s.tasks))
	for all := true; ; {
		here, elsewhere := s.front.Canceled.Changed(), s.front.Canceled.Elsewhere()
		for i := range told {
			if told[i] || !all && s.tasks[i].ref.Kept != "" { // follow hears of an entry
				continue
			}
			if task := s.canceledTask(i); task != nil {
				told[i] = true
				send(ctx, ended, endedTask{i, task})
			}
		}
		select {
		case <-here:
			all = true
		case <-elsewhere:
			all = false
		case <-pause.C:
			all = true
		case <-ctx.Done():
			return
		}
	}
}

// follow waits for the end of a task and sends it. Its params are used until the context ends. If the client reads slowly, so that other
// notifications wait, it frees the params, waits until the listener takes a task, and reads it again: a listener does not keep the outputs of
// all its tasks.
func (s *subscription) follow(ctx context.Context, index int, ended chan<- endedTask) {
	for ctx.Err() == nil {
		held, free := context.WithCancel(ctx)
		params := s.awaitTask(held, index)
		if params == nil {
			free()
			select {
			case <-time.After(pauseBetweenFollowing):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case ended <- endedTask{index, params}:
			<-ctx.Done()
		case <-ctx.Done():
		case <-time.After(outputKept):
			free()
			send(ctx, ended, endedTask{index: index})
		}
		free()
	}
}
