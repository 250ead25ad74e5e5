// Package runtokens makes the run tokens of a handler. A token is bound to the source of the
// run and to the handler's options name and principal, and so is not accepted by a handler
// with another name, wherever it is.
package runtokens
