// Package guards has the bounds that are no options: they are far from what honest agents and providers need, so that no operator
// has a reason to change them.
package guards

import (
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Guards are the bounds.
type Guards struct {
	// Reading bounds documents, answers and arguments, beside what options say.
	Reading document.Limits

	// AnswerSize is how many bytes the answer to a batch may have, not counting ids, or twice the largest answer of a provider if
	// that is more: 50 outputs of 10 MiB would be more than an agent reads.
	AnswerSize int64

	// ConnectionOverhead is how many bytes a provider may send on an HTTP/2 connection besides the content of its answers, for
	// each call that uses the connection, and a sixteenth of that while no call does: empty frames, pings, header fields, data of
	// cancelled requests. Header fields of up to 64 KiB and content that was not read yet are part of it.
	ConnectionOverhead int64

	// Polls is how many status requests per second a host may get that find no end of a run, so that runs that go on for long do
	// not overload it. Each request that finds an end allows some more.
	Polls int

	// AllPolls is how many status requests per second a host may get at all; 0: as many as there may be runs, and at least Polls,
	// so that each run may be asked about once a second.
	AllPolls int
}

// Current are the guards of the bridges that are provisioned. Only tests change it, so that they need fewer requests.
var Current = Guards{
	Reading:            document.DefaultLimits(),
	AnswerSize:         20 << 20,
	ConnectionOverhead: 4 << 20,
	Polls:              1000,
}
