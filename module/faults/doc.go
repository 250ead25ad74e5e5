// Package faults holds the tests of what can break: a real bridge in a real
// Caddy, and a provider that fails in every way there is. Each row of
// testdata/README.md whose number begins with R is a test here. Rows that take
// minutes, or a machine with less than it usually has, run when the environment
// variable SKILL_BRIDGE_SLOW_TESTS is set.
package faults
