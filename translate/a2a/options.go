package a2a

import "time"

// Options are what the operator chooses about the front.
type Options struct {
	// Versions that are served.
	Versions Versions
	// DefaultSkill is the name of the skill for messages that choose none; empty: there is none.
	DefaultSkill string
	// RejectUnclear refuses messages that choose no skill, instead of asking for one.
	RejectUnclear bool
	// ReplyMessage are the names of the skills whose output is the answer itself, without a task, where a client waits for it.
	ReplyMessage []string
	// Wait is how long a request waits for the end of a task.
	Wait time.Duration
	// Follow is how long a run is followed without a request.
	Follow time.Duration
	// Abandon makes running tasks cancelable: their run is no longer followed, and goes on.
	Abandon bool
	// Challenge is the WWW-Authenticate header field for callers without a principal (RFC 9110, section 11.6.1).
	Challenge string
}

// The defaults of Wait and Follow.
const (
	DefaultWait   = 50 * time.Second
	DefaultFollow = time.Hour
)

const (
	// maxWait01 bounds Wait for clients of A2A 0.1, which give up after 30 seconds.
	maxWait01 = 25 * time.Second
	// keepAlive is the interval of comments in streams.
	keepAlive = 15 * time.Second
	// maxStream bounds the duration of a stream.
	maxStream = time.Hour
)
