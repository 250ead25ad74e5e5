package ledger

import (
	"context"
	"testing"
)

// A count that began before entries made place says nothing of the place.
func TestCountDuringEviction(t *testing.T) {
	owner := Owner{Realm: "r", Principal: "ann"}
	entries, counting, counted := 5, make(chan struct{}), make(chan struct{})
	slow := false
	u := &usage{owners: map[Owner]*share{}, count: func(_ context.Context, of *Owner) (Usage, error) {
		n := entries
		if slow && of != nil {
			slow = false
			counting <- struct{}{}
			<-counted
		}
		return Usage{Entries: n}, nil
	}}
	u.set(Bounds{RunsOfOne: 5})
	if err := u.load(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	u.evicted(owner) // the next count is due
	slow = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = u.recount(context.Background(), &owner)
	}()
	<-counting
	entries = 4
	u.evicted(owner)
	counted <- struct{}{}
	<-done
	if failure := u.begin(t.Context(), owner, 0); failure != nil {
		t.Errorf("%+v", failure)
	}
}
