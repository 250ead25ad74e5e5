// Package schema reads the JSON that strangers publish, and compiles, bounds, applies and explains the JSON Schemas of it.
//
// A schema of some hundred bytes can take years to compile or to apply. So a schema is bounded when it is read, what it costs
// is worked out before it is compiled and before it is applied, and what does not fit is refused. Package document uses it for
// the documents of the protocol, package inputs for the arguments of calls.
package schema
