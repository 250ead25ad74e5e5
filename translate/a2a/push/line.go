package push

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

const (
	// maxQueued is the number of events in a line at which the newest state replaces them.
	maxQueued = 64
	// maxLines, maxEvents and maxHeld bound all lines together; maxHeld is in bytes.
	maxLines  = 20_000
	maxEvents = 10_000
	maxHeld   = 32 << 20

	// A webhook gets up to burst requests at once, and then one in each interval of pause.
	burst = 8
	pause = time.Second
)

// lineKey identifies a webhook of a task.
type lineKey struct{ owner, id, webhook string }

// line is the queue of events for one webhook. The lock of the [Deliverer] protects it.
type line struct {
	key   lineKey
	host  string
	state lineState
	items []item
	sent  uint64 // the number of the last event that was delivered or given up
	tries int    // requests for the first item
	size  int64  // the size of the task

	timer *time.Timer // ends the state resting or pausing
	tat   time.Time   // the theoretical arrival time of the generic cell rate algorithm, which limits the rate of requests
	body  int64       // the estimated size of the request's body
	at    string      // the host of the request
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
	l.size = task.Size(u.Task)
	if n := len(l.items); n > 0 && l.items[n-1].update == nil {
		l.items[n-1].number = u.Number
		return 0, 0
	}
	if len(l.items) < maxQueued && room {
		own := *u
		l.items = append(l.items, item{u.Number, &own, l.size})
		return 1, l.size
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

// wait returns how long the line has to wait before its next request.
func (l *line) wait(now time.Time) time.Duration {
	if l.tat.Before(now) {
		return 0
	}
	return l.tat.Sub(now) - (burst-1)*pause
}

// spend counts a request for the rate.
func (l *line) spend(now time.Time) {
	if l.tat.Before(now) {
		l.tat = now
	}
	l.tat = l.tat.Add(pause)
}
