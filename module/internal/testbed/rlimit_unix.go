//go:build unix

package testbed

import "syscall"

// limitOpenFiles bounds how many files this process may have open.
func limitOpenFiles(n uint64) error {
	var limit syscall.Rlimit
	setNumber(&limit.Cur, n)
	setNumber(&limit.Max, n)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// setNumber sets a number that has another type in FreeBSD than in Linux.
func setNumber[T int64 | uint64](to *T, n uint64) { *to = T(n) }
