//go:build race

package bridge

func init() { raceDetector = true }
