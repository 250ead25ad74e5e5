package delivery

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// pauses are the times between the requests for an event, as Standard Webhooks recommends, within the time for which runs are kept by default. A tenth
// at most is added, so that the requests to a receiver that was gone do not all come at once.
var pauses = [...]time.Duration{
	5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
}

// fresh is the age up to which a claim is not extended before a request.
const fresh = 500 * time.Millisecond

// step says what follows in memory on a turn of a line.
type step uint8

const (
	over  step = iota // the line is removed
	again             // it waits for another turn
	news              // it is removed, and its delivery has to be taken again
)

// deliver sends the next event of a line.
func (d *Deliverer) deliver(l *line) step {
	s := d.sender(l.row.Served())
	if s == nil {
		return d.settle(l, 0)
	}
	if l.entry == nil {
		e, err := d.version(l)
		switch {
		case errors.Is(err, ledger.ErrNoEntry):
			return d.giveUp(s, l, &Attempt{}, "the run has expired")
		case err != nil:
			return d.settle(l, storeRetry)
		case e.Version <= l.row.Cursor:
			return d.settle(l, Idle)
		}
		l.entry, l.part = e, 0
	}
	event, err := s.Event(d.ctx, l.row, l.entry, l.part)
	switch {
	case err != nil:
		return d.settle(l, storeRetry)
	case event == nil:
		return d.told(l, false)
	case event.Never != "":
		return d.giveUp(s, l, &Attempt{}, event.Never)
	case !d.extended(l):
		return over
	}
	event.Paced = l.Owner
	a := &Attempt{Answer: s.Client.Post(d.ctx, &event.Request)}
	if d.ctx.Err() != nil { // the process ends: the event is sent again
		return over
	}
	return d.judge(s, l, event, a)
}

// version returns the version of a run that a line has to send.
func (d *Deliverer) version(l *line) (*ledger.Entry, error) {
	d.mu.Lock()
	e := d.lines.after(l.row.Run, l.row.Cursor)
	d.mu.Unlock()
	if e != nil {
		return e, nil
	}
	return d.runs.Get(d.ctx, l.row.Run)
}

// extended reports whether the delivery of a line is still claimed by it, and extends the claim if it is not fresh.
func (d *Deliverer) extended(l *line) bool {
	began := time.Now()
	if began.Sub(l.claimed) <= fresh {
		return true
	}
	ok, err := d.store.Extend(d.ctx, l.row, claimTime)
	l.claimed = began
	return ok && err == nil // after an error, the claim ends by itself
}

// judge evaluates a request.
func (d *Deliverer) judge(s *Sender, l *line, event *Event, a *Attempt) step {
	if a.Outcome == webhook.Delivered {
		s.attempted(l.fill(a, l.row.Tries+1))
		l.row.Tries = 0
		l.part++
		if event.More {
			return again
		}
		return d.told(l, event.Last)
	}
	l.row.Tries++
	if l.row.Tries > len(pauses) || a.Status == http.StatusGone {
		return d.giveUp(s, l, a, a.Problem)
	}
	pause := max(pauses[l.row.Tries-1], a.RetryAfter)
	if e := l.entry; e.State.Ended() && !e.Expires.IsZero() && time.Until(e.Expires) < pause {
		return d.giveUp(s, l, a, a.Problem+"; the run expires before the next request")
	}
	a.Retry = pause + rand.N(pause/10) //nolint:gosec // it spreads requests
	s.attempted(l.fill(a, l.row.Tries))
	return d.settle(l, a.Retry)
}

// fill adds to an attempt what it is about.
func (l *line) fill(a *Attempt, try int) *Attempt {
	if a.Host == "" {
		a.Host = l.row.Host
	}
	row := *l.row
	a.Delivery, a.Entry, a.Try = &row, l.entry, try
	return a
}

// told goes on after the last event of a version.
func (d *Deliverer) told(l *line, last bool) step {
	e := l.entry
	l.row.Cursor, l.entry = e.Version, nil
	if last || e.State.Ended() {
		d.write(func(ctx context.Context) error { return d.store.Done(ctx, l.row) }) // if it fails, the event is sent again
		return over
	}
	d.mu.Lock()
	more := d.lines.after(l.row.Run, l.row.Cursor) != nil
	d.mu.Unlock()
	if more {
		return again
	}
	return d.settle(l, Idle)
}

// giveUp ends the attempts to reach a receiver.
func (d *Deliverer) giveUp(s *Sender, l *line, a *Attempt, problem string) step {
	a.GivenUp, a.Problem = true, problem
	d.write(func(ctx context.Context) error { return d.store.Done(ctx, l.row) }) // if it fails, it is tried again
	s.attempted(l.fill(a, l.row.Tries))
	return over
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
		pause := time.NewTimer(writePause)
		select {
		case <-pause.C:
		case <-d.closing.Done():
			pause.Stop()
			return
		}
	}
}
