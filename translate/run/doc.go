// Package run has the words in which everything here speaks of runs. Fronts,
// providers and the bridge between them share these types; each front translates
// them into the words of its own protocol, and no other package knows those.
//
// A [Ref] says which run is meant, a [State] how it is, a [Failure] why it or what came
// before it failed, and a [Caller] who asks.
package run
