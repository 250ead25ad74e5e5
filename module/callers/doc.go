// Package callers authenticates callers by keys. The operator writes a file with a line for
// each key: a principal and the SHA-256 of the key. The file is read again when it changes.
package callers
