//nolint:thelper // the functions that databases calls are tests
package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/marks"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
)

// awaitMark waits until an instance knows a mark.
func awaitMark(t *testing.T, m *marks.Marks, owner, name string) {
	t.Helper()
	for m.Until(t.Context(), owner, name).IsZero() {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A mark is known here at once, at another instance after a moment, and after a restart.
func TestMarks(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		here := open(t, settings)
		m, there := here.Marks(), here.Marks()
		if settings.Kind != Memory {
			there = open(t, settings).Marks()
		}
		if at := there.Until(t.Context(), "ada", "1"); !at.IsZero() {
			t.Fatal(at)
		}
		if full, err := m.Add(t.Context(), "ada", "1", time.Hour); full != 0 || err != nil {
			t.Fatal(full, err)
		}
		if until := m.Until(t.Context(), "ada", "1"); time.Until(until).Round(time.Minute) != time.Hour {
			t.Errorf("until %v", until)
		}
		awaitMark(t, there, "ada", "1")
		if at := there.Until(t.Context(), "bob", "1"); !at.IsZero() {
			t.Error("another owner has the mark")
		}
		if settings.Kind != Memory {
			if at := open(t, settings).Marks().Until(t.Context(), "ada", "1"); at.IsZero() {
				t.Error("a restart forgets the mark")
			}
		}
	})
}

// What one owner marks never takes the place of what another one marks, and all together are bounded.
func TestMarksAreBounded(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		db := open(t, settings)
		m := db.Marks()
		fill := func(owner string, from, n int) {
			t.Helper()
			err := db.transaction(t.Context(), func(ctx context.Context, s session) error {
				for rest := n; rest > 0; {
					args, rows := []any{markKind, []byte{}}, []string(nil)
					for ; rest > 0 && len(rows) < 250; rest-- {
						args = append(args, fmt.Appendf(nil, "%s%04d", owner, from+n-rest))
						rows = append(rows, fmt.Sprintf("($1, $%d, $2, 1, {now} + 3600000)", len(args)))
					}
					if _, err := s.exec(ctx, "INSERT INTO things VALUES "+strings.Join(rows, ", "), args...); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			m.Changed()
			awaitMark(t, m, owner, fmt.Sprintf("%04d", from+n-1))
		}
		add := func(owner, name string, want int) {
			t.Helper()
			if full, err := m.Add(t.Context(), owner, name, time.Hour); full != want || err != nil {
				t.Errorf("%s: %d, %v; want %d", owner, full, err, want)
			}
		}
		fill("ada", 0, marks.MostOfOne-1)
		add("ada", "last", 0)
		add("ada", "more", marks.MostOfOne)
		add("bob", "more", 0)
		for i := range 9 {
			fill(fmt.Sprint("b", i, "c"), 0, marks.MostOfOne)
		}
		add("bob", "full", marks.Most)
		exec(t, db, "UPDATE things SET expires = {now} WHERE name IN ($1, $2)", []byte("ada0000"), []byte("adalast"))
		add("bob", "4444", 0)
	})
}

// R251: what a caller has canceled while the database could not be used is stored as soon as it can, though nobody asks about it, and before the process ends.
func TestR251MarkIsStoredLater(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		if settings.Kind == Memory {
			t.Skip("it is forgotten when the process ends")
		}
		db, other := open(t, settings), open(t, settings)
		add := func(name string) {
			t.Helper()
			exec(t, other, "ALTER TABLE things RENAME TO others")
			full, err := db.Marks().Add(t.Context(), "ada", name, time.Hour)
			exec(t, other, "ALTER TABLE others RENAME TO things")
			if full != 0 || err == nil {
				t.Fatal(full, err)
			}
		}
		stored := func() int {
			return scalar[int](t, other, reading, "SELECT count(*) FROM things WHERE kind = $1", markKind)
		}
		if !other.Marks().Until(t.Context(), "ada", "1").IsZero() {
			t.Fatal("there is a mark")
		}
		add("1")
		for deadline := time.Now().Add(30 * time.Second); stored() == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it is not stored")
			}
		}
		awaitMark(t, other.Marks(), "ada", "1")
		add("2")
		db.Close()
		if n := stored(); n != 2 {
			t.Errorf("%d marks are stored", n)
		}
		for deadline := time.Now().Add(5 * time.Second); other.Marks().Until(t.Context(), "ada", "2").IsZero(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the other instance does not know the last mark")
			}
		}
	})
}

// Notices don't wait for a mark that can't be stored for the moment.
func TestNoticesDuringMark(t *testing.T) {
	settings := Settings{Kind: Postgres, DSN: postgrestest.Start(t)}
	r, other := another(t, settings), another(t, settings)
	released := make(chan struct{})
	var locking sync.WaitGroup
	defer locking.Wait()
	defer close(released)
	locked := make(chan struct{})
	locking.Go(func() {
		_ = other.db.transaction(t.Context(), func(ctx context.Context, s session) error {
			_, err := s.exec(ctx, "LOCK TABLE things")
			close(locked)
			<-released
			return err
		})
	})
	<-locked
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.db.Marks().Add(ctx, "ada", "1", time.Hour); err == nil {
		t.Fatal("the mark is stored")
	}
	const waits = "SELECT count(*) FROM pg_locks WHERE relation = 'things'::regclass AND NOT granted"
	for _, wanted := range []int{0, 1} { // the first try ends, and the next one begins
		for scalar[int](t, other.db, leasing, waits) != wanted {
			time.Sleep(10 * time.Millisecond)
		}
	}
	r.Announce([]string{"x"})
	for late := time.After(5 * time.Second); ; {
		select {
		case ids := <-other.Changes():
			if slices.Contains(ids, "x") {
				return
			}
		case <-late:
			t.Fatal("the notice waits for the mark")
		}
	}
}
