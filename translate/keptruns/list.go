package keptruns

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Query selects records of an owner.
type Query struct {
	Owner string
	// Before is the id of the record after which the page begins, since the newest ones are first; empty: with the newest.
	Before string
	// Limit is how many records the page has at most.
	Limit int
	// Match reports whether a record is wanted.
	Match func(*Record) bool
}

// mostRead bounds the records that are read for a page.
const mostRead = 1000

// List returns records of an owner, the newest first, and the Before of the next page; empty: there is none. A page can have fewer
// records than its limit although there is a next one. Submissions that were not executed have no records here.
func (r *Runs) List(ctx context.Context, q *Query) (page []*Record, next string, err error) {
	unlock, err := r.locks.lock(ctx, q.Owner+"\x00list") // it lists many files: one at a time for each owner
	if err != nil {
		return nil, "", err
	}
	defer unlock()
	oldest := r.config.Now().Add(-Lifetime)
	read, last := 0, ""
	for from, err := range r.config.Store.List(ctx, q.Owner, math.MaxInt, func(id string, _ run.Version) bool {
		began, _ := run.TimeOfID(id)
		return (q.Before == "" || id < q.Before) && began.After(oldest)
	}) {
		if errors.Is(err, run.ErrDamaged) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if len(page) == q.Limit || read == mostRead {
			return page, last, nil
		}
		read, last = read+1, from.ID
		record, err := r.newest(from, q.Owner)
		if err != nil {
			continue
		}
		if !record.free && q.Match(record) {
			page = append(page, record)
		}
	}
	return page, "", nil
}

// newest returns a stored record, or a newer one that this process knows.
func (r *Runs) newest(from *run.Record, owner string) (*Record, error) {
	r.mu.Lock()
	f := r.followed[claim{owner, from.ID}]
	r.mu.Unlock()
	if f != nil {
		return f.current(), nil
	}
	from.Owner = owner
	return decode(from)
}

// Status is the status of a kept run, for its caller.
type Status string

// The statuses.
const (
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCanceled  Status = "canceled"
	// StatusUnknown is that of a submission without a usable answer, or without an answer yet, and of a run whose end can't be learned.
	StatusUnknown Status = "unknown"
)

// Statuses are all statuses.
func Statuses() []string {
	return []string{string(StatusRunning), string(StatusCompleted), string(StatusFailed), string(StatusCanceled), string(StatusUnknown)}
}

// Status returns the status of the run.
func (r *Record) Status() Status {
	switch r.State {
	case run.Accepted, run.Working:
		return StatusRunning
	case run.Completed:
		return StatusCompleted
	case run.Failed, run.TimedOut:
		return StatusFailed
	case run.Canceled:
		return StatusCanceled
	}
	return StatusUnknown
}

// Took returns how long the run went on, as far as the bridge knows; 0: it has not ended.
func (r *Record) Took() time.Duration {
	if r.Ended.IsZero() {
		return 0
	}
	return max(r.Ended.Sub(r.Began()), 0)
}
