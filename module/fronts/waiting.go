package fronts

import (
	"context"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
)

// WaitingNotifications returns the ends of runs that callers were not told yet, of all databases of this process. The error is that of one which can't be read.
func WaitingNotifications(ctx context.Context) (*delivery.Waiting, error) {
	all, failed := &delivery.Waiting{Receivers: []delivery.Receiver{}}, error(nil)
	for kept := range ledgers.All() {
		of, err := kept.db.Deliveries().Waiting(ctx)
		if err != nil {
			failed = err
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
	return all, failed
}
