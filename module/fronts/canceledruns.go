package fronts

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/storage"
	"github.com/skill-bridge/caddy-skill-bridge/translate/recent"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// CanceledRuns returns the runs that callers have canceled, for all mounts of a handler whose principals have a realm, and whose run tokens are valid
// for a time.
func CanceledRuns(ctx caddy.Context, lifetime time.Duration, realm func() string) *recent.Canceled {
	canceled := &recent.Canceled{Lifetime: lifetime}
	if kept := storage.Of(ctx); kept != nil {
		canceled.Store = &canceledRuns{storage.NewCanceledRuns(kept, lifetime), realm, observe.NewWarnings(ctx.Logger(), 2)}
	}
	return canceled
}

// canceledRuns are the runs in the storage that were canceled.
type canceledRuns struct {
	stored   *storage.CanceledRuns
	realm    func() string
	warnings *observe.Warnings
}

var _ recent.CanceledStore = (*canceledRuns)(nil)

// owner returns the owner of the runs of a principal: the same name may be another principal at another handler.
func (c *canceledRuns) owner(principal string) string { return c.realm() + "\n" + principal }

// Add implements [recent.CanceledStore].
func (c *canceledRuns) Add(ctx context.Context, principal string, ref *run.Ref) *run.Limit {
	limit, err := c.stored.Add(context.WithoutCancel(ctx), c.owner(principal), ref)
	if err != nil {
		c.warnings.Warn("a canceled run can't be stored: other instances do not know that it was canceled, nor does this one after a reload", err)
	}
	return limit
}

// Has implements [recent.CanceledStore].
func (c *canceledRuns) Has(ctx context.Context, principal string, ref *run.Ref) bool {
	has, err := c.stored.Has(ctx, c.owner(principal), ref)
	if err != nil && ctx.Err() == nil {
		c.warnings.Warn("it can't be read whether runs were canceled", err)
	}
	return has
}
