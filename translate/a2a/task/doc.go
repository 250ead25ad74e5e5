// Package task keeps the tasks of the A2A front: their data, their changes, the subscriptions to
// the changes, and their storage. It uses neither JSON-RPC nor the versions of A2A.
//
// A [Task] is one version of a task. It is immutable once it is shared. [Tasks.Change] makes the
// next version, numbers it, and delivers its events to all subscribers in the same order.
package task
