// Package webhook sends requests to URLs that callers have chosen: which URLs they may be, what a request may cost, in which order
// requests are sent, and which instance sends them. What is sent, and how often, is the matter of its users: package push of A2A, and
// package callbacks.
//
// A [Client] checks a URL when it is set, and sends requests, which follow no redirect and read little of the answer. Its transport
// checks each address that it connects to. In a [Schedule], owners take turns, and so do the hosts of an owner; a [Rate]
// limits how many requests they get in a time. An [Index] in the
// storage has the instance that sends the requests for a run, so that another one takes over when that instance has ended.
package webhook
