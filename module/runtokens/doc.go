// Package runtokens makes the run tokens of a handler. A token is bound to the handler's
// source, name and principal, and without a name to the hosts and matchers of the routes
// that lead to the handler, so that another site's handler does not accept it.
package runtokens
