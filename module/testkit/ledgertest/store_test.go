package ledgertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/storetest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// The store behaves as those of databases do.
func TestStore(t *testing.T) {
	for _, test := range storetest.Tests {
		t.Run(test.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := ledgertest.New()
				test.Run(t, &storetest.Database{
					Open:  func(*testing.T) ledger.Store { return db.Instance(true) },
					Later: func(_ *testing.T, d time.Duration) { time.Sleep(d) },
				})
			})
		})
	}
}
