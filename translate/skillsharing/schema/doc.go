// Package schema compiles the JSON Schemas of a skill's inputs, limits the work for them, checks arguments against them,
// and describes in English why an argument is invalid.
//
// A [Compiler] compiles the schemas of one descriptor into a [Schema] each. A schema of some hundred bytes can take years
// to compile or to apply. So the compiler estimates the work of compiling a schema before it begins, and the work of
// applying it before it is used, and refuses a schema that exceeds [Limits]. [Schemas] keeps compiled schemas in bounded
// memory. [ViolationsOf] also describes the violations of the protocol's own documents.
package schema
