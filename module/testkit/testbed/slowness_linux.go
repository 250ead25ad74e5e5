package testbed

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ordinary is how long [task] takes on the processor for which the bounds of tests on processor time are made.
const ordinary = 5 * time.Millisecond

// Ordinary returns a function that returns how long a process needed the processor since the call, converted to the processor for which the
// bounds of tests on processor time are made. While other programs run, a processor has less of its caches and of its clock rate for each, and
// the race detector slows all down.
func Ordinary(tb testing.TB, cpu func() time.Duration) func() time.Duration {
	tb.Helper()
	slowness := func() float64 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		least := time.Hour
		for range 3 {
			start := threadTime(tb)
			task(tb)
			least = min(least, threadTime(tb)-start)
		}
		return max(1, float64(least)/float64(ordinary))
	}
	first, before := slowness(), cpu()
	return func() time.Duration {
		tb.Helper()
		used := cpu() - before
		return time.Duration(float64(used) / max(first, slowness())) // other programs may have begun in the meantime
	}
}

// threadTime returns the processor time of the thread.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// task does some of what a bridge does: it reads and sorts texts.
func task(tb testing.TB) {
	tb.Helper()
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("%d.%s", i*7919%10_007, strings.Repeat("name ", i%10))
	}
	text, err := json.Marshal(names)
	if err != nil {
		tb.Fatal(err)
	}
	var read []any
	if err := json.Unmarshal(text, &read); err != nil {
		tb.Fatal(err)
	}
	slices.Sort(names)
}
