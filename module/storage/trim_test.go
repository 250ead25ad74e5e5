package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// roomy are bounds that nothing here exceeds.
var roomy = run.Bounds{IDs: 1000, IDsPerOwner: 1000, Bytes: 1 << 30}

// none spares nothing, as an instance that has nothing in memory.
func none(string) bool { return false }

func mustTrim(t *testing.T, s *Records, b run.Bounds, spare func(string) bool) {
	t.Helper()
	if err := s.Trim(t.Context(), b, spare); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, s *Records, owner, id string, event uint64, standing run.Standing, data string) {
	t.Helper()
	if err := s.Put(t.Context(), &run.Record{Owner: owner, ID: id, Event: event, At: time.Now(), Data: []byte(data), Standing: standing}); err != nil {
		t.Fatal(err)
	}
}

// standingsOf returns how many ids of an owner have each standing.
func standingsOf(t *testing.T, s *Records, owner string) (n [3]int) {
	t.Helper()
	for r, err := range s.List(t.Context(), owner, 10000, func(string, run.Version) bool { return true }) {
		if err != nil {
			t.Fatal(err)
		}
		n[r.Standing]++
	}
	return n
}

func TestRecordsAreTrimmed(t *testing.T) {
	s, dir := records(t)
	now := time.Now()
	count := func(owner string) (n int) {
		for range s.List(t.Context(), owner, 100, func(string, run.Version) bool { return true }) {
			n++
		}
		return n
	}
	id := func(n byte) string { return newID(t, now.Add(time.Duration(n)*time.Millisecond), n) }
	open := id(0)
	for event := range uint64(10) {
		mustPut(t, s, "ada", open, event+1)
	}
	for i := range byte(4) {
		putFinal(t, s, "ada", id(10*i+1), id(10*i+2), id(10*i+3))
	}
	putFinal(t, s, "bob", id(1), id(2))
	spare := func(id string) bool { return id == open }
	if err := s.Trim(t.Context(), run.Bounds{IDs: 100, IDsPerOwner: 100, Bytes: 1 << 20}, spare); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, recordsKey, "*", "*", open, "*")); len(files) != 2 || count("ada") != 13 {
		t.Errorf("%v, %d ids", files, count("ada"))
	}
	for _, c := range []struct {
		bounds   run.Bounds
		ada, bob int
	}{
		{run.Bounds{IDs: 100, IDsPerOwner: 8, Bytes: 1 << 20}, 10, 2}, // a batch is deleted as a whole
		{run.Bounds{IDs: 7, IDsPerOwner: 8, Bytes: 1 << 20}, 7, 2},
		{run.Bounds{IDs: 7, IDsPerOwner: 8, Bytes: 1}, 1, 0}, // what is open stays
	} {
		if err := s.Trim(t.Context(), c.bounds, spare); err != nil {
			t.Fatal(err)
		}
		if ada, bob := count("ada"), count("bob"); ada != c.ada || bob != c.bob {
			t.Errorf("%+v: %d and %d ids", c, ada, bob)
		}
	}
}

