// Package push has what is special of the webhooks of tasks (A2A 1.0, section 4.3): the methods that set, read and delete them, and what their requests say.
// Package delivery sends these, in order and at least once.
//
// [Webhooks] has the options of one configuration. A webhook is a delivery, whose target has the URL and the sealed secrets; so tasks don't hold their
// webhooks, only that they have, or had, some. A webhook stays as long as its task.
//
// Each event of a task is sent until the webhook has taken it or six requests have failed, then the next one. A webhook that has lost five events in a row gets
// no more until it is set again. If versions of a task were missed, such as by a restart, the event has the whole task.
package push
