package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// newID makes an id whose time is the given one.
func newID(t *testing.T, at time.Time, n byte) string {
	t.Helper()
	var u uuid.UUID
	ms := at.UnixMilli()
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	u[6], u[8], u[15] = 0x70, 0x80, n
	return u.String()
}

func records(t *testing.T) (s *Records, dir string) {
	t.Helper()
	dir = t.TempDir()
	return NewRecords(&certmagic.FileStorage{Path: dir}), dir
}

func mustPut(t *testing.T, s *Records, owner, id string, event uint64) {
	t.Helper()
	data := fmt.Appendf(nil, `{"event":%d}`, event)
	if err := s.Put(t.Context(), &run.Record{Owner: owner, ID: id, Event: event, At: time.Unix(int64(event), 0), Data: data}); err != nil {
		t.Fatal(err)
	}
}

func TestRecordWithHighestEventHolds(t *testing.T) {
	s, _ := records(t)
	id := newID(t, time.Now(), 1)
	for _, event := range []uint64{1, 2, 10, 9} { // another instance may be late
		mustPut(t, s, "ada", id, event)
	}
	r, err := s.Get(t.Context(), "ada", id)
	if err != nil || r.Owner != "ada" || r.ID != id || r.Event != 10 || string(r.Data) != `{"event":10}` || !r.At.Equal(time.Unix(10, 0)) {
		t.Errorf("%+v, %v", r, err)
	}
	for than, want := range map[uint64]uint64{0: 10, 1: 10, 9: 10, 10: 0, 11: 0} {
		if r, err := s.Newer(t.Context(), "ada", id, run.Version{Event: than}); err != nil || (r == nil) != (want == 0) || r != nil && (r.Event != want || r.Owner != "ada") {
			t.Errorf("newer than %d: %+v, %v", than, r, err)
		}
		if r, err := s.Newer(t.Context(), "bob", id, run.Version{Event: than}); r != nil || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
	for _, owner := range []string{"", "bob", "ada/", "../ada"} {
		if r, err := s.Get(t.Context(), owner, id); !errors.Is(err, run.ErrNoRecord) {
			t.Errorf("%q: %+v, %v", owner, r, err)
		}
	}
	for _, other := range []string{"", "x", "../" + id, strings.ToUpper(id), newID(t, time.Now(), 2), uuid.NewString()} {
		if r, err := s.Get(t.Context(), "ada", other); !errors.Is(err, run.ErrNoRecord) {
			t.Errorf("%q: %+v, %v", other, r, err)
		}
	}
}

func TestRecordsAreRefused(t *testing.T) {
	s, dir := records(t)
	id := newID(t, time.Now(), 1)
	for about, r := range map[string]*run.Record{
		"a random id":          {ID: uuid.NewString(), Event: 1, Data: []byte("1")},
		"a path":               {ID: "../../" + id, Event: 1, Data: []byte("1")},
		"data that is no JSON": {ID: id, Event: 1, Data: []byte("{")},
	} {
		if err := s.Put(t.Context(), r); err == nil {
			t.Errorf("%s is stored", about)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

func TestRecordsAreListedByOwner(t *testing.T) {
	s, _ := records(t)
	start := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
	var want []string
	for i := range byte(9) { // of three days
		id := newID(t, start.Add(time.Duration(i)*8*time.Hour), i)
		want = append(want, id)
		for event := range uint64(3) {
			mustPut(t, s, "ada", id, event+1)
		}
	}
	mustPut(t, s, "bob", newID(t, start, 100), 1)
	if err := s.Name(t.Context(), "ada", "mine", want[0]); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(want)
	list := func(owner string, most int, need func(string, run.Version) bool) (ids []string) {
		for r, err := range s.List(t.Context(), owner, most, need) {
			if err != nil || r.Owner != owner || r.Event != 3 {
				t.Fatal(r, err)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	all := func(string, run.Version) bool { return true }
	for most := range 12 {
		if got := list("ada", most, all); !slices.Equal(got, want[:min(most, len(want))]) {
			t.Errorf("the first %d: %v, want %v", most, got, want)
		}
	}
	if got := list("ada", 12, func(id string, v run.Version) bool { return v.Event == 3 && id == want[4] }); !slices.Equal(got, want[4:5]) {
		t.Errorf("one that is needed: %v", got)
	}
	if got := list("eve", 10, all); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestNamesOfRecords(t *testing.T) {
	s, _ := records(t)
	id := newID(t, time.Now(), 1)
	for _, name := range []string{"task-1", "", "../../x", strings.Repeat("n", 10000)} {
		if err := s.Name(t.Context(), "ada", name, id); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Named(t.Context(), "ada", name); got != id || err != nil {
			t.Errorf("%.20q: %s, %v", name, got, err)
		}
		if got, err := s.Named(t.Context(), "bob", name); !errors.Is(err, run.ErrNoRecord) {
			t.Errorf("%.20q: %s, %v", name, got, err)
		}
	}
	if err := s.Name(t.Context(), "ada", "n", "x"); err == nil {
		t.Error("a name of something that is no id is stored")
	}
}

// A record that was cut off, or swapped with another, is not taken for the truth: the one before it holds.
func TestDamagedRecords(t *testing.T) {
	s, dir := records(t)
	id, other := newID(t, time.Now(), 1), newID(t, time.Now(), 2)
	mustPut(t, s, "ada", id, 1)
	mustPut(t, s, "ada", id, 2)
	mustPut(t, s, "ada", other, 2)
	files, err := filepath.Glob(filepath.Join(dir, recordsKey, "*", "*", id, "2.running"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	swapped, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(files[0])), other, "2.running"))
	if err != nil {
		t.Fatal(err)
	}
	for about, text := range map[string]string{"empty": "", "cut off": `{"id":"` + id + `","event":2,"at":`, "swapped": string(swapped)} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Get(t.Context(), "ada", id); err != nil || r.Event != 1 {
			t.Errorf("%s: %+v, %v", about, r, err)
		}
	}
	if err := os.Remove(filepath.Join(filepath.Dir(files[0]), "1.running")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "ada", id); err == nil || errors.Is(err, run.ErrNoRecord) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("only a damaged one: %v", err)
	}
}

// A storage that can't be written or read says so: the caller must not be told of what is not kept.
func TestRecordsWithoutStorage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := NewRecords(&certmagic.FileStorage{Path: file}) // which is no folder
	id := newID(t, time.Now(), 1)
	if err := s.Put(t.Context(), &run.Record{ID: id, Event: 1, Data: []byte("1")}); err == nil {
		t.Error("a record is stored in no folder")
	}
	if err := s.Name(t.Context(), "", "n", id); err == nil {
		t.Error("a name is stored in no folder")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	good, _ := records(t)
	mustPut(t, good, "ada", id, 1)
	for r, err := range good.List(ctx, "ada", 1, func(string, run.Version) bool { return true }) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v, %v", r, err)
		}
	}
}

// A lock excludes the other instances of a storage, for one id of one owner.
func TestRecordLock(t *testing.T) {
	one, dir := records(t)
	other := NewRecords(&certmagic.FileStorage{Path: dir})
	id := newID(t, time.Now(), 1)
	ctx, leave := context.WithCancel(t.Context())
	unlock, err := one.Lock(ctx, "ada", id)
	if err != nil {
		t.Fatal(err)
	}
	leave() // which releases nothing
	tried := func(s *Records, owner, id string) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		unlock, err := s.Lock(ctx, owner, id)
		if err == nil {
			unlock()
		}
		return err
	}
	for _, s := range []*Records{one, other} {
		if err := tried(s, "ada", id); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want none while it is locked", err)
		}
	}
	for owner, id := range map[string]string{"": id, "bob": id, "Ada": id, "ada/": id, "ada": newID(t, time.Now(), 2)} {
		if err := tried(other, owner, id); err != nil {
			t.Errorf("%q, %s: %v", owner, id, err)
		}
	}
	unlock()
	again, err := other.Lock(t.Context(), "ada", id)
	if err != nil {
		t.Fatal(err)
	}
	unlock() // which has no effect on another's lock
	if err := tried(one, "ada", id); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want none while the other has it", err)
	}
	again()
	if err := tried(one, "ada", id); err != nil {
		t.Error(err)
	}
	for r, err := range other.List(t.Context(), "ada", 10, func(string, run.Version) bool { return true }) {
		t.Errorf("%v, %v: a lock is no record", r, err)
	}
}

