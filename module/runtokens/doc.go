// Package runtokens makes the run tokens of a handler. A token is bound to the source of the
// run and to the handler's options name and principal. If the handler has no name, a token is
// bound to the hosts and matchers of the routes that lead to the handler instead. So another
// site's handler does not accept it.
package runtokens
