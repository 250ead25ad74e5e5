package cache

import (
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// limiter bounds how many flights of a [Request.Group] run at a time, and chooses the next
// flight to start. Cache.mu guards it.
type limiter struct {
	running map[*flight]struct{}
	shares  map[string]int               // how many running flights have each share
	waiting share.Turns[string, *flight] // those with the same shares are a line
}

// line names the line in which a flight waits.
func (f *flight) line() string { return strings.Join(f.req.Shares, "\x00") }

// next returns the flight to start, or nil if there is no room: the first flight that has
// room, in the order of the lines. A flight that was overtaken has a reserved place in
// the last of its shares. Without that, a flight with two shares could wait forever if only
// one of them has room at any time.
func (l *limiter) next() *flight {
	reserved := make(map[string]int)
	var passed []*flight
	starting, ok := l.waiting.Next(func(f *flight) bool {
		isFull := func(of string) bool { return l.full(f, l.shares[of]+reserved[of]) }
		if len(l.running) < f.req.AtOnce && !slices.ContainsFunc(f.req.Shares, isFull) {
			return true
		}
		if f.overtaken {
			reserved[f.req.Shares[len(f.req.Shares)-1]]++
		}
		passed = append(passed, f)
		return false
	})
	if !ok {
		return nil
	}
	for _, f := range passed { // with several shares, if the starting one has the first of them
		if of := f.req.Shares; len(of) > 1 && slices.Contains(starting.req.Shares, of[0]) {
			f.overtaken = true
		}
	}
	starting.queued = false
	l.running[starting] = struct{}{}
	for _, of := range starting.req.Shares {
		l.shares[of]++
	}
	return starting
}

// full reports whether a share that has inShare flights has no room for another one. Almost half
// of all places are reserved for shares without a flight, and the rule of [share.Fits] holds for
// the others. So only many shares together can take all places.
func (l *limiter) full(f *flight, inShare int) bool {
	left := f.req.AtOnce - len(l.running) - 1
	return inShare > 0 && !share.Fits(int64(inShare), 1, int64(left-(f.req.AtOnce-1)/2))
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
	for waiting := range l.waiting.First() {
		if len(left) == 0 {
			break
		}
		makesRoom := func(f *flight) bool { return l.makesRoom(f, waiting) }
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
	for _, of := range waiting.req.Shares {
		if l.full(waiting, l.shares[of]) {
			full = true
			if slices.Contains(running.req.Shares, of) {
				return true
			}
		}
	}
	return !full && len(l.running) >= waiting.req.AtOnce
}

// remove removes a flight. It reports whether others may have room now.
func (l *limiter) remove(f *flight) bool {
	if f.queued {
		f.queued = false
		l.waiting.Remove(f.line(), f)
		return f.overtaken // a place was reserved for it
	}
	delete(l.running, f)
	for _, of := range f.req.Shares {
		if l.shares[of]--; l.shares[of] == 0 {
			delete(l.shares, of)
		}
	}
	return true
}
