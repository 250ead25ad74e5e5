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

// Eventually waits for something to become true, and fails the test if it does
// not in time.
func Eventually(tb testing.TB, atMost time.Duration, holds func() bool, what string) {
	tb.Helper()
	for deadline := time.Now().Add(atMost); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", atMost, what)
		}
	}
}

// CheckLeaks fails the test if goroutines are left over when it has ended, other
// than those there are now and those that Caddy leaves behind. It is called before
// anything else, so that it looks after everything else has ended.
func CheckLeaks(tb testing.TB) {
	tb.Helper()
	options := append([]goleak.Option{goleak.IgnoreCurrent()}, CaddyGoroutines()...)
	tb.Cleanup(func() {
		if err := goleak.Find(options...); err != nil {
			tb.Error(err)
		}
	})
}

// CaddyGoroutines ignores what a stopped Caddy leaves behind.
func CaddyGoroutines() []goleak.Option {
	return []goleak.Option{
		// The file storage refreshes a lock until it notices, after some seconds,
		// that it has been released.
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"),
	}
}

// HeapInUse is how much memory is in use after all garbage was collected.
func HeapInUse() int64 {
	debug.FreeOSMemory() // collects twice as much as a collection: finalizers' too
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // fits
}

// OpenFiles is how many files this process has open.
func OpenFiles(tb testing.TB) int {
	tb.Helper()
	return measure(tb, os.Getpid(), procfs.Proc.FileDescriptorsLen)
}

// CPU is the processor time that a process has used, to 10 ms.
func CPU(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	return time.Duration(measure(tb, pid, procfs.Proc.Stat).CPUTime() * float64(time.Second))
}

// hasProc is whether processes and sockets can be measured: Linux lists them in /proc.
const hasProc = runtime.GOOS == "linux"

// measure reads something about a process. It skips the test where there is no /proc.
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

// listeners is how many sockets listen on a TCP port.
func listeners(tb testing.TB, port string) (count int) {
	tb.Helper()
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		tb.Fatal(err)
	}
	for _, table := range []func() (procfs.NetTCP, error){fs.NetTCP, fs.NetTCP6} { //nolint:staticcheck // netlink is far more code
		sockets, err := table()
		if err != nil {
			tb.Fatal(err)
		}
		const listening = 0x0A // see proc_net_tcp in the kernel's documentation
		for _, s := range sockets {
			if s.St == listening && strconv.FormatUint(s.LocalPort, 10) == port {
				count++
			}
		}
	}
	return count
}
