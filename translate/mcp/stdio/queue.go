package stdio

import (
	"slices"
	"sync"
)

const (
	// maxCalls is how many requests are with the server at the same time.
	maxCalls = 64
	// maxQuick is the same for messages that take no time: pings, notifications, responses, and what is answered without the server.
	maxQuick = 8
	// maxWaiting bounds the messages that wait for a place, in bytes.
	maxWaiting = 32 << 20
	// maxRefused bounds, beyond maxWaiting, the answers to messages that found no room to wait.
	maxRefused = 4 << 20
	// callSize is about what a message that waits takes beside its text.
	callSize = 1 << 10
)

// lane is a kind of messages. So many are with the server at the same time; others wait in the order in which they arrived.
type lane struct {
	free    int // places
	waiting []*call
}

// queue gives messages their places.
type queue struct {
	mu     sync.Mutex
	calls  lane
	quick  lane
	size   int // bytes of what waits
	closed bool
}

func newQueue() *queue { return &queue{calls: lane{free: maxCalls}, quick: lane{free: maxQuick}} }

// laneOf returns the lane of a message.
func (q *queue) laneOf(c *call) *lane {
	if c.fault != nil || !c.wantsAnswer() || c.method == methodPing {
		return &q.quick
	}
	return &q.calls
}

// admission is what became of a message at its arrival.
type admission int

const (
	starts  admission = iota // it has a place
	waits                    // until another ends
	refused                  // there is no room to wait
)

// enter gives a message a place, or lets it wait if no more than so many bytes wait then.
func (q *queue) enter(c *call, room int) admission {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.laneOf(c)
	switch {
	case l.free > 0:
		l.free--
		return starts
	case q.size > 0 && q.size+c.size() > room:
		return refused
	}
	l.waiting = append(l.waiting, c)
	q.size += c.size()
	return waits
}

// next returns the message that takes the place of one that has ended; nil: none waits.
func (q *queue) next(ended *call) *call {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.laneOf(ended)
	if q.closed || len(l.waiting) == 0 {
		l.free++
		return nil
	}
	c := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	q.size -= c.size()
	return c
}

// withdraw removes a message that waits. It returns false if the message does not wait.
func (q *queue) withdraw(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.laneOf(c)
	at := slices.Index(l.waiting, c)
	if at < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	q.size -= c.size()
	return true
}

// end keeps messages that wait from starting.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// size is about what the message takes while it waits, in bytes.
func (c *call) size() int {
	const idSize = 48 // of one of a batch, without its text
	size := callSize + len(c.text) + len(c.id) + idSize*(len(c.ids)+len(c.cancels))
	if c.text == nil {
		for _, id := range c.ids {
			size += len(id)
		}
	}
	return size
}
