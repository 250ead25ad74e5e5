// Package tasks keeps the tasks of the A2A front: their changes, the subscriptions to the changes, their bounds in
// memory, and their storage. It uses neither JSON-RPC nor the versions of A2A.
//
// [Tasks.Change] makes the next version of a task, and delivers its events to all subscribers in the same order.
package tasks
