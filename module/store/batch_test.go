package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
)

// Changes that wait for another process are one transaction, in which each fails alone.
func TestBatch(t *testing.T) {
	settings := Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "s.db")}
	db, other := open(t, settings), open(t, settings)
	exec(t, db, "INSERT INTO instances VALUES ($1, 1, '')", "there")
	failure := errors.New("failure")
	insert := func(ctx context.Context, s session, id string) error {
		_, err := s.exec(ctx, "INSERT INTO instances VALUES ($1, 1, '')", id)
		return err
	}
	type result struct {
		i   int
		tx  context.Context //nolint:containedctx // tells transactions apart
		err error
	}
	const changes = maxBatch + 10
	results := make(chan result, changes+1)
	begin := func(i int) {
		r := result{i: i}
		switch i % 10 {
		case 1: // one statement
			r.err = insert(t.Context(), db.session(writing), fmt.Sprint(i))
		case 2:
			r.err = insert(t.Context(), db.session(leasing), "there")
		default:
			r.err = db.transaction(t.Context(), func(ctx context.Context, s session) error {
				r.tx = ctx
				if err := insert(ctx, s, fmt.Sprint(i)); err != nil || i%10 == 3 {
					return errors.Join(err, failure)
				}
				return insert(ctx, s, fmt.Sprint(i, " again"))
			})
		}
		results <- r
	}
	waiting := func(n int) {
		t.Helper()
		for {
			db.conns.batches.mu.Lock()
			got := len(db.conns.batches.waiting)
			db.conns.batches.mu.Unlock()
			if got == n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	withdrawn := make(chan error, 1)
	err := other.transaction(t.Context(), func(ctx context.Context, _ session) error {
		written(t, db, func() { go begin(0) }) // it waits for the other process
		for i := range changes {
			go begin(i + 4)
		}
		waiting(changes)
		ctx, cancel := context.WithCancel(ctx)
		go func() { withdrawn <- insert(ctx, db.session(writing), "withdrawn") }()
		waiting(changes + 1)
		cancel()
		if err := <-withdrawn; !errors.Is(err, context.Canceled) {
			t.Errorf("a change that was withdrawn: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var transactions []context.Context
	rows := 1
	for range changes + 1 {
		r := <-results
		switch {
		case r.i%10 == 2:
			if r.err == nil {
				t.Error("a second row with the same id")
			}
		case r.i%10 == 3:
			if !errors.Is(r.err, failure) {
				t.Error(r.err)
			}
		case r.err != nil:
			t.Error(r.err)
		case r.i%10 == 1:
			rows++
		default:
			rows += 2
		}
		if r.tx != nil && !slices.Contains(transactions, r.tx) {
			transactions = append(transactions, r.tx)
		}
	}
	if n := scalar[int](t, db, reading, "SELECT count(*) FROM instances"); n != rows || len(transactions) != 3 {
		t.Errorf("%d rows, want %d; %d transactions", n, rows, len(transactions))
	}
}

// written waits until the first change of a function is being written.
func written(t *testing.T, db *DB, begin func()) {
	t.Helper()
	b := db.conns.batches
	b.mu.Lock()
	b.waiting = nil
	b.mu.Unlock()
	begin()
	for taken := false; !taken; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		taken = b.waiting != nil && len(b.waiting) == 0
		b.mu.Unlock()
	}
}

// If SQLite gives up a transaction, none of its changes has an effect, and all say so.
func TestFullBatch(t *testing.T) {
	settings := Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "s.db")}
	db, other := open(t, settings), open(t, settings)
	scalar[int](t, db, writing, fmt.Sprint("PRAGMA max_page_count = ", scalar[int](t, db, reading, "PRAGMA page_count")))
	results := make(chan error, 10)
	err := other.transaction(t.Context(), func(context.Context, session) error {
		put := func(i int) {
			thing := &Thing{Kind: "thing", Name: fmt.Sprint(i), Value: make([]byte, 100_000*(i%2))}
			_, err := db.Things().Put(context.Background(), thing, 0)
			results <- err
		}
		written(t, db, func() { go put(0) })
		for i := range cap(results) - 1 {
			go put(i + 1)
		}
		for {
			db.conns.batches.mu.Lock()
			n := len(db.conns.batches.waiting)
			db.conns.batches.mu.Unlock()
			if n == cap(results)-1 {
				return nil
			}
			time.Sleep(time.Millisecond)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	succeeded := 0
	for range cap(results) {
		if err := <-results; err == nil {
			succeeded++
		} else if u := wantUnavailable(t, err, "full", "disk is full"); !u.Full {
			t.Error("it can't be read")
		}
	}
	if n := scalar[int](t, db, reading, "SELECT count(*) FROM things"); n != succeeded || n > 1 {
		t.Errorf("%d rows of %d", n, succeeded)
	}
	if ok, err := db.Things().Put(t.Context(), &Thing{Kind: "thing", Name: "small"}, 0); !ok || err != nil {
		t.Error(ok, err)
	}
}

// A panic in a change is one of the goroutine that waits for it, and no later change waits for ever.
func TestPanicOfChange(t *testing.T) {
	db := open(t, Settings{Kind: Memory, File: t.Name()})
	err := panics.Recovered(func() {
		_ = db.transaction(t.Context(), func(ctx context.Context, s session) error {
			if _, err := s.exec(ctx, "INSERT INTO instances VALUES ($1, 1, '')", "one"); err != nil {
				return err
			}
			panic("bug")
		})
	})
	if err == nil {
		t.Error("no panic")
	}
	exec(t, db, "INSERT INTO instances VALUES ($1, 1, '')", "one") // the first one was undone
}

// R256: while the disk hangs, changes that were withdrawn, with what they would write, take no memory.
func TestR256WithdrawnChanges(t *testing.T) {
	db := open(t, Settings{Kind: Memory, File: t.Name()})
	hangs, ended := make(chan struct{}), make(chan error, 1)
	written(t, db, func() {
		go func() {
			ended <- db.transaction(t.Context(), func(context.Context, session) error {
				<-hangs
				return nil
			})
		}()
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxBatch {
		if err := db.transaction(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	db.conns.batches.mu.Lock()
	if n := len(db.conns.batches.waiting); n > 1 {
		t.Errorf("%d withdrawn changes are kept", n)
	}
	db.conns.batches.mu.Unlock()
	close(hangs)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	exec(t, db, "INSERT INTO instances VALUES ($1, 1, '')", "one")
}
