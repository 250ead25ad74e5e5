// Package faults tests the bridge in a real Caddy with failing providers and
// networks. Each row of testdata/README.md whose number begins with R is a test
// here. Rows that take minutes, or that restrict the resources of the machine, run
// only if the environment variable SKILL_BRIDGE_SLOW_TESTS is set.
package faults
