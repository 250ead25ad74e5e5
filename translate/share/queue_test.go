package share

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
)

// order has work wait while all places are taken by others, and returns in which order it
// is done.
func order(t *testing.T, turns *Queue, work ...[2]string) (done []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for i := range turns.atOnce {
			turns.Take(t.Context(), "other"+strconv.Itoa(i), Line{})
		}
		for _, w := range work {
			go func() {
				turns.Take(t.Context(), w[0], Line{Principal: w[1]})
				done = append(done, w[0]+w[1])
				turns.End(w[0])
			}()
			synctest.Wait()
		}
		if len(done) > 0 {
			t.Fatalf("%v did not wait", done)
		}
		turns.End("other0")
		synctest.Wait()
		for i := range turns.atOnce - 1 {
			turns.End("other" + strconv.Itoa(i+1))
		}
		if turns.working != 0 || len(turns.sources) > 0 {
			t.Errorf("left: %d, %+v", turns.working, turns.sources)
		}
	})
	return done
}

// Sources have turns, and so have those who call skills of one.
func TestTurnsOfSources(t *testing.T) {
	for _, atOnce := range []int{1, 2, 4} {
		done := order(t, NewQueue(atOnce), [2]string{"a", "1"}, [2]string{"a", "1"}, [2]string{"a", "1"}, [2]string{"a", "2"}, [2]string{"b", "1"}, [2]string{"c", "1"})
		if want := []string{"a1", "b1", "c1", "a2", "a1", "a1"}; !slices.Equal(done, want) {
			t.Errorf("of %d at a time: %v, want %v", atOnce, done, want)
		}
	}
}

// No source has all places, unless there is one only.
func TestTurnsLeaveAPlace(t *testing.T) {
	for atOnce, most := range map[int]int{1: 1, 2: 1, 4: 3} {
		turns, had := NewQueue(atOnce), 0
		for hasTurn(t, turns, "a") {
			had++
		}
		if had != most {
			t.Errorf("of %d places a source had %d, want %d", atOnce, had, most)
		}
		if atOnce > 1 && !hasTurn(t, turns, "b") {
			t.Errorf("of %d places another source had none", atOnce)
		}
		if hasTurn(t, turns, "c") || len(turns.sources) > 2 {
			t.Errorf("of %d places: %d sources", atOnce, len(turns.sources))
		}
	}
}

// hasTurn takes a turn if there is one at once.
func hasTurn(t *testing.T, turns *Queue, source string) (had bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { had = turns.Take(ctx, source, Line{}) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
	return had
}
