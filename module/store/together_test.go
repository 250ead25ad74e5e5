package store

import (
	"path/filepath"
	"testing"
)

// TestStartedTogether: bridges that start at the same time with a new file of SQLite all open it. SQLite itself does not wait for another one that
// makes the file.
func TestStartedTogether(t *testing.T) {
	for range 20 {
		settings := Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "bridge.db")}
		log, logs := observed()
		var all [8]*DB
		for i := range all {
			all[i] = New(settings)
			all[i].Start(log)
		}
		for _, db := range all {
			<-db.tried
			if status := db.Status(); !status.Open {
				t.Errorf("%+v", status)
			}
		}
		for _, db := range all {
			db.Close()
		}
		if t.Failed() {
			t.Fatal(logs.All())
		}
	}
}
