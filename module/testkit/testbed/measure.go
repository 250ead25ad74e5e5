package testbed

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"go.uber.org/goleak"
)

// Eventually waits until a condition holds, and fails the test if it does not in time.
func Eventually(tb testing.TB, atMost time.Duration, holds func() bool, what string) {
	tb.Helper()
	for deadline := time.Now().Add(atMost); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", atMost, what)
		}
	}
}

// CheckLeaks fails the test if it leaves goroutines behind, except those that exist now and those of
// [CaddyGoroutines]. Call it first in a test, because cleanups run in reverse order.
func CheckLeaks(tb testing.TB) {
	tb.Helper()
	options := append([]goleak.Option{goleak.IgnoreCurrent()}, CaddyGoroutines()...)
	tb.Cleanup(func() {
		if err := goleak.Find(options...); err != nil {
			tb.Error(err)
		}
	})
}

// CaddyGoroutines ignores the goroutines that a stopped Caddy leaves behind.
func CaddyGoroutines() []goleak.Option {
	return []goleak.Option{
		// The file storage refreshes a released lock for some more seconds.
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"),
	}
}

// HeapInUse returns the size of the heap after a garbage collection.
func HeapInUse() int64 {
	debug.FreeOSMemory() // also frees memory of finalized objects
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // fits
}

// OpenFiles returns the number of open files of this process.
func OpenFiles(tb testing.TB) int {
	tb.Helper()
	return measure(tb, os.Getpid(), procfs.Proc.FileDescriptorsLen)
}

// CPU returns the processor time of a process, in steps of 10 ms.
func CPU(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	return time.Duration(measure(tb, pid, procfs.Proc.Stat).CPUTime() * float64(time.Second))
}

// hasProc says whether there is /proc, from which processes and sockets are measured.
const hasProc = runtime.GOOS == "linux"

// measure reads a value about a process. It skips the test on systems without /proc.
func measure[T any](tb testing.TB, pid int, read func(procfs.Proc) (T, error)) T {
	tb.Helper()
	if !hasProc {
		tb.Skipf("%s has no /proc to measure with", runtime.GOOS)
	}
	process, err := procfs.NewProc(pid)
	if err != nil {
		tb.Fatal(err)
	}
	found, err := read(process)
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

// listeners returns how many sockets listen on each TCP port.
func listeners(tb testing.TB) map[string]int {
	tb.Helper()
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		tb.Fatal(err)
	}
	count := map[string]int{}
	for _, table := range []func() (procfs.NetTCP, error){fs.NetTCP, fs.NetTCP6} { //nolint:staticcheck // netlink needs far more code
		sockets, err := table()
		if err != nil {
			tb.Fatal(err)
		}
		const listening = 0x0A // see proc_net_tcp in the kernel's documentation
		for _, s := range sockets {
			if s.St == listening {
				count[strconv.FormatUint(s.LocalPort, 10)]++
			}
		}
	}
	return count
}
