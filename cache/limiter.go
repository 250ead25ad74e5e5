package cache

import "slices"

// limiter bounds how many flights of a [Request.Group] run at a time, and chooses the next
// flight to start. Cache.mu guards it.
type limiter struct {
	running map[*flight]struct{}
	shares  map[string]int // how many running flights have each share
	queues  [][]*flight    // waiting flights, one queue for each set of shares, oldest first; the first queue is next
}

func newLimiter() *limiter {
	return &limiter{running: make(map[*flight]struct{}), shares: make(map[string]int)}
}

func (l *limiter) empty() bool { return len(l.running) == 0 && len(l.queues) == 0 }

func (l *limiter) enqueue(f *flight) {
	f.queued = true
	if i := l.queueOf(f); i >= 0 {
		l.queues[i] = append(l.queues[i], f)
		return
	}
	l.queues = append(l.queues, []*flight{f})
}

// queueOf is the index of the queue for the shares of a flight, or -1.
func (l *limiter) queueOf(f *flight) int {
	return slices.IndexFunc(l.queues, func(queue []*flight) bool { return slices.Equal(queue[0].req.Shares, f.req.Shares) })
}

// dequeue takes a flight out of its queue, and puts the rest of the queue last.
func (l *limiter) dequeue(f *flight) {
	f.queued = false
	i := l.queueOf(f)
	queue := l.queues[i]
	l.queues = slices.Delete(l.queues, i, i+1)
	i = slices.Index(queue, f)
	if queue = slices.Delete(queue, i, i+1); len(queue) > 0 {
		l.queues = append(l.queues, queue)
	}
}

// next returns the flight to start, or nil if there is no room: the first flight that has
// room, in the order of the queues. A flight that was overtaken has a reserved place in
// the last of its shares. Without that, a flight with two shares could wait forever if only
// one of them has room at any time.
func (l *limiter) next() *flight {
	reserved := make(map[string]int)
	for i, queue := range l.queues {
		f := queue[0]
		if l.hasRoom(f, reserved) {
			l.overtake(i)
			l.dequeue(f)
			l.running[f] = struct{}{}
			for _, share := range f.req.Shares {
				l.shares[share]++
			}
			return f
		}
		if f.overtaken {
			reserved[f.req.Shares[len(f.req.Shares)-1]]++
		}
	}
	return nil
}

// overtake is called when the first flight of the i-th queue starts. It marks the first flights
// of the queues before it as overtaken, if they have several shares and that flight has the
// first of them.
func (l *limiter) overtake(i int) {
	starting := l.queues[i][0]
	for _, queue := range l.queues[:i] {
		if shares := queue[0].req.Shares; len(shares) > 1 && slices.Contains(starting.req.Shares, shares[0]) {
			queue[0].overtaken = true
		}
	}
}

// hasRoom reports whether a flight may run in addition to the running flights and the
// reserved places.
func (l *limiter) hasRoom(f *flight, reserved map[string]int) bool {
	isFull := func(share string) bool { return l.full(f, l.shares[share]+reserved[share]) }
	return len(l.running) < f.req.AtOnce && !slices.ContainsFunc(f.req.Shares, isFull)
}

// full reports whether a share that has inShare flights has no room for another one. Half of
// all places are reserved for shares without a flight. Of the other half, a share may take
// at most as many places as it leaves free. So only many shares together can take all
// places.
func (l *limiter) full(f *flight, inShare int) bool {
	free := f.req.AtOnce - len(l.running)
	return inShare > 0 && inShare >= free-f.req.AtOnce/2
}

// superfluous returns the running flights to abort: for each waiting flight, one without
// callers, unless a flight that was aborted earlier makes room for it.
func (l *limiter) superfluous() []*flight {
	var aborted, left []*flight
	for f := range l.running {
		switch {
		case f.ctx.Err() != nil:
			aborted = append(aborted, f)
		case f.callers == 0:
			left = append(left, f)
		}
	}
	before := len(aborted)
	for _, queue := range l.queues {
		if len(left) == 0 {
			break
		}
		makesRoom := func(f *flight) bool { return l.makesRoom(f, queue[0]) }
		if slices.ContainsFunc(aborted, makesRoom) {
			continue
		}
		if i := slices.IndexFunc(left, makesRoom); i >= 0 {
			aborted = append(aborted, left[i])
			left = slices.Delete(left, i, i+1)
		}
	}
	return aborted[before:]
}

// makesRoom reports whether the end of a running flight makes room for a waiting one.
func (l *limiter) makesRoom(running, waiting *flight) bool {
	full := false // a share of the waiting flight has no room
	for _, share := range waiting.req.Shares {
		if l.full(waiting, l.shares[share]) {
			full = true
			if slices.Contains(running.req.Shares, share) {
				return true
			}
		}
	}
	return !full && len(l.running) >= waiting.req.AtOnce
}

// remove removes a flight. It reports whether others may have room now.
func (l *limiter) remove(f *flight) bool {
	if f.queued {
		l.dequeue(f)
		return f.overtaken // a place was reserved for it
	}
	delete(l.running, f)
	for _, share := range f.req.Shares {
		if l.shares[share]--; l.shares[share] == 0 {
			delete(l.shares, share)
		}
	}
	return true
}
