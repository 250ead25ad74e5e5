package share_test

import (
	"slices"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// ranked is an item of a heap.
type ranked struct {
	share.Spot
	rank int
}

func (r *ranked) Before(other *ranked) bool { return r.rank < other.rank }

// FuzzHeap checks that the first item has the lowest rank, whatever is added, removed and ranked anew. Each two bytes are a step.
func FuzzHeap(f *testing.F) {
	f.Add([]byte{0, 5, 0, 3, 0, 9, 1, 0, 2, 7, 3, 0, 0, 1, 2, 200, 3, 0, 3, 0, 3, 0})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var heap share.Heap[*ranked]
		var all []*ranked
		for ; len(steps) > 1; steps = steps[2:] {
			n := int(steps[1])
			switch kind := steps[0] % 4; {
			case kind == 0 || len(all) == 0:
				all = append(all, &ranked{rank: n})
				heap.Push(all[len(all)-1])
			case kind == 1:
				i := n % len(all)
				heap.Remove(all[i])
				heap.Remove(all[i]) // again: it does nothing
				if all[i].Waits() {
					t.Fatal("it is still in the heap")
				}
				all = slices.Delete(all, i, i+1)
			case kind == 2:
				x := all[n%len(all)]
				x.rank += n - 100
				heap.Fix(x)
			default:
				x := heap.Pop()
				if x.Waits() {
					t.Fatal("it is still in the heap")
				}
				all = slices.DeleteFunc(all, func(r *ranked) bool { return r == x })
				if slices.ContainsFunc(all, func(r *ranked) bool { return r.Before(x) }) {
					t.Fatalf("%d is not the first", x.rank)
				}
			}
			if heap.Len() != len(all) || slices.ContainsFunc(all, func(r *ranked) bool { return !r.Waits() || r.Before(heap.First()) }) {
				t.Fatalf("%d in the heap, want %d; or the first is not", heap.Len(), len(all))
			}
		}
		if n := len(slices.Collect(heap.All())); n != len(all) {
			t.Fatalf("%d in all", n)
		}
	})
}