// What waits or goes on is not deleted by an instance that does not have it in memory: another one does, or will after a restart.
// Neither the owner's own ended runs nor those of strangers push it out, unless the owner has more than its share.
func TestOpenRunsAreKept(t *testing.T) {
	one, dir := records(t)
	now := time.Now().Add(-time.Hour)
	n := 0
	id := func() string { n++; return newID(t, now.Add(time.Duration(n)*time.Millisecond), byte(n)) }
	var waiting, running []string
	for range 5 {
		waiting, running = append(waiting, id()), append(running, id())
		put(t, one, "ada", waiting[len(waiting)-1], 1, run.Waiting, "{}")
		put(t, one, "ada", running[len(running)-1], 1, run.Running, "{}")
	}
	for _, owner := range []string{"ada", "eve", "mallory"} {
		for range 4 {
			putFinal(t, one, owner, id(), id(), id())
			put(t, one, owner, id(), 3, run.Final, `"`+strings.Repeat("x", 1000)+`"`)
		}
	}
	for range 30 { // of a stranger, in the memory of this instance
		put(t, one, "eve", id(), 1, run.Running, `"`+strings.Repeat("x", 1000)+`"`)
		put(t, one, "eve", id(), 1, run.Waiting, `"`+strings.Repeat("x", 1000)+`"`)
	}
	two := NewRecords(&certmagic.FileStorage{Path: dir}) // another instance, or this one after a restart
	for _, b := range []run.Bounds{roomy, {IDs: 60, IDsPerOwner: 30, Bytes: 1 << 30}, {IDs: 40, IDsPerOwner: 10, Bytes: 1 << 30}, {IDs: 15, IDsPerOwner: 10, Bytes: 1 << 30}} {
		mustTrim(t, two, b, none)
		for i := range waiting {
			for about, id := range map[string]string{"waits": waiting[i], "goes on": running[i]} {
				if _, err := one.Get(t.Context(), "ada", id); err != nil {
					t.Errorf("%+v: one that %s: %v", b, about, err)
				}
			}
		}
	}
	if ada, eve, mallory := standingsOf(t, one, "ada"), standingsOf(t, one, "eve"), standingsOf(t, one, "mallory"); ada != [3]int{5, 5, 0} || eve != [3]int{30, 5, 0} || mallory[run.Final] < 5 || mallory[run.Final] > 7 {
		t.Errorf("%v, %v and %v are left", ada, eve, mallory)
	}
	// Now those that wait are more than the shares of their owners.
	mustTrim(t, two, run.Bounds{IDs: 10, IDsPerOwner: 5, Bytes: 1 << 30}, none)
	ada, eve, mallory := standingsOf(t, one, "ada"), standingsOf(t, one, "eve"), standingsOf(t, one, "mallory")
	if n := ada[run.Waiting] + eve[run.Waiting] + mallory[run.Final]; n < 10 || n > 12 || ada[run.Waiting] < 3 || eve[run.Waiting] < 3 {
		t.Errorf("%v, %v and %v are left", ada, eve, mallory)
	}
}

// Owners who store much that waits or goes on push out nothing of an owner who has less than its share, and the rest is within
// the bounds.
func TestOwnersKeepTheirShare(t *testing.T) {
	s, dir := records(t)
	now, n := time.Now().Add(-time.Hour), 0
	id := func() string { n++; return newID(t, now.Add(time.Duration(n)*time.Millisecond), byte(n)) }
	spared := map[string]bool{}
	var first string
	for i := range 20 {
		putFinal(t, s, "bob", id())
		first = cmp.Or(first, id())
		put(t, s, "bob", first, 1, run.Waiting, "{}")
		for _, owner := range []string{"ada", "", "eve"} {
			for range 3 {
				put(t, s, owner, id(), 1, run.Waiting, `"`+strings.Repeat("x", 1000)+`"`)
			}
			open := id()
			put(t, s, owner, open, 1, run.Standing(i%2), `"`+strings.Repeat("x", 1000)+`"`)
			spared[open] = owner == "eve"
		}
	}
	for _, b := range []run.Bounds{{IDs: 1000, IDsPerOwner: 1000, Bytes: 150_000}, {IDs: 1000, IDsPerOwner: 1000, Bytes: 80_000}, {IDs: 90, IDsPerOwner: 50, Bytes: 80_000}} {
		mustTrim(t, s, b, func(id string) bool { return spared[id] })
		var size int64
		if err := filepath.WalkDir(filepath.Join(dir, recordsKey), func(_ string, d fs.DirEntry, err error) error {
			if info, failed := d.Info(); failed == nil && !d.IsDir() {
				size += info.Size()
			}
			return err
		}); err != nil || size > b.Bytes || size < b.Bytes/2 {
			t.Errorf("%+v: %d bytes are left, %v", b, size, err)
		}
		if bob := standingsOf(t, s, "bob"); bob != [3]int{0, 1, 20} {
			t.Errorf("%+v: %v of bob are left", b, bob)
		}
	}
}

