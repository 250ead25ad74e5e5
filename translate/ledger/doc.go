// Package ledger keeps every run that outlives its request: it is claimed once, followed once, changed by compare-and-swap, and told to all who watch
// it, whichever instance of the bridge they use. It knows runs, not fronts: an A2A task, a call with an idempotency key and a run with a call-back are
// entries, and what only the front knows is in their notes.
//
// The entries are in a [Store], which instances share. Whatever depends on a time that instances share, such as an expiry or a lease, is decided by the
// Store, by its clock.
package ledger
