package skillsharing

import "testing"

// repeating is how many of some calls at a time may repeat their invocation.
func repeating(b *RetryBudget, calls int) (n int) {
	all := make([]spending, calls)
	for i := range all {
		all[i] = b.begin()
	}
	for i := range all {
		if all[i].mayRepeat() {
			n++
		}
	}
	for i := range all {
		all[i].end()
	}
	return n
}

// repeatingBeside is how many of some calls at a time may repeat their invocation while
// others are repeated by the transport.
func repeatingBeside(b *RetryBudget, calls, others int) int {
	all := make([]spending, others)
	for i := range all {
		all[i] = b.begin()
		defer all[i].end()
		for range 3 {
			all[i].repeat()
		}
	}
	return repeating(b, calls)
}

func TestRetryBudget(t *testing.T) {
	for _, tc := range []struct {
		share float64
		calls int
		want  int // of the calls, those that may repeat
	}{{0, 100, 0}, {0.2, 1, 1}, {0.2, 10, 3}, {0.2, 100, 20}, {1, 100, 100}} {
		b := NewRetryBudget(tc.share)
		if got := repeating(b, tc.calls); got != tc.want {
			t.Errorf("share %v of %d calls: %d may repeat, want %d", tc.share, tc.calls, got, tc.want)
		}
		if got := repeating(b, tc.calls); got != tc.want {
			t.Errorf("share %v of %d calls, once more: %d may repeat, want %d", tc.share, tc.calls, got, tc.want)
		}
	}
}

// What the transport repeats is taken from the budget while its call goes on.
func TestRetryBudgetOfTheTransport(t *testing.T) {
	b := NewRetryBudget(0.2)
	for _, tc := range []struct{ calls, others, want int }{{10, 0, 3}, {10, 2, 1}, {10, 5, 0}, {80, 20, 0}, {90, 10, 10}, {10, 0, 3}} {
		if got := repeatingBeside(b, tc.calls, tc.others); got != tc.want {
			t.Errorf("%d calls beside %d that are repeated: %d may repeat, want %d", tc.calls, tc.others, got, tc.want)
		}
	}
}
