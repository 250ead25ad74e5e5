// Package servers starts the processes of the benchmarks: Caddy, nginx, the provider, and servers that are made with other libraries.
package servers

import (
	"context"
	"slices"
)

// Starter starts processes for a measurement, and stops them at its end.
type Starter struct {
	Context context.Context //nolint:containedctx // of the whole program
	Dir     string          // for all files
	Self    string          // path of the program, which is also the provider
	Caddy   string          // path of Caddy with the bridge

	atEnd []func()
}

// AtEnd adds a function that runs at the end of the measurement.
func (s *Starter) AtEnd(f func()) { s.atEnd = append(s.atEnd, f) }

// End stops everything that was started since the last End.
func (s *Starter) End() {
	for _, end := range slices.Backward(s.atEnd) {
		end()
	}
	s.atEnd = nil
}
