// Package schema compiles the JSON Schemas of a skill's inputs, bounds what they cost, applies them to arguments, and says in
// English why an argument does not fit.
//
// A [Compiler] compiles the schemas of one descriptor into a [Schema] each. A schema of some hundred bytes can take years to
// compile or to apply. So the compiler estimates the work before it begins, and the cost of applying the schema before it
// is used, and refuses what exceeds [Limits]. [Schemas] keeps the compiled ones in a bounded memory. The violations of the
// protocol's own documents get their words here, too ([ViolationsOf]).
package schema
