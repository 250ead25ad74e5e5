//go:build race

package skillbridge

func init() { raceDetector = true }
