package faults_test

import (
	"flag"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// The tests that may run at a time wait: for leases, pauses and time limits. With the race detector, they have no time to wait.
func TestMain(m *testing.M) {
	if !raced {
		if err := flag.Set("test.parallel", "6"); err != nil { // the flag -parallel of go test still counts
			panic(err)
		}
	}
	testbed.Main(m)
}
