// Package task keeps the tasks of the A2A front: what they are, how they change, who follows
// their changes, and how they are stored. It knows neither JSON-RPC nor the versions of A2A.
//
// A [Task] is a value that is never changed once others can see it. [Tasks.Change] makes the
// next one, numbers it and shows it to all subscribers in one order.
package task
