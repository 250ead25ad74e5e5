// Package wire decodes and encodes the JSON of A2A 1.0, 0.3 and 0.1: it decodes the params of the methods, and appends tasks,
// events, webhooks and errors to a buffer. Its functions are pure: they use neither HTTP nor the ledger.
//
// The params for a decoder have to be valid JSON. A decoder reports all errors in them as [Violation]s. If there is one, its
// other result is incomplete and must not be used. Results share no memory with the params.
package wire
