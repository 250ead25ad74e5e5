//nolint:thelper // the functions that databases calls are tests
package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestThings(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		ctx, things := t.Context(), open(t, settings).Things()
		const name = "a\x00\xff"
		if thing, err := things.Get(ctx, "key", name); err != nil || thing.Version != 0 {
			t.Fatalf("an empty database has a thing: %v", err)
		}
		put := func(thing Thing, keep time.Duration, want bool) Thing {
			t.Helper()
			if ok, err := things.Put(ctx, &thing, keep); ok != want || err != nil {
				t.Fatalf("Put(%+v) = %t, %v", thing, ok, err)
			}
			return thing
		}
		first := put(Thing{Kind: "key", Name: name, Value: []byte("1\x00\xff")}, 0, true)
		put(Thing{Kind: "key", Name: name, Value: []byte("lost")}, 0, false)
		if got, err := things.Get(ctx, "key", name); err != nil || string(got.Value) != "1\x00\xff" || got.Version != 1 || !got.Expires.IsZero() {
			t.Fatalf("Get = %+v, %v", got, err)
		}
		second := first
		second.Value = nil
		second = put(second, time.Hour, true)
		put(first, 0, false)
		got, err := things.Get(ctx, "key", name)
		if err != nil || got.Version != 2 || len(got.Value) != 0 || !got.Expires.Equal(second.Expires) || time.Until(got.Expires).Round(time.Minute) != time.Hour {
			t.Fatalf("Get = %+v, %v", got, err)
		}
		if err := things.Delete(ctx, "key", name); err != nil {
			t.Fatal(err)
		}
		put(second, 0, false)
		put(Thing{Kind: "key", Name: name}, 0, true)
	})
}

func TestNamesOfThings(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		ctx, things := t.Context(), open(t, settings).Things()
		for n, name := range []string{"a/1", "b/", "b/1", "b/2", "b/3", "c"} {
			if ok, err := things.Put(ctx, &Thing{Kind: "word", Name: name, Value: make([]byte, n)}, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if ok, err := things.Put(ctx, &Thing{Kind: "other", Name: "b/x"}, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		for most, want := range map[int]map[string]int64{10: {"b/": 1, "b/1": 2, "b/2": 3, "b/3": 4}, 2: {"b/": 1, "b/1": 2}} {
			if names, err := things.Names(ctx, "word", "b/", most); err != nil || !maps.Equal(names, want) {
				t.Errorf("%d: %v, %v", most, names, err)
			}
		}
	})
}

func TestLargeThing(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		ctx, db := t.Context(), open(t, settings)
		thing := &Thing{Kind: "timings", Name: "n", Value: make([]byte, MaxValue)}
		if ok, err := db.Things().Put(ctx, thing, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if got, err := db.Things().Get(ctx, "timings", "n"); err != nil || len(got.Value) != MaxValue {
			t.Error(err)
		}
		thing.Value = make([]byte, MaxValue+1)
		if ok, err := db.Things().Put(ctx, thing, 0); ok || err == nil {
			t.Error("a larger value was stored")
		}
	})
}

func TestExpiredThings(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		ctx, db := t.Context(), open(t, settings)
		things := db.Things()
		secret := bytes.Repeat([]byte("the-secret-of-a-user "), 500) // more than a page
		for _, name := range []string{"kept", "expires", "replaced"} {
			if ok, err := things.Put(ctx, &Thing{Kind: "grant", Name: name, Value: secret}, map[bool]time.Duration{true: time.Hour}[name != "kept"]); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if n, err := things.Expire(ctx, 10); n != 0 || err != nil {
			t.Fatalf("Expire = %d, %v", n, err)
		}
		exec(t, db, "UPDATE things SET expires = {now} WHERE expires IS NOT NULL")
		if thing, err := things.Get(ctx, "grant", "expires"); err != nil || thing.Version != 0 {
			t.Errorf("Get of an expired thing: %v", err)
		}
		if names, err := things.Names(ctx, "grant", "", 10); len(names) != 1 || err != nil {
			t.Errorf("Names = %v, %v", names, err)
		}
		if ok, err := things.Put(ctx, &Thing{Kind: "grant", Name: "expires", Version: 1}, 0); ok || err != nil {
			t.Errorf("an expired thing was changed: %t, %v", ok, err)
		}
		if ok, err := things.Put(ctx, &Thing{Kind: "grant", Name: "replaced", Value: secret}, time.Hour); !ok || err != nil {
			t.Errorf("an expired thing was not replaced: %t, %v", ok, err)
		}
		for _, want := range []int{1, 0} {
			if n, err := things.Expire(ctx, 10); n != want || err != nil {
				t.Fatalf("Expire = %d, %v", n, err)
			}
		}
		if n := scalar[int](t, db, reading, "SELECT count(*) FROM things"); n != 2 {
			t.Errorf("%d things", n)
		}
	})
}

// What was deleted can't be read in the files of SQLite.
func TestExpiredBytes(t *testing.T) {
	folder := t.TempDir()
	db := open(t, Settings{Kind: SQLite, File: filepath.Join(folder, "s.db")})
	contains := func(text string) (found bool) {
		for _, file := range []string{"s.db", "s.db-wal"} {
			content, err := os.ReadFile(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(content, []byte(text))
		}
		return found
	}
	for i := range 50 {
		thing := &Thing{Kind: "grant", Name: fmt.Sprint(i), Value: bytes.Repeat([]byte("secret of a user "), 1+40*i)}
		if ok, err := db.Things().Put(t.Context(), thing, time.Hour); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if !contains("secret of a user") {
		t.Fatal("the files don't contain what was stored")
	}
	size := scalar[int](t, db, reading, "PRAGMA page_count")
	exec(t, db, "UPDATE things SET expires = {now}")
	if err := db.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if contains("secret of a user") {
		t.Error("the files contain what has expired")
	}
	if ok, err := db.Things().Put(t.Context(), &Thing{Kind: "grant", Name: "withdrawn", Value: []byte("secret that is withdrawn")}, time.Hour); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := errors.Join(db.Things().Delete(t.Context(), "grant", "withdrawn"), db.sweep(t.Context())); err != nil {
		t.Fatal(err)
	}
	if contains("secret that is withdrawn") {
		t.Error("the files contain what was deleted, as the ledger deletes runs")
	}
	if now := scalar[int](t, db, reading, "PRAGMA page_count"); now > size/2 {
		t.Errorf("%d pages of %d are left", now, size)
	}
}
