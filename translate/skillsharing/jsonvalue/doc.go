// Package jsonvalue reads JSON that other people have written into Go values, within bounds, and says what is wrong with them.
//
// [Read] returns the types that package jsonschema works on. It refuses what two readers may understand differently, such as
// a name that appears twice in an object, and numbers that exact arithmetic can't handle in bounded time. [Violations] collects
// what is wrong with a value, each with the JSON Pointer of its place.
package jsonvalue
