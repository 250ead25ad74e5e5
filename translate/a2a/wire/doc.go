// Package wire has the JSON of A2A 1.0, 0.3 and 0.1: it decodes the params of the methods, and appends tasks, events,
// webhooks and errors to a buffer. Its functions are pure. It knows neither HTTP nor how tasks are kept.
//
// Decoders are given params that are valid JSON. They report everything that is wrong with them as [Violation]s; what they
// return then is incomplete and must not be used. What they return shares no memory with the params.
package wire
