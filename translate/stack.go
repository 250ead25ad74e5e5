package translate

// stackOfRun is about how much stack a run takes, in bytes.
const stackOfRun = 4 << 10

// GrowStack makes the stack of a new goroutine as large as a run needs it, if n is 0. To grow it later costs more, since all frames in use are
// adjusted then: 2 to 3 % of a short run. It is called first, where there are the fewest frames.
//
//go:noinline
func GrowStack(n int) byte {
	if n == 0 {
		return 0 // without clearing space: the frame is as large
	}
	var space [stackOfRun]byte
	return space[n%len(space)]
}
