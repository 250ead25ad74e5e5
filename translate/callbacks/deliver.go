package callbacks

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// pauses are the times between the requests of a call-back, as Standard Webhooks recommends, within the lifetime of a kept run. A tenth
// at most is added, so that the requests to a receiver that was gone do not all come at once.
var pauses = [...]time.Duration{
	5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
}

const (
	// storageRetry is the time until the next attempt if a record or a key can't be read.
	storageRetry = 5 * time.Second
	// maxOutcome is the size of the largest outcome that a call-back has, in bytes. Otherwise the receiver asks for it.
	maxOutcome = 256 << 10
)

// result says what serve does with a line after a request.
type result struct {
	drop  bool          // the line is removed
	after time.Duration // the time until the next request
}

// deliver sends a call-back.
func (d *Deliverer) deliver(l *line) result {
	c := d.configs.Of(l.Owner)
	if c == nil { // no configuration sends call-backs
		d.miss()
		return result{drop: true}
	}
	if d.index.Served(d.ctx, l.Owner, l.id, 1) {
		return result{drop: true}
	}
	caller := c.Caller(l.Owner)
	r, here, err := keptruns.Continue(d.ctx, d.runs, l.Owner, l.id, caller)
	switch {
	case d.ctx.Err() != nil:
		return result{drop: true}
	case errors.Is(err, run.ErrNoRecord):
		d.giveUp(c, l, &Attempt{ID: l.id, Caller: caller.Principal, Try: l.tries, Answer: webhook.Answer{Host: l.Host, Problem: "the run has expired"}})
		return result{drop: true}
	case err != nil:
		return result{after: storageRetry}
	case r.Ended.IsZero() && (here || r.Ref.ExecutionID != ""): // it is queued again when it has ended
		return result{drop: true}
	}
	a := &Attempt{ID: l.id, Caller: caller.Principal, Skill: r.Skill, RunID: r.Ref.ExecutionID, Try: l.tries + 1, Answer: webhook.Answer{Host: l.Host}}
	secrets, err := c.secrets(d.ctx, r)
	switch {
	case errors.Is(err, runtoken.ErrInvalid): // the key that sealed the token has been removed
		a.Problem = "the token of its caller can't be decrypted any more"
		d.giveUp(c, l, a)
		return result{drop: true}
	case err != nil:
		return result{after: storageRetry}
	}
	body, err := d.body(c, r)
	if err != nil {
		return result{after: storageRetry}
	}
	if body == nil {
		a.Problem = "the access rules deny the skill to its caller"
		d.giveUp(c, l, a)
		return result{drop: true}
	}
	a.Answer = c.Post(d.ctx, &webhook.Request{URL: targetOf(r).URL, Paced: l.Owner, Header: header(r.ID, time.Now(), body, secrets), Body: body})
	if d.ctx.Err() != nil { // the process ends: the next one sends it again
		return result{drop: true}
	}
	l.tries++
	return d.judge(c, l, a)
}

// body returns what the call-back of a run says.
func (d *Deliverer) body(c *Callbacks, r *keptruns.Record) ([]byte, error) {
	o, err := keptruns.Outcome(d.ctx, d.runs, r, maxOutcome)
	switch {
	case err == nil:
		return c.Body(d.ctx, c.Caller(r.Owner), r, &o), nil
	case errors.Is(err, keptruns.ErrTooLarge), errors.Is(err, run.ErrNoRecord), errors.Is(err, run.ErrDamaged):
		return c.Body(d.ctx, c.Caller(r.Owner), r, nil), nil
	}
	return nil, err
}

// judge evaluates a request.
func (d *Deliverer) judge(c *Callbacks, l *line, a *Attempt) result {
	switch {
	case a.Outcome == webhook.Delivered:
		_ = d.index.Settle(context.WithoutCancel(d.ctx), l.Owner, l.id) // if it fails, the call-back is sent again later
		c.attempted(a)
		return result{drop: true}
	case l.tries > len(pauses) || a.Status == http.StatusGone:
		d.giveUp(c, l, a)
		return result{drop: true}
	}
	pause := max(pauses[l.tries-1], a.RetryAfter)                                                    // eight requests still fit into the lifetime of the run
	a.Retry = pause + rand.N(pause/10)                                                               //nolint:gosec // it spreads requests
	_ = d.index.Delay(context.WithoutCancel(d.ctx), l.Owner, l.id, l.tries, time.Now().Add(a.Retry)) // if it fails, the count may begin anew
	c.attempted(a)
	return result{after: a.Retry}
}

// giveUp ends the attempts to send a call-back.
func (d *Deliverer) giveUp(c *Callbacks, l *line, a *Attempt) {
	a.GivenUp = true
	_ = d.index.Settle(context.WithoutCancel(d.ctx), l.Owner, l.id) // if it fails, it is tried again later
	c.attempted(a)
}

func (c *Callbacks) attempted(a *Attempt) {
	if c.Attempted != nil {
		c.Attempted(a)
	}
}
