package sources

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
)

// newThings returns those of an empty database.
func newThings(t *testing.T, settings store.Settings) store.Things {
	t.Helper()
	db := store.New(settings)
	t.Cleanup(db.Close)
	db.Start(zap.NewNop())
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db.Things()
}

// TestDescriptors: records are those of their skill and source, for all instances, and are found after a restart.
func TestDescriptors(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testDescriptors(t, inFile(t)) })
	t.Run("postgres", func(t *testing.T) {
		testDescriptors(t, store.Settings{Kind: store.Postgres, DSN: postgrestest.Start(t)})
	})
}

// TestR248DescriptorsWhileDatabaseHangs: a call whose time is over does not wait until the database has answered another one.
func TestR248DescriptorsWhileDatabaseHangs(t *testing.T) {
	db := store.New(store.Settings{Kind: store.Memory}) // statements wait until it is started
	t.Cleanup(db.Close)
	d := newDescriptors(db.Things(), "acme")
	put := func(ctx context.Context) error {
		_, err := d.Put(ctx, changes.InUse, d.Name("a"), &changes.Record{SkillID: "a"})
		return err
	}
	slow, end := context.WithCancel(t.Context())
	begun := make(chan error)
	go func() { begun <- nil; begun <- put(slow) }()
	<-begun
	for began := time.Now(); time.Since(began) < 100*time.Millisecond && d.mu.TryLock(); d.mu.Unlock() { // until it has begun
		runtime.Gosched()
	}
	brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := put(brief); err == nil || time.Since(began) > 2*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	end()
	<-begun
}

// R257: descriptors that are stored at the same time, at first, are all counted.
func TestR257DescriptorsAtOnce(t *testing.T) {
	d := newDescriptors(newThings(t, store.Settings{Kind: store.Memory, File: t.Name()}), "acme")
	const most = 100
	var all sync.WaitGroup
	for i := range most {
		all.Go(func() {
			if stored, err := d.Put(t.Context(), changes.InUse, d.Name(fmt.Sprint(i)), &changes.Record{}); !stored || err != nil {
				t.Error(stored, err)
			}
		})
	}
	if all.Wait(); d.count != most {
		t.Errorf("%d are counted, and not %d", d.count, most)
	}
}

// inFile are the settings of an empty database.
func inFile(t *testing.T) store.Settings {
	t.Helper()
	return store.Settings{Kind: store.SQLite, File: filepath.Join(t.TempDir(), "skill_bridge.db")}
}

