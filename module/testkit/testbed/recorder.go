package testbed

import (
	"fmt"
	"runtime"
	"testing"
)

// Recorder is a testing.TB that records failures, for tests of what fails a test.
type Recorder struct {
	testing.TB
	Failures []string
}

// Helper does nothing.
func (r *Recorder) Helper() {}

// Errorf records the format.
func (r *Recorder) Errorf(format string, _ ...any) { r.Failures = append(r.Failures, format) }

// Error records the arguments.
func (r *Recorder) Error(arguments ...any) { r.Failures = append(r.Failures, fmt.Sprint(arguments...)) }

// Fatalf records the format and ends the goroutine.
func (r *Recorder) Fatalf(format string, _ ...any) {
	r.Failures = append(r.Failures, format)
	runtime.Goexit()
}
