// Package attacks tests the bridge in a real Caddy against malicious providers,
// documents and agents. Each row of testdata/README.md whose number begins with S
// is a test here.
package attacks
