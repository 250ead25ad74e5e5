package observe

import (
	"strconv"
	"testing"
	"time"
)

// TestSourceLimiter: what one source has to tell takes no room from another, and that
// there was more is told.
func TestSourceLimiter(t *testing.T) {
	l, now := newLimiter(3), time.Unix(0, 0)
	told, more := 0, 0
	for i := range 1000 {
		_, due, full := l.due("loud", strconv.Itoa(i), now)
		switch {
		case full:
			more++
		case due:
			told++
		}
	}
	if told != 3 || more != 1 {
		t.Errorf("%d lines and %d times that there are more, want 3 and 1", told, more)
	}
	if _, due, full := l.due("quiet", "a", now); !due || full {
		t.Errorf("another source: due %v, full %v", due, full)
	}
	if _, due, full := l.due("loud", "0", now); due || full {
		t.Errorf("what was told: due %v, full %v", due, full)
	}
	now = now.Add(lineInterval)
	if dropped, due, _ := l.due("loud", "0", now); !due || dropped != 1 {
		t.Errorf("later: due %v, %d left out", due, dropped)
	}
}
