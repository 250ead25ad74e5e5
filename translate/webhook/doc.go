// Package webhook sends requests to URLs that callers have chosen: which URLs they may be, what a request may cost, and in which order
// requests are sent. What is sent, when, and by which instance is the matter of package delivery.
//
// A [Client] checks a URL when it is set, and sends requests, which follow no redirect and read little of the answer. Its transport
// checks each address that it connects to. In a [Schedule], owners take turns, and so do the hosts of an owner; a rate
// limits how many requests they get in a time.
package webhook
