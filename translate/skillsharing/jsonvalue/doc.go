// Package jsonvalue reads untrusted JSON into Go values, within bounds, and describes what is wrong with a value.
//
// [Read] returns the types that package jsonschema works on. It refuses JSON that parsers read differently, such as an
// object with the same name twice, and numbers for which exact arithmetic takes too long. [Violations] collects the faults
// of a value, each with its JSON Pointer.
package jsonvalue
