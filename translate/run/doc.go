// Package run has the types for runs, which the fronts, the bridge and the providers' side share.
// Each front translates them into its own protocol.
//
// A [Ref] identifies a run, a [Run] is its outcome so far, a [State] its state, a [Failure] an
// error of a call or run, and a [Caller] is who makes a call.
package run
