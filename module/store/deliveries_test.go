package store

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery/deliverytest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// TestDeliveries tests what a store of deliveries promises.
func TestDeliveries(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		deliverytest.Test(t, func(t *testing.T) (delivery.Store, deliverytest.Put) { //nolint:thelper // it is none
			if settings.Kind == Memory {
				settings.File = t.Name()
			}
			db := open(t, settings)
			exec := func(text string, args ...any) {
				if _, err := db.session(writing).exec(t.Context(), text, args...); err != nil {
					t.Fatal(err)
				}
			}
			exec("DELETE FROM runs")
			return db.Deliveries(), func(_ *testing.T, e *ledger.Entry) {
				exec("INSERT INTO runs VALUES ($1, $2, $3, NULL, $4, $5, $5, $5, $6, '', NULL, FALSE, NULL, NULL, 0, $7, {now}, {now}, {now}, 0) "+
					"ON CONFLICT (realm, owner, id) DO UPDATE SET state = excluded.state, version = excluded.version",
					[]byte(e.Owner.Realm), []byte(e.Owner.Principal), []byte(e.ID), e.Front, []byte{}, int64(e.State), e.Version)
			}
		})
	})
}
