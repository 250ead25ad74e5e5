// Package inputs checks the arguments of a call against the inputs that a descriptor defines, and describes these inputs as one
// JSON Schema for the tools of a language model.
package inputs
