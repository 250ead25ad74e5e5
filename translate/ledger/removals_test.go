package ledger

import (
	"fmt"
	"testing"
	"time"
)

// A claim that was deleted once is deleted again later also while as many as possible have to be deleted: otherwise all of them would be for ever.
func TestRemovalsAtTheBound(t *testing.T) {
	p := pending{wake: make(chan struct{}, 1), removals: map[Identity]time.Time{}}
	for n := range mostUnwritten + 1 {
		p.remove(Identity{ID: fmt.Sprint(n)}, time.Time{})
	}
	if later := time.Now(); len(p.removals) == mostUnwritten {
		p.remove(Identity{ID: "0"}, later)
		if p.removals[Identity{ID: "0"}] != later {
			t.Error("it is deleted at once again")
		}
	} else {
		t.Errorf("%d claims have to be deleted", len(p.removals))
	}
}