// reluctantStorage releases no lock for a time.
type reluctantStorage struct {
	certmagic.Storage
	until time.Time
}

func (s *reluctantStorage) Unlock(ctx context.Context, name string) error {
	if time.Now().Before(s.until) {
		return errors.New("no answer")
	}
	return s.Storage.Unlock(ctx, name)
}

// A lock whose release fails is released some seconds later, though the file storage renews it as long as the process lives.
func TestReleaseIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		storage := &reluctantStorage{Storage: &certmagic.FileStorage{Path: dir}, until: time.Now().Add(3 * time.Second)}
		one, other := NewRecords(storage), NewRecords(&certmagic.FileStorage{Path: dir})
		id := newID(t, time.Now(), 1)
		unlock, err := one.Lock(t.Context(), "ada", id)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		again, err := other.Lock(ctx, "ada", id)
		if err != nil {
			t.Fatal(err)
		}
		again()
		time.Sleep(10 * time.Second) // the file storage has a goroutine for each lock that was released
	})
}

// A listing ends with its context, also if the storage does not look at it.
func TestListingEndsWithItsContext(t *testing.T) {
	s, _ := records(t)
	for i := range byte(10) {
		mustPut(t, s, "ada", newID(t, time.Now(), i), 1)
	}
	putFinal(t, s, "ada", newID(t, time.Now(), 20), newID(t, time.Now(), 21))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	n := 0
	for r, err := range s.List(ctx, "ada", 100, func(string, run.Version) bool { return true }) {
		if leave(); r == nil && !errors.Is(err, context.Canceled) || r != nil && n > 0 {
			t.Errorf("%d: %v, %v", n, r, err)
		}
		n++
	}
	for r, err := range s.List(ctx, "ada", 100, func(string, run.Version) bool { return true }) {
		if r != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v, %v", r, err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d results", n)
	}
}
