//go:build race

package polling_test

func init() { raceDetector = true }
