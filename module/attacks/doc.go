// Package attacks holds the tests of what somebody may try: a real bridge in a
// real Caddy, with providers, documents and agents that mean harm. Each row of
// testdata/README.md whose number begins with S is a test here.
package attacks
