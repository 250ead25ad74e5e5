package callbacks

import (
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

const (
	// firstRead is the time from the beginning of a configuration to its first reading of the index, and nextRead the time between
	// two later ones. afterMiss is the time from a call-back that could not be queued to a reading.
	firstRead = 2 * time.Second
	nextRead  = 10 * time.Minute
	// afterMiss is longer if the last reading was slow, so that at most one part in lookShare of the time is spent with it.
	afterMiss = time.Minute
	lookShare = 20
	// between is the pause between two runs that are taken over, so that the requests to providers do not come all at once.
	between = 10 * time.Millisecond
)

// watch reads the index again and again until the Deliverer is closed.
func (d *Deliverer) watch() {
	var seen map[string]run.Version // the final records
	pause := afterMiss
	next := time.Now().Add(nextRead)
	for {
		timer := time.NewTimer(time.Until(next))
		select {
		case <-d.closing.Done():
			timer.Stop()
			return
		case <-d.kick:
			next = time.Now().Add(firstRead)
		case <-d.lines.misses:
			if at := time.Now().Add(pause); at.Before(next) {
				next = at
			}
		case <-timer.C:
			all, began := d.takeMissed(), time.Now()
			open, final, err := d.index.Read(d.closing, seen)
			if err == nil {
				seen = final
				d.look(d.closing, open, all)
			}
			pause = max(afterMiss, lookShare*time.Since(began))
			next = time.Now().Add(nextRead)
		}
		timer.Stop()
	}
}

// takeMissed reports whether a call-back could not be queued since the last time.
func (d *Deliverer) takeMissed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	missed := d.lines.missed && !d.configs.Empty()
	d.lines.missed = d.lines.missed && !missed
	return missed
}

// look takes over the call-backs of instances that have ended, and those of this instance that are not queued. With all, it includes
// the young ones.
func (d *Deliverer) look(ctx context.Context, open map[string][]webhook.Found, all bool) {
	d.store(-1)
	for instance, runs := range open {
		own := instance == d.index.Instance()
		d.index.Ended(ctx, instance, func() {
			for _, f := range runs {
				if ctx.Err() != nil {
					return
				}
				d.take(ctx, f, own, all)
			}
		})
	}
}

// store counts call-backs that are only in the storage; with a negative number, the count begins anew.
func (d *Deliverer) store(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lines.stored += n; n < 0 {
		d.lines.stored = 0
	}
}

// here reports whether a call-back is queued, or can't be: if its run has ended at this instance, and its owner has too many others.
func (d *Deliverer) here(owner, id string, own bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.lines.owners[owner]; own && s != nil && s.lines >= d.lines.mostOfOne && len(s.resting) == 0 {
		d.lines.miss()
		return true
	}
	return d.lines.all[lineKey{owner, id}] != nil
}

// take sends the call-back of a run that has ended, or follows the run.
func (d *Deliverer) take(ctx context.Context, f webhook.Found, own, all bool) {
	c := d.configs.Of(f.Owner)
	began, _ := run.TimeOfID(f.ID)
	switch age := time.Since(began); {
	case c == nil || d.here(f.Owner, f.ID, own):
		return
	case age >= keptruns.Lifetime:
		d.index.Drop(ctx, f)
		c.attempted(&Attempt{ID: f.ID, Caller: c.Caller(f.Owner).Principal, GivenUp: true, Answer: webhook.Answer{Problem: "the run has expired"}})
		return
	case time.Until(f.Next) > nextRead: // a later reading is early enough
		d.store(1)
		return
	case own && age < nextRead && !all: // it is being submitted, perhaps, or was just queued
		return
	}
	r, here, err := keptruns.Continue(ctx, d.runs, f.Owner, f.ID, c.Caller(f.Owner))
	switch {
	case errors.Is(err, run.ErrNoRecord) && (!own || time.Since(began) >= nextRead): // nothing was executed
		d.index.Drop(ctx, f)
		return
	case err != nil:
		return
	}
	if !own {
		d.index.Take(ctx, f)
	}
	switch {
	case !r.Ended.IsZero(), r.Ref.ExecutionID == "" && !own: // in the second case, its process ended while it submitted the call
		d.queue(r, f.Tries, f.Next)
	case here:
		pause := time.NewTimer(between)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}
