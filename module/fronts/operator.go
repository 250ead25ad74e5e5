package fronts

import (
	"context"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// WaitingNotifications returns what webhooks of callers were not told yet, of all databases of this process.
func WaitingNotifications(ctx context.Context) (all *delivery.Waiting, unread []Unread) {
	all = &delivery.Waiting{Receivers: []delivery.Receiver{}}
	for kept := range ledgers.All() {
		of, err := kept.db.Deliveries().Waiting(ctx)
		if err != nil {
			unread = append(unread, Unread{kept.db, err})
			continue
		}
		all.Waiting += of.Waiting
		if all.Oldest.IsZero() || !of.Oldest.IsZero() && of.Oldest.Before(all.Oldest) {
			all.Oldest = of.Oldest
		}
		all.Receivers = append(all.Receivers, of.Receivers...)
	}
	slices.SortStableFunc(all.Receivers, func(a, b delivery.Receiver) int {
		if a.Waiting != b.Waiting {
			return b.Waiting - a.Waiting
		}
		return strings.Compare(a.Host, b.Host)
	})
	all.Receivers = all.Receivers[:min(len(all.Receivers), delivery.MaxReceivers)]
	return all, unread
}

// Unread is a database that can't be read.
type Unread struct {
	DB  *store.DB
	Err error
}

// Runs returns the runs of all owners in all databases of this process, the newest first, and the Before of the following page; empty: there is none.
func Runs(ctx context.Context, q *ledger.Query) (page []*ledger.Entry, next string, unread []Unread) {
	for kept := range ledgers.All() {
		of, after, err := kept.List(ctx, q, nil)
		if err != nil {
			unread = append(unread, Unread{kept.db, err})
		}
		page, next = append(page, of...), max(next, after)
	}
	// What comes after the end of one database's page is of the following page, also if it is in another database.
	page = slices.DeleteFunc(page, func(e *ledger.Entry) bool { return e.ID < next })
	slices.SortFunc(page, func(a, b *ledger.Entry) int { return strings.Compare(b.ID, a.ID) })
	if len(page) > q.Limit {
		page = page[:q.Limit]
		next = page[q.Limit-1].ID
	}
	return page, next, unread
}

// BridgeNames returns the names of the handlers that keep runs, by their realms.
func BridgeNames() map[string]string {
	names := map[string]string{}
	for kept := range ledgers.All() {
		kept.mu.Lock()
		for f := range kept.settings {
			names[f.realm] = f.name
		}
		kept.mu.Unlock()
	}
	return names
}

// Receivers returns what the events of a run are delivered to, as far as the databases can be read.
func Receivers(ctx context.Context, run ledger.Identity) (all []*delivery.Delivery) {
	for kept := range ledgers.All() {
		of, _ := kept.db.Deliveries().Of(ctx, run) // the answer about the run says which can't be read
		all = append(all, of...)
	}
	return all
}
