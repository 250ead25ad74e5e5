package store

import (
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/storetest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// another opens a database for one more instance.
func another(t *testing.T, settings Settings) *Runs {
	t.Helper()
	r := open(t, settings).Runs()
	if _, err := r.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// age makes what stands in a database older.
func age(t *testing.T, db *DB, d time.Duration) {
	t.Helper()
	for _, text := range []string{
		"UPDATE runs SET created = created - $1, changed = changed - $1, expires = expires - $1", "UPDATE instances SET lease = lease - $1",
	} {
		exec(t, db, text, d.Milliseconds())
	}
}

// TestRuns tests what a store of the ledger promises.
func TestRuns(t *testing.T) {
	t.Parallel()
	for _, test := range storetest.Tests {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
				db := open(t, settings)
				test.Run(t, &storetest.Database{
					Open:      func(t *testing.T) ledger.Store { return another(t, settings) }, //nolint:thelper // it is none
					Later:     func(t *testing.T, d time.Duration) { age(t, db, d) },           //nolint:thelper // it is none
					Forgetful: settings.Kind == Memory,
				})
			})
		})
	}
}
