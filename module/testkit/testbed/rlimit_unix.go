//go:build unix

package testbed

import "syscall"

// limitOpenFiles sets the limit of open files of this process.
func limitOpenFiles(n uint64) error {
	var limit syscall.Rlimit
	setNumber(&limit.Cur, n)
	setNumber(&limit.Max, n)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// setNumber sets a field whose type differs between FreeBSD and Linux.
func setNumber[T int64 | uint64](to *T, n uint64) { *to = T(n) }
