// Package run has the types that describe runs. The fronts, the bridge and the client of the
// providers share them. Each front translates them into its own protocol.
//
// A [Ref] identifies a run, a [Run] is its outcome so far, a [State] its state, a [Failure] an
// error of a call or run, and a [Caller] is who makes a call.
package run
