// Package cost measures, in tests, what one input of a parser takes.
package cost

import (
	"runtime/metrics"
	"testing"
	"time"
)

// What one input of a fuzz target may take. Instrumented for coverage, code is some
// times slower, so that time is only to tell what takes seconds from what does not.
const (
	mostAllocated = 48 << 20
	mostTime      = 300 * time.Millisecond
)

// Cheap fails the test if a function takes too much, of which the least of some runs
// counts: whatever else the machine does only adds to it.
func Cheap(t *testing.T, what string, f func()) {
	t.Helper()
	least, allocs := time.Hour, ^uint64(0)
	for range 5 {
		before, start := heapAllocs(), time.Now()
		f()
		least, allocs = min(least, time.Since(start)), min(allocs, heapAllocs()-before)
		if least <= mostTime && allocs <= mostAllocated {
			return
		}
	}
	t.Errorf("%s took %s and allocated %d KiB", what, least, allocs>>10)
}

// heapAllocs is how many bytes have been allocated so far.
func heapAllocs() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
