package delivery

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// pauses are the times between the requests for an event, as Standard Webhooks recommends, within the time for which runs are kept by default. A tenth
// at most is added, so that the requests to a receiver that was gone do not all come at once.
var pauses = [...]time.Duration{
	5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
}

// shortPauses are those for an event of a delivery that is not EndOnly, each of which is shorter than half a claim. After the last one the event is lost, and the
// next one is sent; if maxLost events in a row are lost, the delivery is over. A receiver has no influence on them.
var shortPauses = [...]time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}

const maxLost = 5

// fresh is the age up to which a claim is not extended before a request.
const fresh = 500 * time.Millisecond

// step says what follows in memory on a turn of a line.
type step uint8

const (
	over   step = iota // the line is removed
	again              // it waits for another turn
	paused             // it waits for another turn after a time
	news               // it is removed, and its delivery has to be taken again
)

// turn is the turn of a line.
type turn struct {
	*Deliverer
	*line

	by *Sender
}

// send sends the next event.
func (t *turn) send() step {
	if t.replaced() {
		return again
	}
	if t.entry == nil {
		e, kept, err := t.version()
		switch {
		case errors.Is(err, ledger.ErrNoEntry):
			return t.giveUp(&Attempt{}, "the run has expired")
		case err != nil:
			return t.settle(t.line, storeRetry)
		case e.Version <= t.row.Cursor:
			return t.settle(t.line, Idle)
		}
		if t.entry, t.part = e, 0; !kept || e.Version != t.row.Cursor+1 {
			t.part = Whole
		}
	}
	event, err := t.by.Event(t.ctx, t.row, t.entry, t.part)
	switch {
	case err != nil:
		return t.settle(t.line, storeRetry)
	case event == nil:
		return t.told(false)
	case event.Never != "":
		return t.giveUp(&Attempt{}, event.Never)
	case !t.extended():
		return over
	}
	if t.Pace == "" {
		event.Paced = t.Owner
	}
	a := &Attempt{Answer: t.by.Client.Post(t.ctx, &event.Request)}
	if t.ctx.Err() != nil { // the process ends: the event is sent again
		return over
	}
	return t.judge(event, a)
}

// replaced reports whether the delivery of a line was replaced, or claimed again, while the line waited for its turn.
func (t *turn) replaced() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next != nil
}

// version returns the version of a run that a line has to send, and whether it was heard.
func (t *turn) version() (e *ledger.Entry, kept bool, err error) {
	t.mu.Lock()
	e = t.lines.after(t.row.Run, t.row.Cursor)
	t.mu.Unlock()
	if e != nil {
		return e, true, nil
	}
	e, err = t.runs.Get(t.ctx, t.row.Run)
	return e, false, err
}

// extended reports whether the delivery of a line is still claimed by it, and extends the claim if it is not fresh.
func (t *turn) extended() bool {
	began := time.Now()
	if began.Sub(t.claimed) <= fresh {
		return true
	}
	ok, err := t.store.Extend(t.ctx, t.row, ClaimTime)
	t.claimed = began
	return ok && err == nil // after an error, the claim ends by itself
}

// judge evaluates a request.
func (t *turn) judge(event *Event, a *Attempt) step {
	if a.Outcome == webhook.Delivered {
		try := t.row.Tries
		if !t.row.EndOnly {
			try %= len(shortPauses) + 1 // those of lost events
		}
		t.by.Attempted(t.fill(a, try+1))
		t.row.Tries = 0
		return t.goOn(event)
	}
	t.row.Tries++
	if !t.row.EndOnly {
		return t.lose(event, a)
	}
	if t.row.Tries > len(pauses) || a.Status == http.StatusGone {
		return t.giveUp(a, a.Problem)
	}
	pause := max(pauses[t.row.Tries-1], a.RetryAfter)
	if e := t.entry; e.State.Ended() && !e.Expires.IsZero() && t.left(e.Expires) < pause {
		return t.giveUp(a, a.Problem+"; the run expires before the next request")
	}
	a.Retry = pause + rand.N(pause/10) //nolint:gosec // it spreads requests
	t.by.Attempted(t.fill(a, t.row.Tries))
	return t.settle(t.line, a.Retry)
}

// left returns how long it is to a time of the store's clock, which has said when the claim ends.
func (t *turn) left(at time.Time) time.Duration {
	return at.Sub(t.row.Next) + ClaimTime - time.Since(t.claimed)
}

// goOn goes on after an event.
func (t *turn) goOn(event *Event) step {
	t.part++
	if event.More {
		return again
	}
	return t.told(event.Last)
}

