//go:build race

package translate

func init() { raceDetector = true }
