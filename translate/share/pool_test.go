package share_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// An owner who has a part of a pool gets more only while as much remains free, so that others find room.
func TestShares(t *testing.T) {
	var pool share.Pool
	parts := map[string][]*share.Part{}
	for i, step := range []struct {
		owner string
		size  int64 // negative: the first part of the owner is given back
		want  bool
	}{
		{"ann", 13, false},
		{"ann", 12, true}, // one part may take all of it
		{"bob", 1, false},
		{"ann", -1, true},
		{"ann", 4, true},
		{"ann", 4, false},
		{"ann", 2, true},
		{"ann", 1, false},
		{"bob", 3, true},
		{"bob", 1, false},
		{"eve", 3, true},
		{"guy", 1, false},
		{"ann", -1, true},
		{"guy", 2, true},
	} {
		if step.size < 0 {
			parts[step.owner][0].Set(0)
			parts[step.owner] = parts[step.owner][1:]
			continue
		}
		part := &share.Part{Pool: &pool, Owner: step.owner, Most: 12}
		got := part.Set(step.size)
		if got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
		if got {
			parts[step.owner] = append(parts[step.owner], part)
		}
	}
}

// An owner has at most as much as one may have, also if more is free.
func TestOfOne(t *testing.T) {
	var pool share.Pool
	enter := func(owner string) bool {
		return (&share.Part{Pool: &pool, Owner: owner, Most: 1000, OfOne: 3}).Set(1)
	}
	for i := range 5 {
		if got := enter("ann"); got != (i < 3) {
			t.Errorf("%d: %t", i, got)
		}
	}
	if !enter("bob") {
		t.Error("another has no room")
	}
	for i := range 1000 - 4 { // the rule for few owners does not hold
		if !enter("user " + strconv.Itoa(i/3)) {
			t.Errorf("owner %d has no room", i/3)
		}
	}
	if enter("eve") {
		t.Error("more than all")
	}
	pool = share.Pool{}
	never := &share.Part{Pool: &pool, Owner: "eve", Most: 1000, OfOne: 3}
	if never.Await(t.Context(), 4) || !never.Await(t.Context(), 3) {
		t.Error("more than one may have")
	}
}

// However many owners take all that they can, there is room for another one, up to the last place.
func TestRoomForOthers(t *testing.T) {
	var pool share.Pool
	for i, want := range []int{50, 25, 12, 6, 3, 2, 1, 1, 0} {
		n := 0
		for (&share.Part{Pool: &pool, Owner: strconv.Itoa(i), Most: 100}).Set(1) {
			n++
		}
		if n != want {
			t.Errorf("owner %d takes %d, want %d", i, n, want)
		}
	}
}

// A part waits until there is room for all that it needs, and has nothing meanwhile.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool share.Pool
		first := &share.Part{Pool: &pool, Owner: "ann", Most: 100}
		if !first.Set(60) {
			t.Fatal("the first has no room")
		}
		var served atomic.Int32
		for _, owner := range []string{"ann", "ann", "bob", "eve"} {
			go func() {
				part := &share.Part{Pool: &pool, Owner: owner, Most: 100}
				if !part.Await(t.Context(), 50) {
					t.Errorf("%s has no room", owner)
				}
				time.Sleep(time.Second)
				part.Set(0)
				served.Add(1)
			}()
		}
		time.Sleep(time.Hour)
		if n := served.Load(); n > 0 {
			t.Errorf("%d had room", n)
		}
		first.Set(0)
		time.Sleep(time.Hour)
		if n := served.Load(); n != 4 {
			t.Errorf("%d had room", n)
		}
		late := &share.Part{Pool: &pool, Owner: "bob", Most: 100}
		first.Set(100)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if late.Await(ctx, 101) || ctx.Err() != nil || late.Await(ctx, 1) || ctx.Err() == nil {
			t.Error("it has room that there is not")
		}
	})
}

// FuzzPool checks against a list of what each part has: no owner that has something gets more than remains free, no room is refused that there is, and nothing
// is lost. Each two bytes are a step: a part of an owner, and its new size.
func FuzzPool(f *testing.F) {
	f.Add([]byte{0, 60, 1, 40, 8, 20, 0, 0, 1, 200, 9, 10, 2, 255, 3, 1})
	f.Add([]byte("one after the other takes what there is"))
	f.Fuzz(func(t *testing.T, steps []byte) {
		const owners, most, ofOne, small = 4, 128, 100, 8
		var pool share.Pool
		var parts [16]share.Part
		has := func(counts func(i int) bool) (sum int64) {
			for i := range parts {
				if counts(i) {
					sum += parts[i].Has()
				}
			}
			return sum
		}
		for i := range parts {
			parts[i].Pool, parts[i].Owner, parts[i].Most = &pool, fmt.Sprint(i%owners), most
			switch i % owners {
			case 0:
				parts[i].OfOne = ofOne
			case 1:
				parts[i].OfOne = small
			}
		}
		for ; len(steps) > 1; steps = steps[2:] {
			i, size := int(steps[0])%len(parts), int64(steps[1])
			part, before := &parts[i], parts[i].Has()
			own := has(func(other int) bool { return other != i && other%owners == i%owners })
			left := most - size - has(func(other int) bool { return other != i })
			want := size <= before || left >= 0 && (own == 0 || own+size <= left || part.OfOne == small) && (part.OfOne == 0 || own+size <= part.OfOne)
			if got := part.Set(size); got != want || got && part.Has() != size || !got && part.Has() != before {
				t.Fatalf("part %d from %d to %d, own %d, left %d: %t, has %d", i, before, size, own, left, got, part.Has())
			}
		}
		for i := range parts {
			parts[i].Set(0)
		}
		whole := share.Part{Pool: &pool, Owner: "all", Most: most}
		if !whole.Set(most) || whole.Set(most+1) {
			t.Error("something is lost")
		}
	})
}

// What many take and give back at a time is all free in the end.
func TestManyAtATime(t *testing.T) {
	var pool share.Pool
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for n := range 200 {
				part := &share.Part{Pool: &pool, Owner: strconv.Itoa(i % 5), Most: 64}
				switch n % 3 {
				case 0:
					part.Set(int64(n % 40))
				case 1:
					if !part.Await(t.Context(), int64(n%40)) {
						t.Error("it does not wait")
					}
				default:
					part.Count(int64(n % 40))
				}
				part.Set(0)
			}
		})
	}
	all.Wait()
	if !(&share.Part{Pool: &pool, Most: 64}).Set(64) {
		t.Error("something is lost")
	}
}