// lose evaluates a request that failed for one of several events: it is sent again after a time, or is lost.
func (t *turn) lose(event *Event, a *Attempt) step {
	all := len(shortPauses) + 1
	try := (t.row.Tries-1)%all + 1
	if try < all {
		a.Retry = shortPauses[try-1]
		t.by.Attempted(t.fill(a, try))
		t.until = time.Now().Add(a.Retry)
		return paused
	}
	a.Lost = true
	if t.row.Tries/all >= maxLost {
		t.row.Tries = all
		return t.giveUp(a, a.Problem)
	}
	t.by.Attempted(t.fill(a, try))
	return t.goOn(event)
}

// fill adds to an attempt what it is about.
func (l *line) fill(a *Attempt, try int) *Attempt {
	if a.Host == "" {
		a.Host = l.row.Host
	}
	a.Delivery, a.Entry, a.Try = new(*l.row), l.entry, try
	return a
}

// told goes on after the last event of a version.
func (t *turn) told(last bool) step {
	e := t.entry
	t.row.Cursor, t.entry = e.Version, nil
	if last || e.State.Ended() {
		return t.end()
	}
	t.mu.Lock()
	more := t.lines.after(t.row.Run, t.row.Cursor) != nil
	t.mu.Unlock()
	if more {
		return again
	}
	return t.settle(t.line, Idle)
}

// giveUp ends the attempts to reach a receiver.
func (t *turn) giveUp(a *Attempt, problem string) step {
	a.GivenUp, a.Problem = true, problem
	t.by.Attempted(t.fill(a, t.row.Tries))
	return t.end()
}

// end ends a delivery. If that fails, the last event is sent again.
func (t *turn) end() step {
	if t.row.EndOnly {
		t.write(func(ctx context.Context) error { return t.store.Done(ctx, t.row) })
		return over
	}
	t.row.Cursor = Over
	return t.settle(t.line, Idle)
}

// settle ends the claim of a delivery, which is due again after a time, or idle.
func (d *Deliverer) settle(l *line, after time.Duration) step {
	var due bool
	d.write(func(ctx context.Context) (err error) {
		due, err = d.store.Settle(ctx, l.row, after)
		return err
	})
	if due {
		return news
	}
	if after > 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.look(after)
	}
	return over
}

// write changes a delivery, also if the process ends. If that fails again and again, its claim ends by itself.
func (d *Deliverer) write(change func(ctx context.Context) error) {
	for range writeTries {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), writeTimeout)
		err := change(ctx)
		cancel()
		if err == nil {
			return
		}
		if !run.Sleep(d.closing, writePause) {
			return
		}
	}
}

// Sender sends the events of the runs of one front and realm in one configuration. Its fields must not be changed while it is used, and are required unless
// they say otherwise.
type Sender struct {
	Served
	// Client sends the requests.
	Client *webhook.Client
	// Hears reports whether a version of a run may be an event for a receiver. It is called for each version of each run, and must be quick.
	Hears func(e *ledger.Entry) bool
	// Event makes the next event of a version for a receiver, after as many of the same version as part says; nil: there is none. If part is [Whole], earlier
	// versions were missed, or it is not known which events the receiver has got, and the event has the whole state. After an error, Event is called again in some
	// seconds.
	Event func(ctx context.Context, d *Delivery, e *ledger.Entry, part int) (*Event, error)
	// Attempted is called after each request, and when a delivery is given up without one, from several goroutines at a time.
	Attempted func(a *Attempt)
	// Panicked is called after a panic. value has its stack; stack is nil.
	Panicked func(ctx context.Context, value any, stack []byte)
}

// Whole is the part of an event that has the whole state.
const Whole = -1

// Event is what a receiver gets.
type Event struct {
	webhook.Request
	// More says that the version has another event.
	More bool
	// Last says that the receiver gets nothing more. Otherwise this is so when the run has ended.
	Last bool
	// Never is why nothing can be sent, so that the delivery is given up.
	Never string
}

// Attempt is a request, or that a delivery is given up, for the operator. It has no secrets. Without a request, it has no Outcome.
type Attempt struct {
	webhook.Answer

	Delivery *Delivery     // its Target may have sealed secrets
	Entry    *ledger.Entry // nil: the run is gone
	Try      int           // the number of the request for this event, from 1
	Retry    time.Duration // until the next request for it; 0: it is the last one
	Lost     bool          // the event is not sent again
	GivenUp  bool          // nothing more is sent to the receiver
}
