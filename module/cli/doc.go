// Package cli implements the commands of `caddy skill-bridge` that ask an endpoint or check
// a document, and formats their results. It depends neither on Caddy nor on flags: package
// command passes it what sends a request, and gets an exit status back.
package cli

// Exit statuses. Caddy's own are 1 to 3.
const (
	OK            = 0
	WrongUsage    = 1   // no request was sent; Caddy uses the same status if it can't start
	Invalid       = 1   // the document to validate is invalid
	FailedRun     = 4   // the provider reported that the run failed
	ProtocolError = 5   // there is no result, for another reason
	Interrupted   = 130 // the user interrupted the command; shells report SIGINT with this status
)

// Verdict returns the exit status of a command that checks something.
func Verdict(valid bool) int {
	if valid {
		return OK
	}
	return Invalid
}
