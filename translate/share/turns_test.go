package share_test

import (
	"slices"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

func anyOne(int) bool { return true }

// Lines take turns, what may not have its turn is passed, and the line of what had its turn goes to the end.
func TestTurns(t *testing.T) {
	var turns share.Turns[string, int]
	for i, line := range []string{"a", "a", "a", "b", "c", "b"} {
		turns.Add(line, i)
	}
	if first := slices.Collect(turns.First()); !slices.Equal(first, []int{0, 3, 4}) {
		t.Errorf("first: %v", first)
	}
	if x, ok := turns.Next(func(x int) bool { return x == 3 }); !ok || x != 3 {
		t.Errorf("%d, %t", x, ok)
	}
	if _, ok := turns.Next(func(x int) bool { return x == 1 }); ok {
		t.Error("one that is not the first of its line has a turn")
	}
	if !turns.Remove("a", 1) || turns.Remove("a", 1) || turns.Remove("b", 0) || turns.Remove("x", 0) {
		t.Error("what is removed")
	}
	var order []int
	for x, ok := turns.Next(anyOne); ok; x, ok = turns.Next(anyOne) {
		order = append(order, x)
	}
	if !slices.Equal(order, []int{0, 4, 5, 2}) || !turns.IsEmpty() {
		t.Errorf("%v", order)
	}
}

// FuzzTurns checks that nothing is lost or has two turns, that a line keeps its order, and that no line has two turns while another one waits. Each byte is a
// step.
func FuzzTurns(f *testing.F) {
	f.Add([]byte{0, 0, 1, 2, 200, 200, 0, 100, 200, 3, 200})
	f.Fuzz(func(t *testing.T, steps []byte) {
		const lines = 4
		var turns share.Turns[int, int]
		waiting := map[int][]int{} // by line
		since := map[int]int{}     // turns of others since the line began to wait or had its last one
		for x, step := range steps {
			line := int(step) % lines
			switch {
			case step < 100:
				if len(waiting[line]) == 0 {
					since[line] = 0
				}
				waiting[line] = append(waiting[line], x)
				turns.Add(line, x)
			case step < 150:
				if list := waiting[line]; len(list) > 0 {
					last := list[len(list)-1]
					waiting[line] = list[:len(list)-1]
					if !turns.Remove(line, last) {
						t.Fatalf("%d is lost", last)
					}
				}
			default:
				next, ok := turns.Next(anyOne)
				if !ok {
					continue
				}
				for of, list := range waiting {
					if len(list) > 0 && list[0] == next {
						waiting[of], since[of] = list[1:], 0
						continue
					}
					if since[of]++; len(list) > 0 && since[of] >= lines {
						t.Fatalf("line %d waits for %d turns", of, since[of])
					}
				}
			}
			left := 0
			for _, list := range waiting {
				left += len(list)
			}
			if turns.IsEmpty() != (left == 0) {
				t.Fatalf("%d wait", left)
			}
		}
	})
}
