package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// counted counts the operations of a storage.
type counted struct {
	certmagic.Storage
	mu     sync.Mutex
	cost   cost
	vanish int // how many further listings fail since a file has disappeared
}

// cost is what reading has cost.
type cost struct{ lists, names, exists, stats, loads, bytes int }

func (c *counted) List(ctx context.Context, folder string, recursive bool) ([]string, error) {
	names, err := c.Storage.List(ctx, folder, recursive)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cost.lists++
	c.cost.names += len(names)
	if c.vanish > 0 {
		c.vanish--
		return names[:len(names)/2], &fs.PathError{Op: "lstat", Path: "1234", Err: fs.ErrNotExist}
	}
	return names, err
}

func (c *counted) Exists(ctx context.Context, key string) bool {
	c.mu.Lock()
	c.cost.exists++
	c.mu.Unlock()
	return c.Storage.Exists(ctx, key)
}

func (c *counted) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	c.mu.Lock()
	c.cost.stats++
	c.mu.Unlock()
	return c.Storage.Stat(ctx, key)
}

func (c *counted) Load(ctx context.Context, key string) ([]byte, error) {
	text, err := c.Storage.Load(ctx, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cost.loads++
	c.cost.bytes += len(text)
	return text, err
}

// of returns what an action costs.
func (c *counted) of(action func()) cost {
	c.mu.Lock()
	c.cost = cost{}
	c.mu.Unlock()
	action()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cost
}

// full returns a folder with 2,400 tasks of the anonymous callers of a day, 300 in each batch and 1,200 by themselves, and the ids.
func full(t *testing.T) (s *Records, c *counted, alone, batched []string) {
	t.Helper()
	c = &counted{Storage: &certmagic.FileStorage{Path: t.TempDir()}}
	s = NewRecords(c)
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(time.Hour)
	id := func(i int) string {
		return newID(t, now.Add(time.Duration(i)*time.Millisecond), byte(i))
	}
	for i := range 1200 {
		batched, alone = append(batched, id(i)), append(alone, id(10_000+i))
		mustPut(t, s, "", alone[i], 1)
		if i%300 == 299 {
			putFinal(t, s, "", batched[i-299:]...)
		}
	}
	return s, c, alone, batched
}

// Reading a task costs as much as the task has records, and for those stored together one of their batches: not as much as the owner has.
// The names of the batches are listed once a second.
func TestCostOfReading(t *testing.T) {
	s, c, alone, batched := full(t)
	now := time.Now()
	s.now = func() time.Time { return now }
	get := func(id string, want error) func() {
		return func() {
			t.Helper()
			if _, err := s.Get(t.Context(), "", id); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", id, err, want)
			}
		}
	}
	if got := c.of(get(alone[700], nil)); got.bytes > 200 || got != (cost{lists: 1, names: 1, stats: 1, loads: 1, bytes: got.bytes}) {
		t.Errorf("reading a task by itself: %+v", got)
	}
	newer := func() {
		if r, err := s.Newer(t.Context(), "", alone[700], run.Version{Event: 1}); r != nil || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if got := c.of(newer); got != (cost{lists: 1, names: 1}) {
		t.Errorf("reading nothing newer: %+v", got)
	}
	batch := cost{lists: 1, exists: 1, stats: 1, loads: 1} // the folder of the id does not exist
	first := c.of(get(batched[700], nil))
	batch.bytes = first.bytes
	if first.bytes > 300*250 || first != (cost{lists: 2, names: 1204, exists: 1, stats: 1, loads: 1, bytes: first.bytes}) {
		t.Errorf("reading the first of a batch: %+v", first)
	}
	for range 10 {
		if got := c.of(get(batched[701], nil)); got != batch {
			t.Errorf("reading another: %+v", got)
		}
	}
	guess := strings.TrimSuffix(batched[700], batched[700][30:]) + "abcdef"
	if got := c.of(get(guess, run.ErrNoRecord)); got != batch {
		t.Errorf("guessing an id within a batch: %+v", got)
	}
	guess = strings.TrimSuffix(alone[700], alone[700][30:]) + "abcdef"
	if got := c.of(get(guess, run.ErrNoRecord)); got != (cost{lists: 1, exists: 1}) {
		t.Errorf("guessing an id: %+v", got)
	}
	now = now.Add(batchListAge)
	if got := c.of(get(batched[702], nil)); got != first {
		t.Errorf("reading a second later: %+v", got)
	}
	days := func() {
		for _, err := range s.List(t.Context(), "", 2400, func(string, run.Version) bool { return false }) {
			t.Error(err)
		}
	}
	if got := c.of(days); got.lists != 2 || got.loads != 4 || got.stats != 4 {
		t.Errorf("listing all: %+v", got)
	}
}

// A batch that this process has stored is seen at once, by all who use the folder; that of another instance within a second.
func TestBatchesAreSeen(t *testing.T) {
	s, dir := records(t)
	other := NewRecords(&certmagic.FileStorage{Path: dir}) // of a configuration before a reload
	now := time.Now()
	for _, r := range []*Records{s, other} {
		r.now = func() time.Time { return now }
	}
	var ids []string
	for i := range byte(8) {
		ids = append(ids, newID(t, now, i))
	}
	seen := func(id string) (n int) {
		t.Helper()
		for _, r := range []*Records{s, other} {
			if _, err := r.Get(t.Context(), "ada", id); err == nil {
				n++
			} else if !errors.Is(err, run.ErrNoRecord) {
				t.Error(err)
			}
		}
		return n
	}
	for i := range 3 {
		if n := seen(ids[2*i]); n != 0 {
			t.Errorf("%d see what is not stored", n)
		}
		putFinal(t, s, "ada", ids[2*i], ids[2*i+1])
		if n := seen(ids[2*i]); n != 2 {
			t.Errorf("%d see what was stored", n)
		}
	}
	if n := seen(ids[6]); n != 0 {
		t.Errorf("%d see what is not stored", n)
	}
	elsewhere, from := records(t) // for the files of another process
	putFinal(t, elsewhere, "bob", ids[6], ids[7])
	files, err := filepath.Glob(filepath.Join(from, recordsKey, "*", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	day, err := dayOf(ids[6])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(files[0], filepath.Join(dir, ownerKey("ada"), day, filepath.Base(files[0]))); err != nil {
		t.Fatal(err)
	}
	now = now.Add(batchListAge)
	if n := seen(ids[6]); n != 2 {
		t.Errorf("%d see what another instance has stored", n)
	}
}

// The lists of batches are bounded in memory.
func TestBatchListsAreBounded(t *testing.T) {
	var l batchLists
	for i := range 3 * maxBatchLists {
		folder := strings.Repeat("x", i%50) + string(rune('a'+i%26)) + time.Duration(i).String()
		l.set(folder, batchList{names: []string{"a"}})
		l.set(folder, batchList{names: []string{"a", "b", "c"}})
		if l.names > maxBatchLists || len(l.of) > maxBatchLists {
			t.Fatalf("%d names in %d folders", l.names, len(l.of))
		}
	}
	names := 0
	for _, list := range l.of {
		names += 1 + len(list.names)
	}
	if names != l.names {
		t.Errorf("%d names, counted are %d", names, l.names)
	}
}

// A file that another goroutine renames or deletes while a folder is listed hides no record.
func TestListingWhileFilesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Storage: &certmagic.FileStorage{Path: t.TempDir()}}
		s := NewRecords(c)
		id, ended := newID(t, time.Now(), 1), newID(t, time.Now(), 2)
		mustPut(t, s, "ada", id, 1)
		putFinal(t, s, "ada", ended, newID(t, time.Now(), 3))
		fail := func(times int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.vanish = times
		}
		for about, read := range map[string]func() error{
			"get":                  func() error { _, err := s.Get(t.Context(), "ada", id); return err },
			"get a run in a batch": func() error { _, err := s.Get(t.Context(), "ada", ended); return err },
			"newer": func() error {
				if r, err := s.Newer(t.Context(), "ada", id, run.Version{Event: 0}); r == nil {
					return errors.Join(err, run.ErrNoRecord)
				}
				return nil
			},
			"list": func() error {
				if standingsOf(t, s, "ada") != [3]int{1, 0, 2} {
					return run.ErrNoRecord
				}
				return nil
			},
		} {
			s.lists.of = nil
			fail(3)
			if err := read(); err != nil {
				t.Errorf("%s: %v", about, err)
			}
		}
		fail(1000)
		if r, err := s.Get(t.Context(), "ada", id); err == nil || errors.Is(err, run.ErrNoRecord) {
			t.Errorf("a folder that can't be listed: %+v, %v", r, err)
		}
		if err := s.Trim(t.Context(), roomy, none); err == nil {
			t.Error("trimmed what can't be listed")
		}
	})
}

// The files that Caddy's file storage writes under a preliminary name, which has only digits, are no records.
func TestFilesBeingWritten(t *testing.T) {
	s, dir := records(t)
	id := newID(t, time.Now(), 1)
	mustPut(t, s, "ada", id, 1)
	folders, err := filepath.Glob(filepath.Join(dir, recordsKey, "*", "*", id))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	for _, name := range []string{"3021734917", "3021734917.tmp", "2.", "2.x", ".final", "02.final", "+2.final", "2.final.final", "99999999999999999999.final"} {
		if err := os.WriteFile(filepath.Join(folders[0], name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := s.Get(t.Context(), "ada", id); err != nil || r.Event != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := s.Newer(t.Context(), "ada", id, run.Version{Event: 1}); r != nil || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if n := standingsOf(t, s, "ada"); n != [3]int{1, 0, 0} {
		t.Errorf("%v", n)
	}
}
