package listeners

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a subscription.
const (
	// MostTasks is the largest number of tasks of a subscription.
	MostTasks = 16
	// Longest bounds the duration of a subscription.
	Longest               = time.Hour
	keepAlive             = 15 * time.Second
	pauseBetweenFollowing = 30 * time.Second
	// outputKept is how long the output of a task is kept for a stream that is being written.
	outputKept = time.Second
	// pauseBetweenCancellations is how often the storage is asked whether tasks were canceled at another instance.
	pauseBetweenCancellations = 15 * time.Second
)

// Subscription is what a client listens to.
type Subscription struct {
	// Sources are those whose lists the client may see.
	Sources []string
	// Lists are the methods of the notifications about lists.
	Lists []string
	// Changed is closed when a list changes after the client was told that it listens. Nil if there are no lists.
	Changed <-chan struct{}
	// Tasks is the number of tasks.
	Tasks int
	// Stopping is closed when the subscription has to end. May be nil.
	Stopping <-chan struct{}
	// Recovered is deferred by each goroutine.
	Recovered func(context.Context)
	Feed
}

// Feed is where the notifications of a subscription come from, and where they go. Its functions, but those that send, are called by
// several goroutines at a time.
type Feed interface {
	// ListsChanged returns a channel that is closed when a list changes the next time.
	ListsChanged() <-chan struct{}
	// ReadLists reads the lists of sources that are stale, and returns until when each that can be read is fresh.
	ReadLists(ctx context.Context, sources []string) map[string]time.Time
	// AwaitTask waits for the end of a task, and returns the params of its notification, which are not used any more after the end of
	// the context; nil: the task goes on.
	AwaitTask(ctx context.Context, index int) jsontext.Value
	// TasksCanceled returns a channel that is closed when a task is canceled the next time.
	TasksCanceled() <-chan struct{}
	// CanceledTask returns the params of the notification of a task if it was canceled; nil: it was not.
	CanceledTask(index int) jsontext.Value
	// SendChange sends a notification about a list.
	SendChange(method string) error
	// SendTask sends the notification of a task that has ended.
	SendTask(params jsontext.Value) error
	// KeepAlive sends a comment.
	KeepAlive() error
}

// Serve sends notifications until the client leaves, the server stops or the time is over.
func (l *Listeners) Serve(ctx context.Context, s *Subscription) {
	ctx, cancel := context.WithTimeout(ctx, Longest)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	ended := make(chan endedTask)
	followers := make([]context.CancelFunc, s.Tasks) // nil: the task has ended
	begin := func(i int) {
		following, end := context.WithCancel(ctx)
		followers[i] = end
		group.Go(func() {
			defer s.Recovered(ctx)
			s.follow(following, i, ended)
		})
	}
	for i := range s.Tasks {
		begin(i)
	}
	if s.Tasks > 0 {
		group.Go(func() {
			defer s.Recovered(ctx)
			s.awaitCancellations(ctx, ended)
		})
	}
	changed := s.Changed
	refreshed := make(chan time.Time, 1)
	refresh := time.NewTimer(0)
	defer refresh.Stop()
	if len(s.Lists) == 0 {
		refresh.Stop()
	}
	pause := time.NewTicker(keepAlive)
	defer pause.Stop()
	open := s.Tasks
	for len(s.Lists) > 0 || open > 0 {
		select {
		case task := <-ended:
			if followers[task.index] == nil {
				continue
			}
			end := followers[task.index]
			if task.params == nil { // it is read again
				end()
				begin(task.index)
				continue
			}
			followers[task.index] = nil
			open--
			err := s.SendTask(task.params)
			end()
			task.drop()
			if err != nil {
				return
			}
		case <-refresh.C:
			group.Go(func() { // a source may be slow
				defer s.Recovered(ctx)
				refreshed <- l.Refresh(ctx, s.Sources, s.ReadLists)
			})
		case next := <-refreshed:
			refresh.Reset(time.Until(next))
		case <-changed:
			changed = s.ListsChanged()
			for _, method := range s.Lists {
				if s.SendChange(method) != nil {
					return
				}
			}
		case <-pause.C:
			if s.KeepAlive() != nil {
				return
			}
		case <-s.Stopping:
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
	// drop frees the params.
	drop func()
}

func send(ctx context.Context, to chan<- endedTask, t endedTask) {
	select {
	case to <- t:
	case <-ctx.Done():
	}
}

// awaitCancellations sends the tasks that are canceled. The storage, which knows those that were canceled at other instances, is
// asked now and then.
func (s *Subscription) awaitCancellations(ctx context.Context, ended chan<- endedTask) {
	pause := time.NewTicker(pauseBetweenCancellations)
	defer pause.Stop()
	told := make([]bool, s.Tasks)
	for {
		canceled := s.TasksCanceled()
		for i := range told {
			if told[i] {
				continue
			}
			if task := s.CanceledTask(i); task != nil {
				told[i] = true
				send(ctx, ended, endedTask{i, task, func() {}})
			}
		}
		select {
		case <-canceled:
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow waits for the end of a task and sends it. If the client reads slowly, so that other notifications wait, it sends the task
// without params: a listener does not keep the outputs of all its tasks.
func (s *Subscription) follow(ctx context.Context, index int, ended chan<- endedTask) {
	for !s.offer(ctx, index, ended) {
		select {
		case <-time.After(pauseBetweenFollowing):
		case <-ctx.Done():
			return
		}
	}
}

// offer waits for the end of a task and sends it. It reports false if the task goes on.
func (s *Subscription) offer(ctx context.Context, index int, ended chan<- endedTask) bool {
	held, drop := context.WithCancel(ctx)
	params := s.AwaitTask(held, index)
	if params == nil {
		drop()
		return false
	}
	select {
	case ended <- endedTask{index, params, drop}:
	case <-ctx.Done():
		drop()
	case <-time.After(outputKept):
		drop()
		send(ctx, ended, endedTask{index: index})
	}
	return true
}
