// Package push delivers the events of tasks to the webhooks that clients have set, in order and at least once (A2A 1.0,
// section 4.3).
//
// A [Deliverer] delivers the events of the tasks that it observes. Like these tasks, it is kept over reloads. [Webhooks] has the
// options of one configuration. A request uses the newest configuration that owns the task.
//
// # Order and repetition
//
// Each webhook has a queue of events, its line. The first event is sent until it is delivered or has failed six times, then the
// next one. When a line has 64 events, the newest state of the task replaces them. So a webhook may miss events or get them
// twice, but never gets an older one after a newer one. After five lost events in a row, nothing more is sent to the webhook.
//
// A task holds the number of the last event that each of its webhooks got. An index in the storage has a record for each task with
// webhooks, with the instance that sends its events. Other instances read it, and take over the tasks of instances that have ended.
//
// The run of a task with webhooks is followed until its end, also while its provider can't be reached.
//
// # Cost
//
// Clients choose the addresses, so the number of requests is bounded: 64 at a time, of which 16 for one owner of tasks
// and 8 to one host; for each webhook eight at once and then one each second. A task has up to eight webhooks. A request
// lasts up to 10 s. There are up to 20,000 lines, with 10,000 events and 32 MiB together. Further events are read from the
// storage later.
package push
