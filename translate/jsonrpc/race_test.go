//go:build race

package jsonrpc

func init() { raceDetector = true }
