package storage

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// What the operator sees: the newest records of all owners, whatever files they are in, and one of them by its id.
func TestNewestOfAllOwners(t *testing.T) {
	s, _ := records(t)
	start := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
	owners := []string{"ada", "bob", "", "index"}
	var want []string // the newest first
	for i := range byte(12) {
		id, owner := newID(t, start.Add(time.Duration(i)*8*time.Hour), i), owners[i%4] // of four days
		if i >= 8 {
			putFinal(t, s, owner, id, newID(t, start.Add(time.Duration(i)*8*time.Hour), i+100)) // a batch
		} else {
			mustPut(t, s, owner, id, 1)
		}
		mustPut(t, s, "index", id, 7) // notes about the same id
		if owner != "index" {
			want = append([]string{id}, want...)
		}
	}
	if err := s.Name(t.Context(), "ada", "mine", want[0]); err != nil {
		t.Fatal(err)
	}
	list := func(most int, need func(string) bool) (ids []string) {
		for r, err := range s.Newest(t.Context(), "index", most, need) {
			if err != nil || r.Owner != "" || r.Event == 7 {
				t.Fatal(r, err)
			}
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		slices.Reverse(ids)
		return ids
	}
	of := func(id string) bool { return slices.Contains(want, id) }
	for most := range len(want) + 2 {
		if got := list(most, of); !slices.Equal(got, want[:min(most, len(want))]) {
			t.Errorf("the newest %d: %q, want %q", most, got, want)
		}
	}
	if got := list(2, func(id string) bool { return id < want[4] && of(id) }); !slices.Equal(got, want[5:7]) {
		t.Errorf("of those that are needed: %q", got)
	}
	for _, id := range want {
		if r, err := s.Find(t.Context(), "index", id); err != nil || r.ID != id || r.Event == 7 {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	for _, id := range []string{"", "../x", newID(t, start, 200)} {
		if r, err := s.Find(t.Context(), "index", id); !errors.Is(err, run.ErrNoRecord) {
			t.Errorf("%q: %+v, %v", id, r, err)
		}
	}
}
