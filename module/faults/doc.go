// Package faults tests the bridge in a real Caddy with failing providers and
// networks. Each row of testdata/README.md whose number begins with R is a test
// here. Rows that take minutes, or that restrict the resources of the machine, run
// only if SKILL_BRIDGE_TESTS is minutes or hours.
package faults
