package hostile

import (
	"strings"
	"time"
)

// Hang never answers.
func Hang() Action { return (*Exchange).hang }

// A Tick waits until the next byte has to be sent, and reports whether to send it.
type Tick func(gone <-chan struct{}) bool

// Every returns a tick after each interval.
func Every(interval time.Duration) Tick {
	return func(gone <-chan struct{}) bool {
		select {
		case <-gone:
			return false
		default:
		}
		timer := time.NewTimer(interval)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-gone:
			return false
		}
	}
}

// DripBody sends the headers of an answer at once and its body byte by byte. If the ticks end early,
// it closes the connection.
func DripBody(tick Tick, status int, body string) Action {
	return func(x *Exchange) {
		head, rest, _ := strings.Cut(Wire(status, body), "\r\n\r\n")
		x.take()
		x.provider.answered(x.Request, status)
		x.write(head + "\r\n\r\n")
		x.drip(tick, rest)
	}
}

// DripHeaders sends a whole answer byte by byte.
func DripHeaders(tick Tick, status int, body string) Action {
	return func(x *Exchange) {
		x.take()
		x.provider.answered(x.Request, status)
		x.drip(tick, Wire(status, body))
	}
}

func (x *Exchange) drip(tick Tick, text string) {
	x.provider.hanging.Add(1)
	defer x.provider.hanging.Add(-1)
	for i := range len(text) {
		if !tick(x.Gone()) {
			return
		}
		x.write(text[i : i+1])
	}
}
