package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

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

// Goroutines is how many there are.
func Goroutines() int { return runtime.NumGoroutine() }

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
	return countFiles(tb, os.Getpid())
}

func countFiles(tb testing.TB, pid int) int {
	tb.Helper()
	needProc(tb)
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// RSS is the memory that a process occupies, in bytes.
func RSS(tb testing.TB, pid int) int64 {
	tb.Helper()
	needProc(tb)
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(size)[0], 10, 64)
			if err != nil {
				tb.Fatal(err)
			}
			return n << 10
		}
	}
	tb.Fatalf("no VmRSS of process %d", pid)
	return 0
}

// hasProc is whether processes and sockets can be counted: Linux lists them in /proc.
const hasProc = runtime.GOOS == "linux"

// needProc skips a test that counts them elsewhere.
func needProc(tb testing.TB) {
	tb.Helper()
	if !hasProc {
		tb.Skipf("%s has no /proc to count in", runtime.GOOS)
	}
}

// CPU is the processor time that a process has used, to 10 ms.
func CPU(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	needProc(tb)
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		tb.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ") // what is before has the program's name
	fields := strings.Fields(after)                // from the third, state
	var ticks int64
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// listeners is how many sockets listen on a TCP port.
func listeners(tb testing.TB, port string) int {
	tb.Helper()
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		tb.Fatal(err)
	}
	const listening = "0A" // in column st, see proc_net_tcp in the kernel's documentation
	count := 0
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join("/proc/net", table))
		if err != nil {
			tb.Fatal(err)
		}
		suffix := fmt.Sprintf(":%04X", number)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], suffix) && f[3] == listening {
				count++
			}
		}
	}
	return count
}
