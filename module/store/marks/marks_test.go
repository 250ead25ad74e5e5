package marks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
)

// database is a store that counts how often it is read.
type database struct {
	of     map[string]time.Time
	reads  int
	failed error
	hangs  bool
}

func (d *database) Mark(_ context.Context, owner, name string, keep time.Duration) (bool, time.Time, error) {
	until := time.Now().Add(keep)
	if d.failed == nil {
		d.of[owner+name] = until
	}
	return d.failed == nil, until, d.failed
}

func (d *database) Marked(ctx context.Context) (map[string]time.Time, error) {
	d.reads++
	if d.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.of, d.failed
}

// Asking costs no statement, until others may have marked something. A database that hangs delays few calls, and for a moment only.
func TestReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{of: map[string]time.Time{"ada1": time.Now().Add(time.Hour)}}
		m := New(d, func() {})
		for i := range 100 {
			if m.Until(t.Context(), "ada", "1").IsZero() || !m.Until(t.Context(), "bob", fmt.Sprint(i)).IsZero() {
				t.Fatal(i)
			}
		}
		if d.reads != 1 {
			t.Errorf("%d readings", d.reads)
		}
		d.of["bob1"] = time.Now().Add(time.Hour)
		m.Changed()
		time.Sleep(readEvery)
		if m.Until(t.Context(), "bob", "1").IsZero() || d.reads != 2 {
			t.Errorf("a mark of another instance is not known after %d readings", d.reads)
		}
		d.hangs = true
		m.Changed()
		time.Sleep(readEvery)
		began := time.Now()
		for range 100 {
			if m.Until(t.Context(), "ada", "1").IsZero() {
				t.Error("what is known was forgotten")
			}
		}
		synctest.Wait()
		if waited := time.Since(began); waited != patience || d.reads != 3 {
			t.Errorf("100 calls waited for %v and %d readings", waited, d.reads)
		}
		time.Sleep(readTimeout)
	})
}

// While the database can't be used, this instance keeps what was marked, in bounds for each owner, and writes it when it can.
func TestWithoutDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{of: map[string]time.Time{}, failed: errors.New("down")}
		announced := 0
		m := New(d, func() { announced++ })
		for i := range mostUnsaved + 1 {
			full, err := m.Add(t.Context(), "ada", fmt.Sprint(i), time.Hour)
			if want := i == mostUnsaved; want != (full == mostUnsaved) || want == (err != nil) {
				t.Fatalf("%d: %d, %v", i, full, err)
			}
		}
		if full, err := m.Add(t.Context(), "bob", "1", time.Hour); full != 0 || err == nil {
			t.Fatal(full, err)
		}
		if m.Until(t.Context(), "ada", "1").IsZero() || !m.Until(t.Context(), "ada", fmt.Sprint(mostUnsaved)).IsZero() {
			t.Error("what was marked is not known")
		}
		d.failed = nil
		time.Sleep(readAgain)
		m.Until(t.Context(), "ada", "1")
		if len(d.of) != mostUnsaved+1 || announced != len(d.of) || len(m.unsaved) != 0 {
			t.Errorf("%d marks were written, %d announced, %d not written", len(d.of), announced, len(m.unsaved))
		}
	})
}

// panicking is a store whose first reading panics.
type panicking struct{ *database }

func (p panicking) Marked(ctx context.Context) (map[string]time.Time, error) {
	if p.reads == 0 {
		p.reads++
		panic("a bug")
	}
	return p.database.Marked(ctx)
}

// A reading that panics does not end the process: the call that waits for it panics, and the next one reads again.
func TestReadingPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(panicking{&database{of: map[string]time.Time{"ada1": time.Now().Add(time.Hour)}}}, func() {})
		if bug := panics.Recovered(func() { m.Until(t.Context(), "ada", "1") }); bug == nil {
			t.Error("the caller does not learn of the bug")
		}
		time.Sleep(readAgain)
		if m.Until(t.Context(), "ada", "1").IsZero() {
			t.Error("the marks are not read again")
		}
	})
}
