//go:build !linux

package testbed

import (
	"testing"
	"time"
)

// Ordinary returns a function that returns how long a process needed the processor since the call.
func Ordinary(_ testing.TB, cpu func() time.Duration) func() time.Duration {
	before := cpu()
	return func() time.Duration { return cpu() - before }
}
