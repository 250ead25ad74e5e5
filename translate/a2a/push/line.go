package push

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

const (
	// maxQueued is the number of events in a line at which the newest state replaces them.
	maxQueued = 64
	// maxLines, maxEvents and maxHeld bound all lines together; maxHeld is in bytes.
	maxLines  = 20_000
	maxEvents = 10_000
	maxHeld   = 32 << 20
)

// lineKey identifies a webhook of a task.
type lineKey struct{ owner, id, webhook string }

// line is the queue of events for one webhook. The lock of the [Deliverer] protects it.
type line struct {
	webhook.Place // its Size is that of the task

	key   lineKey
	state lineState
	items []item
	sent  uint64 // the number of the last event that was delivered or given up
	tries int    // requests for the first item

	timer *time.Timer // ends the state resting or pausing
	rate  webhook.Rate
}

// lineState is the state of a line.
type lineState uint8

const (
	resting lineState = iota // it has no events
	queued                   // it waits in the schedule
	active                   // a goroutine sends its first event
	pausing                  // it waits for its timer
)

// item is an event in a line.
type item struct {
	number uint64
	update *task.Update // nil: the state of the task at the time of the request
	held   int64        // memory of update, in bytes
}

// add appends an event. It returns the change of the line's length and memory.
func (l *line) add(u *task.Update, room bool) (events int, held int64) {
	l.Size = task.Size(u.Task)
	if n := len(l.items); n > 0 && l.items[n-1].update == nil {
		l.items[n-1].number = u.Number
		return 0, 0
	}
	if len(l.items) < maxQueued && room {
		own := *u
		l.items = append(l.items, item{u.Number, &own, l.Size})
		return 1, l.Size
	}
	return l.newest(u.Number)
}

// newest replaces all events by the newest state. It returns the change of the line's length and memory.
func (l *line) newest(number uint64) (events int, held int64) {
	for _, i := range l.items {
		held -= i.held
	}
	events = 1 - len(l.items)
	l.items = []item{{number: number}}
	return events, held
}

// skip removes the events up to a number. It returns the change of the line's length and memory, which is never positive.
func (l *line) skip(number uint64) (events int, held int64) {
	l.sent = max(l.sent, number)
	for len(l.items) > 0 && l.items[0].number <= l.sent {
		held -= l.items[0].held
		events--
		l.items = l.items[1:]
		l.tries = 0
	}
	return events, held
}
