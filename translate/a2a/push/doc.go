// Package push delivers the events of tasks to the webhooks that clients have set, in order and at least once (A2A 1.0,
// section 4.3).
//
// A [Deliverer] belongs to the tasks that it observes, and outlives the configurations that use them. [Webhooks] are how one
// configuration may connect to webhooks. Delivery goes on with the newest one that owns the task.
//
// # Order and repetition
//
// Each webhook has a line of events. The first one is sent until it is delivered or has failed six times, then the next
// one. A line that is 64 events long is replaced by the newest state of the task. So events may be left out or repeated,
// but never overtake each other. After five lost events in a row, the webhook is given up.
//
// How far a webhook got is part of its task. A record of each task with webhooks is kept in an index, where an instance finds,
// after a restart, the tasks whose instance has ended, and goes on with them.
//
// # Cost
//
// A client chooses the addresses, so what it can cause is bounded: 64 requests at a time, of which 16 for one owner of tasks
// and 8 to one host; for each webhook eight requests at once and then one each second, so eight each second for a task. Requests
// last up to 10 s. The lines have up to 10,000 events and 32 MiB, and there are up to 20,000 of them. The rest stays in the
// storage until there is a place.
package push
