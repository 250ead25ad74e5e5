// Package cli is what the commands of `caddy skill-bridge` do with one provider or
// document, and how they show it. It knows neither Caddy nor flags: a command gives
// it a bridge and gets an exit status back.
package cli

// Exit statuses. Caddy's own are 1 to 3.
const (
	OK            = 0
	WrongUsage    = 1   // of the command, which has sent no request, as where Caddy can't start
	Invalid       = 1   // the document that was to be validated is not valid
	FailedRun     = 4   // the provider reported that the run failed
	ProtocolError = 5   // there is no result for any other reason
	Interrupted   = 130 // the user interrupted the command; shells report SIGINT with this status
)
