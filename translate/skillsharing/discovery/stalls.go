package discovery

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

// How long a list waits for a source. What it does not wait for is read for the next list.
const (
	indexPatience = 5 * time.Second        // for the indexes
	lanePatience  = 3 * time.Second        // for the next descriptor of a lane
	briefPatience = time.Second            // the same, if many lanes of the source have stalled
	wholePatience = 10 * time.Second       // for all descriptors
	tiredPatience = 2 * time.Second        // for all descriptors, after a list has waited that long
	leastPatience = 250 * time.Millisecond // for what has stalled

	stallMemory = time.Minute // since something has stalled the last time
	manyStalled = 8           // lanes, after which there is little patience with the others of the source
	maxStalled  = 1024        // lanes that are remembered
)

// The lanes of the index of a source, and of all of its descriptors together.
var indexLane, wholeLane = Lane{}, Lane{Publisher: "*"}

// Stalls remembers which lanes of a source have let lists wait in vain, so that those of a source, and the pages of a list, do not wait for them
// again and again. It is safe for concurrent use; the zero value is empty.
type Stalls struct {
	mu    sync.Mutex
	lanes map[Lane]time.Time // when they have stalled
}

// patience returns how long to wait for a lane that is waited for usually as long as the first time, and the second after a stall.
func (s *Stalls) patience(l Lane, usual, after time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.lanes[l]) < stallMemory {
		return after
	}
	return usual
}

// note notes that a lane has stalled.
func (s *Stalls) note(l Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes == nil {
		s.lanes = map[Lane]time.Time{}
	}
	if _, known := s.lanes[l]; known || len(s.lanes) < maxStalled {
		s.lanes[l] = time.Now()
	}
}

// many forgets what was long ago, and reports whether many lanes have stalled.
func (s *Stalls) many() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.lanes, func(_ Lane, last time.Time) bool { return time.Since(last) >= stallMemory })
	return len(s.lanes) >= manyStalled
}

// Index calls read, which reads the list of the source's skills, with a context that ends when lists no longer wait for it. The reading itself goes on
// after that, and read gets a stale list if there is one.
func (s *Stalls) Index(ctx context.Context, read func(context.Context)) {
	own, cancel := context.WithTimeout(ctx, s.patience(indexLane, indexPatience, leastPatience))
	defer cancel()
	read(own)
	if errors.Is(own.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		s.note(indexLane)
	}
}
