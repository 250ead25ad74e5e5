// Package task has the data of the tasks of the A2A front: their messages, states, events and sizes, and the records
// that they are stored as. It uses neither JSON-RPC nor the versions of A2A.
//
// A [Task] is one version of a task. It is immutable once it is shared. [Next] makes the next version and numbers it.
package task