// Runs that wait and are in memory stay, and do not count: so a stranger who keeps many in memory pushes out nothing.
func TestSparedRunsDoNotCount(t *testing.T) {
	s, _ := records(t)
	spared := map[string]bool{}
	for i := range byte(20) {
		id := newID(t, time.Now(), i)
		put(t, s, "eve", id, 1, run.Waiting, "{}")
		spared[id] = true
	}
	id := newID(t, time.Now().Add(-time.Hour), 100)
	put(t, s, "ada", id, 1, run.Waiting, "{}")
	mustTrim(t, s, run.Bounds{IDs: 5, IDsPerOwner: 5, Bytes: 1 << 30}, func(id string) bool { return spared[id] })
	if ada, eve := standingsOf(t, s, "ada"), standingsOf(t, s, "eve"); ada[run.Waiting] != 1 || eve[run.Waiting] != 20 {
		t.Errorf("%v and %v are left", ada, eve)
	}
}

// age makes the files of an id, or the batches if it is empty, look as if they were written some time ago.
func age(t *testing.T, dir, id string, by time.Duration) {
	t.Helper()
	pattern := filepath.Join(dir, recordsKey, "*", "*", id, "*")
	if id == "" {
		pattern = filepath.Join(dir, recordsKey, "*", "*", "*.batch")
	}
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.Chtimes(f, time.Time{}, time.Now().Add(-by)); err != nil {
			t.Fatal(err)
		}
	}
}

// What was written too long ago is deleted, with its name. The newest file of an id decides.
func TestOldRecordsAreDeleted(t *testing.T) {
	s, dir := records(t)
	now := time.Now()
	day := 24 * time.Hour
	old, changed, young, open := newID(t, now.Add(-5*day), 1), newID(t, now.Add(-4*day), 2), newID(t, now, 3), newID(t, now.Add(-3*day), 4)
	waiting, running := newID(t, now, 5), newID(t, now, 6)
	for _, id := range []string{old, changed, young, open} {
		mustPut(t, s, "ada", id, 1)
		if err := s.Name(t.Context(), "ada", "name of "+id, id); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "bob", waiting, 1, run.Waiting, "{}")
	put(t, s, "bob", running, 1, run.Running, "{}")
	putFinal(t, s, "eve", newID(t, now, 7), newID(t, now, 8))
	for _, id := range []string{old, changed, open, waiting, running, ""} {
		age(t, dir, id, 25*time.Hour)
	}
	mustPut(t, s, "ada", changed, 2)
	b := roomy
	b.Before = now.Add(-day)
	mustTrim(t, s, b, func(id string) bool { return id == open })
	for id, want := range map[string]error{old: run.ErrNoRecord, changed: nil, young: nil, open: nil} {
		if _, err := s.Get(t.Context(), "ada", id); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
		if _, err := s.Named(t.Context(), "ada", "name of "+id); !errors.Is(err, want) {
			t.Errorf("name of %s: %v, want %v", id, err, want)
		}
	}
	for _, owner := range []string{"bob", "eve"} {
		if left := standingsOf(t, s, owner); left != [3]int{} {
			t.Errorf("%v of %s are left", left, owner)
		}
	}
	empty := NewRecords(&certmagic.FileStorage{Path: t.TempDir()})
	if err := empty.Trim(t.Context(), b, none); err != nil {
		t.Errorf("an empty storage: %v", err)
	}
}

