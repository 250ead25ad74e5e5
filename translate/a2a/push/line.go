package push

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

const (
	// maxQueued is how many events a line may have before the newest state replaces them.
	maxQueued = 64
	// maxLines, maxEvents and maxHeld bound all lines together; maxHeld is in bytes.
	maxLines  = 20_000
	maxEvents = 10_000
	maxHeld   = 32 << 20

	// A webhook gets up to burst requests at once, and then one each pause.
	burst = 8
	pause = time.Second
)

// lineKey names a webhook of a task.
type lineKey struct{ owner, id, webhook string }

// line are the events that one webhook has to get. It belongs to the lock of the [Deliverer].
type line struct {
	key   lineKey
	host  string
	state lineState
	items []item
	sent  uint64 // the number of the last event that was delivered or given up
	tries int    // of the first item
	size  int64  // of the task

	timer *time.Timer // of a line that rests or pauses
	tat   time.Time   // the theoretical arrival time of the generic cell rate algorithm: when the next request is due
	body  int64       // what the request counts as
	at    string      // the host that the request counts for
}

// lineState says what happens to a line.
type lineState uint8

const (
	resting lineState = iota // it has no events
	queued                   // it waits for its turn
	active                   // a goroutine has it
	pausing                  // until its timer ends
)

// item is an event of a line. Number is that of the event.
type item struct {
	number uint64
	update *task.Update // nil: whatever the task is when it is sent
	held   int64        // the memory that update holds, in bytes
}

// add appends an event. It returns by how many events and bytes the line has grown.
func (l *line) add(u *task.Update, room bool) (events int, held int64) {
	l.size = u.Task.Size()
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

// newest replaces all events by the newest state.
func (l *line) newest(number uint64) (events int, held int64) {
	for _, i := range l.items {
		held -= i.held
	}
	events = 1 - len(l.items)
	l.items = []item{{number: number}}
	return events, held
}

// skip removes the events up to a number. It returns by how many events and bytes the line has grown, which is never positive.
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

// spend counts a request.
func (l *line) spend(now time.Time) {
	if l.tat.Before(now) {
		l.tat = now
	}
	l.tat = l.tat.Add(pause)
}
