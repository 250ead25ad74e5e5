// Package task has the data of the tasks of the A2A front: their messages, states, events and sizes, and how they are stored in entries of the ledger. It
// uses neither JSON-RPC nor the versions of A2A.
//
// A [Task] is one version of a task. It is immutable once it is shared. [Change] makes the next version and numbers it.
package task
