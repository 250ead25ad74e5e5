package fronts

import (
	"context"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/module/store/marks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// CanceledRuns returns the runs that callers have canceled, for all mounts of a handler whose principals have a realm, and whose run tokens are valid
// for a time. Without a database they are only in memory.
func CanceledRuns(ctx caddy.Context, db *store.DB, valid time.Duration, realm string) *runtoken.Canceled {
	if db == nil {
		return new(runtoken.Canceled)
	}
	return &runtoken.Canceled{Store: &canceledRuns{db.Marks(), valid, realm, observe.NewWarnings(ctx.Logger(), 2)}}
}

// cancelTimeout bounds how long a call waits until a canceled run is stored. After that, it is stored later.
const cancelTimeout = 2 * time.Second

// canceledRuns are the runs without entries in the ledger that were canceled: marks in the database.
type canceledRuns struct {
	marks    *marks.Marks
	valid    time.Duration
	realm    string
	warnings *observe.Warnings
}

var _ runtoken.CanceledStore = (*canceledRuns)(nil)

// names returns the names of a principal and of a run. The same principal may be another caller at another handler, and a provider may use an execution
// id again, for another run.
func (c *canceledRuns) names(principal string, ref *run.Ref) (owner, name string) {
	accepted := strconv.FormatInt(ref.Accepted.UnixMilli(), 10)
	return lifetime.NewDigest(c.realm, principal).String(), lifetime.NewDigest(ref.Source, ref.SkillID, accepted, ref.ExecutionID).String()
}

// Add implements [runtoken.CanceledStore].
func (c *canceledRuns) Add(ctx context.Context, principal string, ref *run.Ref) *run.Limit {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	owner, name := c.names(principal, ref)
	full, err := c.marks.Add(ctx, owner, name, c.valid)
	if err != nil {
		c.warnings.Warn("a canceled run can't be stored yet: until the database can be used, other instances do not know that it was canceled, nor does this one after a restart", err)
	}
	if full > 0 {
		return &run.Limit{Name: "canceled runs", Max: int64(full)}
	}
	return nil
}

// When implements [runtoken.CanceledStore].
func (c *canceledRuns) When(ctx context.Context, principal string, ref *run.Ref) time.Time {
	owner, name := c.names(principal, ref)
	until := c.marks.Until(ctx, owner, name)
	if until.IsZero() {
		return until
	}
	return until.Add(-c.valid)
}