// What the bridge itself notes about an open task, as an owner of its own, is neither too much nor too old while the task is there.
func TestNotesLiveAsLongAsTheirTasks(t *testing.T) {
	s, dir := records(t)
	now := time.Now()
	var ids []string
	for i := range byte(20) {
		ids = append(ids, newID(t, now, i))
		put(t, s, "\x00notes", ids[i], 1, run.Running, "{}")
		age(t, dir, ids[i], 25*time.Hour)
		if i < 10 {
			put(t, s, "ada", ids[i], 2, run.Waiting, "{}")
		}
	}
	mustTrim(t, s, run.Bounds{IDs: 10, IDsPerOwner: 10, Bytes: 1 << 20, Before: now.Add(-24 * time.Hour)}, none)
	if ada, notes := standingsOf(t, s, "ada"), standingsOf(t, s, "\x00notes"); ada[run.Waiting] != 10 || notes[run.Running] != 10 {
		t.Errorf("%v and %v are left", ada, notes)
	}
	for i, id := range ids {
		if _, err := s.Get(t.Context(), "\x00notes", id); (err == nil) != (i < 10) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// No empty folders are left behind, of days or of owners, and no files that a crash has left.
func TestEmptyFoldersAreDeleted(t *testing.T) {
	s, dir := records(t)
	now := time.Now()
	old := newID(t, now.Add(-72*time.Hour), 1)
	mustPut(t, s, "ada", old, 1)
	if err := s.Name(t.Context(), "ada", "n", old); err != nil {
		t.Fatal(err)
	}
	age(t, dir, old, 48*time.Hour)
	left := filepath.Join(dir, ownerKey("ada"), now.Add(-72*time.Hour).UTC().Format(dayLayout), "123456")
	if err := os.WriteFile(left, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := roomy
	b.Before = now.Add(-24 * time.Hour)
	mustTrim(t, s, b, none)
	mustTrim(t, s, b, none) // finds an empty folder
	if days, err := os.ReadDir(filepath.Join(dir, ownerKey("ada"))); err != nil || len(days) != 1 || days[0].Name() != namesKey {
		t.Errorf("%v, %v", days, err)
	}
	folder := filepath.Join(dir, ownerKey("ada"))
	if err := os.Chtimes(folder, time.Time{}, now.Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	mustTrim(t, s, b, none)
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of an owner without records: %v", err)
	}
}

// An owner has no more names than ids, and none whose record is gone. Those of open runs stay.
func TestNamesAreBounded(t *testing.T) {
	s, dir := records(t)
	now := time.Now().Add(-time.Minute)
	name := func(id, name string) {
		t.Helper()
		if err := s.Name(t.Context(), "", name, id); err != nil {
			t.Fatal(err)
		}
	}
	var open []string
	for i := range byte(100) { // the oldest are open
		id, standing := newID(t, now.Add(time.Duration(i)*time.Millisecond), i), run.Final
		if i < 4 {
			standing = run.Standing(i % 2)
			open = append(open, id)
		}
		put(t, s, "", id, 1, standing, "{}")
		name(id, "name of "+id)
		name(id, "another of "+id)
	}
	for i := range 20 { // of what was never stored
		name(newID(t, now, 200), fmt.Sprint(i))
	}
	files := func() int {
		names, err := filepath.Glob(filepath.Join(dir, ownerKey(""), namesKey, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	for _, c := range []struct{ perOwner, names int }{{1000, 200}, {150, 150}, {10, 10}, {1, 8}} {
		mustTrim(t, s, run.Bounds{IDs: 1000, IDsPerOwner: c.perOwner, Bytes: 1 << 30}, func(id string) bool { return slices.Contains(open, id) })
		if n := files(); n != c.names {
			t.Errorf("%d names within %d ids, want %d", n, c.perOwner, c.names)
		}
	}
	for _, id := range open {
		if got, err := s.Named(t.Context(), "", "name of "+id); got != id || err != nil {
			t.Errorf("the name of an open run: %s, %v", got, err)
		}
	}
}

// The same through tasks of A2A 0.1 that a caller sends without end.
func TestNamesOfTasksAreBounded(t *testing.T) {
	st, dir := records(t)
	s := tasks.New(tasks.Config{Store: st, Most: 400, MostPerOwner: 100, Flush: 10 * time.Millisecond})
	for i := range 1000 {
		made := &task.Task{ID: s.NewID(), Name: fmt.Sprint("task number ", i)}
		made.SetStatus(task.Submitted, nil, time.Now())
		if err := s.Add(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Change(t.Context(), "", made.ID, func(c *task.Task) error { c.SetStatus(task.Completed, nil, time.Now()); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	s.Close(t.Context())
	mustTrim(t, st, run.Bounds{IDs: 400, IDsPerOwner: 100, Bytes: 1 << 30}, none)
	for folder, pattern := range map[string]string{"names": namesKey + "/*", "tasks": "2*/*"} {
		if files, err := filepath.Glob(filepath.Join(dir, ownerKey(""), filepath.FromSlash(pattern))); err != nil || len(files) > 100 {
			t.Errorf("%d %s, %v", len(files), folder, err)
		}
	}
	if id, err := st.Named(t.Context(), "", "task number 999"); err != nil {
		t.Errorf("the name of the newest: %s, %v", id, err)
	}
}

// ownerKey is the storage key of the tasks of an owner.
func ownerKey(owner string) string { return NewRecords(nil).ownerKey(owner) }
