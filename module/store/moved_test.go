package store

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
)

// TestReplacedFile tests that nothing is written to a file that was removed or replaced while it is open: another process would not see it, and could
// execute the same call.
func TestReplacedFile(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, settings Settings){
		"removed": func(*testing.T, Settings) {},
		"replaced": func(t *testing.T, settings Settings) { //nolint:thelper // it is none
			if err := begin(t, settings, zap.NewNop()).Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			settings := Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "s.db")}
			log, logs := observed()
			db := begin(t, settings, log)
			put := func() error {
				_, err := db.Things().Put(t.Context(), &Thing{Kind: "word", Name: name}, 0)
				return err
			}
			if err := put(); err != nil {
				t.Fatal(err)
			}
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(settings.File + suffix); err != nil {
					t.Fatal(err)
				}
			}
			replace(t, settings)
			for range 2 {
				db.dialect.(*sqlite).checkPlace(db)
				wantUnavailable(t, put(), settings.File, "start Caddy")
				wantUnavailable(t, db.Ready(t.Context()), settings.File, "start Caddy")
			}
			if db.Status().Trouble == nil || logs.FilterMessage("the database can't be used").Len() != 1 {
				t.Errorf("status %+v, log %v", db.Status(), logs.All())
			}
		})
	}
}
