// Package panics makes a panic of a goroutine one of the goroutine that waits for it.
package panics

import (
	"fmt"
	"runtime/debug"

	"golang.org/x/sync/errgroup"
)

// Panic is a panic of another goroutine, as an error.
type Panic struct { //nolint:errname // it is what it says: the value of a panic
	Value any
	stack []byte
}

// Error says where the panic was.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.stack) }

// Recovered calls a function, and returns its [Panic]; nil: there was none.
func Recovered(f func()) (err error) {
	defer func() {
		switch value := recover().(type) {
		case nil:
		case *Panic: // of a goroutine that f has waited for
			err = value
		default:
			err = &Panic{value, debug.Stack()}
		}
	}()
	f()
	return nil
}

// Raise panics if an error is a [Panic], and not only has one as its cause. A goroutine that has waited for another one calls it with what was [Recovered]
// there, since only its own panics are recovered and reported: one elsewhere would end the process.
func Raise(err error) {
	if p, ok := err.(*Panic); ok { //nolint:errorlint // see above
		panic(p)
	}
}

// Group runs functions in goroutines, whose panics are those of the goroutine that waits for them. The zero Group is ready for use.
type Group struct{ running errgroup.Group }

// SetLimit bounds how many functions run at a time. Go waits for a place.
func (g *Group) SetLimit(n int) { g.running.SetLimit(n) }

// Go runs a function.
func (g *Group) Go(f func()) { g.running.Go(func() error { return Recovered(f) }) }

// Wait waits until all functions have returned, and raises the first [Panic].
func (g *Group) Wait() { Raise(g.running.Wait()) }
