package a2a

import "time"

// Options are the operator's options for the front.
type Options struct {
	// Versions are the versions that are served.
	Versions Versions
	// DefaultSkill is the name of the skill for messages that choose none; empty: there is none.
	DefaultSkill string
	// Restricted says that access rules may deny the DefaultSkill to a caller, for whom there is none then.
	Restricted bool
	// ReplyMessage has the names of the skills whose output is the answer itself, without a task, if the client waits for it.
	ReplyMessage []string
	// Wait is the time that a request waits for the end of a task.
	Wait time.Duration
	// Abandon lets clients cancel tasks with a submitted run. The run goes on at the provider, but is no longer followed.
	Abandon bool
	// Streams is how many streams are open at most, and StreamsOfOne how many of one principal; all anonymous callers count as one.
	// 0: there is no limit.
	Streams, StreamsOfOne int
	// Challenge is the WWW-Authenticate header field in answers to callers without a principal (RFC 9110, section 11.6.1).
	Challenge string
}

const (
	// maxWait01 bounds Wait for clients of A2A 0.1, which give up after 30 seconds.
	maxWait01 = 25 * time.Second
	// keepAlive is the interval of comments in streams.
	keepAlive = 15 * time.Second
	// maxStream bounds the duration of a stream.
	maxStream = time.Hour
	// lastEvent is how much longer its client may read the last event.
	lastEvent = time.Minute
)
