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
	indexPatience = 5 * time.Second  // for the indexes
	lanePatience  = 3 * time.Second  // for the next descriptor of a lane
	briefPatience = time.Second      // the same, if other lanes wait for their turn; and for the first one, if many lanes have stalled
	wholePatience = 10 * time.Second // for all descriptors
	tiredPatience = 2 * time.Second  // for all descriptors, after a list has waited that long

	stallMemory   = time.Minute // since a lane has stalled the last time
	longestStreak = 5           // each stall halves the patience with a lane, up to this number
	manyStalled   = 8           // lanes, after which there is little patience with the others of the source
	maxStalled    = 1024        // lanes that are remembered
)

// Stalls remembers which lanes of a source have let lists wait in vain, so that those of a source, and the pages of a list, do not wait for them
// again and again. It is safe for concurrent use; the zero value is empty.
type Stalls struct {
	mu    sync.Mutex
	lanes map[Lane]stalled
	whole time.Time // when all lanes together have used up the patience of a list
}

// stalled are the stalls of a lane.
type stalled struct {
	times int // in a row
	last  time.Time
}

// recent returns how often a lane has stalled.
func (s *Stalls) recent(l Lane, now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.lanes[l]; now.Sub(known.last) < stallMemory {
		return known.times
	}
	return 0
}

// note notes that a lane has stalled.
func (s *Stalls) note(l Lane, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	known := s.lanes[l]
	if s.lanes == nil {
		s.lanes = map[Lane]stalled{}
	}
	if known.times > 0 || len(s.lanes) < maxStalled {
		s.lanes[l] = stalled{min(known.times+1, longestStreak), now}
	}
}

// noteWhole notes that the descriptors of the source took longer than a list waits for all of them.
func (s *Stalls) noteWhole(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = now
}

// temper returns how long a list waits for all descriptors, and whether many lanes have stalled.
func (s *Stalls) temper(now time.Time) (whole time.Duration, many bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	if whole = wholePatience; now.Sub(s.whole) < stallMemory {
		whole = tiredPatience
	}
	return whole, len(s.lanes) >= manyStalled
}

// forget removes what was long ago. The caller holds s.mu.
func (s *Stalls) forget(now time.Time) {
	maps.DeleteFunc(s.lanes, func(_ Lane, known stalled) bool { return now.Sub(known.last) >= stallMemory })
}

// Index calls read, which reads the list of the source's skills, with a context that ends when lists no longer wait for it. The reading itself goes on
// after that, and read gets a stale list if there is one.
func (s *Stalls) Index(ctx context.Context, read func(context.Context)) {
	indexes := Lane{}
	own, cancel := context.WithTimeout(ctx, indexPatience>>s.recent(indexes, time.Now()))
	defer cancel()
	read(own)
	if errors.Is(own.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		s.note(indexes, time.Now())
	}
}
