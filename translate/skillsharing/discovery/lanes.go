package discovery

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
)

// Lane is what the descriptors of a publisher at one host have in common: they are likely to be readable, or slow, together. The zero Lane is that
// of a source's indexes.
type Lane struct {
	Publisher string // in the ids of the skills of a registry
	Host      string // with the port, as it is written
}

// LaneOf returns the lane of a descriptor and the id in its index entry. Only registries list skills of several publishers.
func LaneOf(at Location, id string, inRegistry bool) Lane {
	_, rest, _ := strings.Cut(string(at), "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if !inRegistry {
		return Lane{Host: rest}
	}
	return Lane{publisherOf(id), rest}
}

// Hostname returns the host without the port.
func (l Lane) Hostname() string { return (&url.URL{Host: l.Host}).Hostname() }

// IsFresh reports whether the cache has a fresh descriptor for a location, so that reading it does not wait for its host.
func IsFresh(r *Reader, at Location) bool {
	of := at.address()
	doc, _ := r.peek(&of)
	return doc != nil && time.Now().Before(doc.ExpiresAt)
}

// laneAtOnce is how many documents of one lane are read at a time, and about as many of one host or publisher with several lanes.
const laneAtOnce = 8

// Read calls read once for each of the documents of a source that lanes have, with their numbers. read returns whether the context has ended before the
// document was read.
//
// The lanes are read at the same time. Read waits for a lane only while documents of it arrive, and not longer than a list waits for a source as a whole. Then
// the context of the reads has ended, so that they have what is in memory. What was begun is read to its end, so that the next list has it.
func (s *Stalls) Read(ctx context.Context, lanes map[int]Lane, read func(ctx context.Context, i int) (late bool)) {
	whole, cancel := context.WithTimeout(ctx, s.patience(wholeLane, wholePatience, tiredPatience))
	defer cancel()
	documents, publishers, hosts := map[Lane][]int{}, map[string]int{}, map[string]int{}
	for i, l := range lanes {
		if documents[l] == nil {
			publishers[l.Publisher]++
			hosts[l.Hostname()]++
		}
		documents[l] = append(documents[l], i)
	}
	usual := lanePatience
	if s.many() {
		usual = briefPatience
	}
	var group panics.Group
	for l, own := range documents {
		patience := s.patience(l, usual, leastPatience)
		if slices.Sort(own); patience == leastPatience { // those that came first have stalled
			rand.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] }) //nolint:gosec // no secret depends on it: an order that differs each time
		}
		most := max(1, laneAtOnce/max(publishers[l.Publisher], hosts[l.Hostname()]))
		group.Go(func() {
			if readLane(whole, own, most, patience, read) && ctx.Err() == nil {
				s.note(l)
			}
		})
	}
	group.Wait()
	if errors.Is(whole.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		s.note(wholeLane)
	}
}

// readLane reads the documents of a lane, so many at a time, while they arrive. It reports whether the lane has stalled.
func readLane(ctx context.Context, documents []int, most int, patience time.Duration, read func(ctx context.Context, i int) (late bool)) bool {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	timer := time.AfterFunc(patience, func() { giveUp(context.DeadlineExceeded) })
	defer timer.Stop()
	var stalled atomic.Bool
	var group panics.Group
	group.SetLimit(most)
	for _, i := range documents {
		group.Go(func() {
			if read(ctx, i) {
				stalled.Store(true)
			}
			timer.Reset(patience)
		})
	}
	group.Wait()
	return stalled.Load()
}