func testDescriptors(t *testing.T, settings store.Settings) {
	t.Helper()
	things := newThings(t, settings)
	one, other, foreign := newDescriptors(things, "acme"), newDescriptors(things, "acme"), newDescriptors(things, "bank")
	ctx := t.Context()
	record := &changes.Record{
		SkillID: "acme/../a", At: time.Now().UTC().Truncate(0), Digests: []string{"d"}, Document: jsontext.Value(`{"id":"acme/../a"}`), URL: "https://acme.example", Way: []string{"https://a.example"},
	}
	if r, err := one.Get(ctx, changes.InUse, one.Name(record.SkillID)); r != nil || err != nil {
		t.Errorf("%v %v", r, err)
	}
	must := func(stored bool, err error) {
		t.Helper()
		if !stored || err != nil {
			t.Fatal(stored, err)
		}
	}
	must(one.Put(ctx, changes.InUse, one.Name(record.SkillID), record))
	must(one.Put(ctx, changes.OnHold, one.Name(record.SkillID), record))
	must(one.Put(ctx, changes.OnHold, one.Name(""), record))
	if stored, err := other.Put(ctx, changes.InUse, other.Name(record.SkillID), record); stored || err != nil {
		t.Errorf("a second first one: %t, %v", stored, err)
	}
	want := *record
	want.Version = 1
	for _, get := range []func() (*changes.Record, error){
		func() (*changes.Record, error) { return other.Get(ctx, changes.InUse, other.Name(record.SkillID)) },
		func() (*changes.Record, error) { return other.Get(ctx, changes.OnHold, other.Name(record.SkillID)) },
		func() (*changes.Record, error) { return other.Get(ctx, changes.OnHold, other.Name("")) },
	} {
		if r, err := get(); err != nil || !reflect.DeepEqual(r, &want) {
			t.Errorf("%v %+v", err, r)
		}
	}
	if names, err := other.Names(ctx, changes.InUse); err != nil || len(names) != 1 {
		t.Errorf("%v %q", err, names)
	} else if r, err := other.Get(ctx, changes.InUse, names[0]); err != nil || !reflect.DeepEqual(r, &want) {
		t.Errorf("%v %+v", err, r)
	} else if r, err := other.Get(ctx, changes.InUse, names[0]+"0"); err != nil || r != nil {
		t.Errorf("%v %+v", err, r)
	}
	if names, err := foreign.Names(ctx, changes.InUse); err != nil || len(names) > 0 {
		t.Errorf("%v %q", err, names)
	}
	if r, err := foreign.Get(ctx, changes.InUse, foreign.Name(record.SkillID)); r != nil || err != nil {
		t.Errorf("%v %v", r, err)
	}
	if names, err := other.Names(ctx, changes.OnHold); err != nil || len(names) != 2 || !slices.Contains(names, other.Name(record.SkillID)) {
		t.Errorf("%v %q", err, names)
	} else if r, err := other.Get(ctx, changes.OnHold, names[0]); err != nil || !reflect.DeepEqual(r, &want) {
		t.Errorf("%v %+v", err, r)
	}
	if err := errors.Join(other.Drop(ctx, other.Name("")), other.Drop(ctx, other.Name("")), other.Drop(ctx, other.Name(record.SkillID))); err != nil {
		t.Error(err)
	}
	if names, err := one.Names(ctx, changes.OnHold); err != nil || len(names) > 0 {
		t.Errorf("%v %q", err, names)
	} else if r, err := one.Get(ctx, changes.OnHold, one.Name(record.SkillID)); err != nil || r != nil {
		t.Errorf("%v %+v", err, r)
	}
	must(one.Own(ctx, "acme.a", changes.Owners{IDs: []string{"acme/a"}}))
	o, err := other.Owners(ctx, "acme.a")
	if err != nil || !slices.Equal(o.IDs, []string{"acme/a"}) || o.Version != 1 {
		t.Errorf("%+v %v", o, err)
	}
	must(other.Own(ctx, "acme.a", o))
	if stored, err := one.Own(ctx, "acme.a", o); stored || err != nil {
		t.Errorf("%t, %v", stored, err)
	}
	damaged := &store.Thing{Kind: string(changes.InUse), Name: one.Name(record.SkillID), Value: []byte("{"), Version: 1}
	must(things.Put(ctx, damaged, 0))
	if _, err := one.Get(ctx, changes.InUse, one.Name(record.SkillID)); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
}

// TestDescriptorsAreBounded: a source with ever new skills does not fill the database, also after a restart, and its known ones can be replaced.
func TestDescriptorsAreBounded(t *testing.T) {
	things := newThings(t, inFile(t))
	d := newDescriptors(things, "acme")
	large := &changes.Record{Digests: []string{"d"}, Document: jsontext.Value(`"` + strings.Repeat("x", maxDescriptorBytes/4) + `"`)}
	stored := 0
	for n := range 5 {
		if ok, err := d.Put(t.Context(), changes.InUse, d.Name(fmt.Sprint(n)), large); ok && err == nil {
			stored++
		}
	}
	restarted := newDescriptors(things, "acme")
	if _, err := restarted.Put(t.Context(), changes.InUse, restarted.Name("9"), large); stored != 3 || err == nil || !strings.Contains(err.Error(), "too many skills") {
		t.Errorf("%d of a quarter of the bytes, then %v", stored, err)
	}
	known, err := restarted.Get(t.Context(), changes.InUse, restarted.Name("0"))
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := restarted.Put(t.Context(), changes.InUse, restarted.Name("0"), known); !ok || err != nil {
		t.Error(ok, err)
	}
	restarted.count = maxDescriptors
	if _, err := restarted.Put(t.Context(), changes.InUse, restarted.Name("9"), &changes.Record{}); err == nil {
		t.Error("too many things")
	}
}
