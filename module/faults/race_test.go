//go:build race

package faults_test

// raced is whether the race detector is at work, which makes everything several
// times as slow and as large.
const raced = true
