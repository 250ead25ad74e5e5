// Package keptruns keeps runs: it stores a record of a run before the run is submitted, follows the run to its end without
// its caller, and stores how it has ended. So a call can be repeated, and a lost connection loses no run.
//
// # Keys
//
// A call may have an idempotency key. [Runs.Execute] submits a call only if there is no run of its key yet: the lock of the key,
// which all instances of the storage share, is held from the look for the key until the provider has answered the submission.
// Then a further call with the key, and with the same skill and arguments, joins the run, or gets its stored outcome. The
// record is written before the submission. If a call finds a record of a submission without an answer, though it holds the
// lock, then the process that had submitted it is gone. It is not known whether the skill was executed, so the call is
// answered with that, and nothing is submitted. A submission that was certainly not executed frees its key.
//
// A key is in use for [Lifetime], of one owner. Its text is not stored, but its hash.
//
// # Following
//
// A kept run is followed by a goroutine of its own, first as part of the call that has submitted it, and then by
// calls of [Bridge.Resume] without a caller, until it has ended or its record has expired. While the provider can't be reached,
// there are pauses. After a reload, the newest [Follower] goes on; [Runs] are shared by the configurations. When the process ends,
// the record has what is needed to go on: another process does so, or the next call with the key. A process holds one lock while it lives,
// and its records name the lock, so that a process that finds a record of a run knows whether another one follows it.
//
// A record may have [Request.Notes] of a front, which get no other meaning here. Runs without a key may be kept, too:
// [Follower.Ended] is called once at least for each kept run that ends.
package keptruns
