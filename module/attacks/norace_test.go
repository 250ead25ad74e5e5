//go:build !race

package attacks_test

// raced is whether the race detector is at work, and costlier is how many times as
// much of memory and processor everything takes then, about.
const (
	raced    = false
	costlier = 1
)
