package lifetime

import (
	"testing"
	"time"
)

// TestUntilAnswers: a second before the end of the grace period, but not before
// half of it is over.
func TestUntilAnswers(t *testing.T) {
	for p, want := range map[period]time.Duration{
		{grace: 10 * time.Second}:                        9 * time.Second,
		{grace: 2 * time.Second}:                         time.Second,
		{grace: time.Second}:                             500 * time.Millisecond,
		{delay: 5 * time.Second, grace: 3 * time.Second}: 7 * time.Second,
	} {
		if got := p.untilAnswers(); got != want {
			t.Errorf("%+v: after %s, want %s", p, got, want)
		}
	}
}
