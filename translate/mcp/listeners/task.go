package listeners

import (
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// mostNamed bounds the ids that are opened, of those that a client names.
const mostNamed = 4 * MostTasks

// Task is a task of a subscription.
type Task struct {
	ID  string
	Ref run.Ref
}

// OwnTasks returns the tasks of a client among those whose ids it names, in their order, each once. open returns the run of an id. It is called
// for all of them at the same time, since it may have to wait for the keys of another instance, and one reading of these is for all ids that
// are waited for then.
func OwnTasks(named []string, open func(id string) (run.Ref, error)) []Task {
	var opened [mostNamed]struct {
		Task
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
		of[id], o.ID = true, id
		group.Go(func() {
			defer func() { o.panicked = recover() }()
			o.Ref, o.err = open(id)
		})
	}
	group.Wait()
	var own []Task
	for i := range len(of) {
		if value := opened[i].panicked; value != nil {
			panic(value) // of the goroutine that answers, which reports it
		}
		if opened[i].err == nil && len(own) < MostTasks {
			own = append(own, opened[i].Task)
		}
	}
	return own
}
