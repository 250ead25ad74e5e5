package listeners

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Room is memory for the notification of a task, from when the output of its run is read until the notification is written.
type Room struct {
	exchange.PatientBudget
	Least  int64 // is reserved at least, while the run is read again
	Needed int64 // the most that was asked for
}

// Reserve implements the budget of a call.
func (r *Room) Reserve(size int64) bool {
	r.Needed = max(r.Needed, size)
	return r.PatientBudget.Reserve(max(size, r.Least))
}

// Await implements the budget of a call that waits for memory.
func (r *Room) Await(ctx context.Context, size, most int64) bool {
	r.Needed = max(r.Needed, size)
	return r.PatientBudget.Await(ctx, size, most)
}

// Release does nothing: a call releases the memory at its end, when its output is still used. The PatientBudget in it frees the memory.
func (r *Room) Release() {}

// Read reads a notification, which is counted until the end of the context. If there is no memory for it, Read frees what it has, waits
// until there is enough, and reads it again. So the tasks of a listener, and listeners, take turns. It returns nil if there is none.
func (r *Room) Read(ctx context.Context, read func() jsontext.Value) jsontext.Value {
	for {
		params := read()
		if params != nil {
			context.AfterFunc(ctx, r.PatientBudget.Release)
			return params
		}
		r.PatientBudget.Release()
		if r.Needed <= r.Least || !r.Await(ctx, r.Needed, r.Needed) {
			return nil
		}
		r.Least = r.Needed
	}
}
