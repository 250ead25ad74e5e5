package bridge

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
)

// Limits bounds what the bridge reads and how much it does at a time. In JSON, 0 means
// the default everywhere. What exceeds a limit is answered with an error that names the
// limit; nothing is truncated.
type Limits struct {
	// How deep arrays and objects may nest in requests and in answers of
	// providers (in documents at most 100 levels), from 2 to 10000. Default: 512.
	Depth int `json:"depth,omitempty"`

	// The largest index or descriptor accepted, in bytes after decompression.
	// At most `max_response_size`. Default: 4194304 (4 MiB), or `max_response_size` if that is less.
	DocumentSize int64 `json:"document_size,omitempty"`

	// How many skills an index, or a registry's answer, may list. Default: 10000.
	Skills int `json:"skills,omitempty"`

	// How many inputs a skill may have. Default: 500.
	Parameters int `json:"parameters,omitempty"`

	// The largest JSON Schema of one input, in bytes. The schemas of all inputs of a skill
	// together may have four times as many bytes, and its whole descriptor eight times as
	// many. Default: 65536 (64 KiB).
	SchemaSize int64 `json:"schema_size,omitempty"`

	// How many subschemas of an input's JSON Schema may apply to one value. It also bounds
	// the estimated time and memory for compiling all schemas of a skill, regular
	// expressions included: the default allows about 20 ms. 500 inputs with ordinary
	// schemas need a quarter of that, an input with 400 ordinary properties a fifth, and
	// one with 300 properties with unusual keywords (such as unevaluatedProperties or
	// $anchor) three quarters. Default: 2048.
	SchemaComplexity int `json:"schema_complexity,omitempty"`

	// How much work one request (a batch is one) may cause when its arguments are checked
	// against schemas, in steps of about 10 ns. An ordinary schema takes 10 to 40 steps for
	// each byte. Default: 100000000.
	ArgumentComplexity int `json:"argument_complexity,omitempty"`

	// The largest output of a run, in bytes of JSON. At most `max_response_size`.
	// Default: `max_response_size`.
	OutputSize int64 `json:"output_size,omitempty"`

	// The largest answer to a batch, in bytes, not counting ids. Calls whose output does not
	// fit are answered RATE_LIMITED; if the run was executed, with a run token for reading
	// the output later. Answers of a batch that wait for others are bounded by it, too. At
	// least `output_size`. Default: twice `max_response_size`, or 20971520 (20 MiB) if that
	// is more.
	AnswerSize int64 `json:"answer_size,omitempty"`

	// How many bytes all answers that agents have not read yet may have together. The first
	// 64 KiB of each answer do not count; a batch is one answer. Calls whose output does not
	// fit are answered RATE_LIMITED, as with `answer_size`. Outputs of tasks of A2A and MCP count
	// until they are stored; while there is no room for one, it waits, and its client is told to
	// read the task later. A caller whose answers are in memory gets more room only while as much
	// remains free as all its answers take: alone it has half. While answers are parsed and
	// written, up to about three times as much memory is in use. At least `answer_size`. Default: 1073741824 (1 GiB),
	// or a quarter of GOMEMLIMIT, which Caddy takes from its container or system, if that is
	// less; never less than `answer_size`.
	Answers int64 `json:"answers,omitempty"`

	// How long reading the body of a provider's answer, or writing an answer to an agent,
	// may go on without progress before the connection is closed. (For connecting and
	// TLS there are `dial_timeout` and `handshake_timeout` of the transport, and for waiting
	// for the header `response_header_timeout`; every call ends at its deadline. For agents
	// there are also the `timeouts` of Caddy's servers.) Default: `30s`.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// How many bytes a provider may send on an HTTP/2 connection besides the content of its
	// answers, for each call that uses the connection (and a sixteenth of that while no call
	// does): empty frames, pings, header fields, data of cancelled requests. If it sends
	// more, the connection is closed. At least 262144 (256 KiB). Default: 4194304 (4 MiB).
	ConnectionOverhead int64 `json:"connection_overhead,omitempty"`

	// How many calls may be in progress at a time. Further calls are answered RATE_LIMITED
	// at once. Default: 20000, or one for each 64 KiB of half of GOMEMLIMIT if that is fewer
	// (Caddy takes GOMEMLIMIT from its container or system).
	Runs int `json:"runs,omitempty"`

	// How many of these calls may be for one provider, skill or registry, so that none can
	// use up all `runs`. (In the Caddyfile, the second number after `runs`.) Default: half
	// of `runs`.
	RunsPerProvider int `json:"runs_per_provider,omitempty"`

	// How many descriptors of one provider or registry are read at a time. At most a quarter
	// of these reads, but at least one, may be from the same host or the same publisher, and
	// fewer if descriptors of many hosts and publishers are being read. (Skills have the same
	// publisher if their ids are equal up to the first slash, or in the first two labels.)
	// Half of the reads are reserved for hosts and publishers of which no other descriptor is
	// being read. Further reads wait; a call that ends before its read begins is answered
	// RATE_LIMITED. A read continues after its call has ended, and counts here and in `runs`;
	// it is cancelled if another read waits. Default: 64.
	Reads int `json:"reads,omitempty"`

	// Limits failing requests for documents to each host that only the provider's documents
	// name, which is neither the provider's own host nor in `trust`. To URLs whose last
	// request failed, this many requests may be sent at once, and as many per minute; each
	// such URL is not requested again for 1 s to 5 min. For URLs without a recent failure
	// there is a separate limit: four times as many requests (or four times `reads`, if that
	// is more) may fail at once, and this many per minute. Each publisher of a registry (as in
	// `reads`) has these limits, and all publishers together have twice these limits. Beyond
	// a limit, no request is sent: the answer is RATE_LIMITED, or a stale document. Cached
	// documents are still revalidated. Default: 60.
	FailedReads int `json:"failed_reads,omitempty"`

	// How many status requests per second one host may get for all runs together. The host is that of the status URL, or of the
	// result URL if there is no status URL. Further requests are delayed. Those for runs that have probably ended are sent first.
	// Those for runs near their deadline are sent just before it, but at most as many as all others. All providers, skills,
	// registries and handlers with the same number here share a host's limit, also across a reload; skills that another host
	// publishes have a separate limit. While the host answers 429 or 503, or takes more than two seconds, it gets fewer: half as
	// many after each such second, down to a 64th, and twice as many after each ten seconds without. Default: 1000 that find a run
	// unfinished; each that finds the end of a run allows 16 more, so that there may be as many as `runs`, and at least 1000.
	Polls int `json:"polls,omitempty"`

	// How many of the calls in progress may wait for a run that was submitted and has not
	// ended. Default: `runs`.
	Waiting int `json:"waiting,omitempty"`
}

const (
	defaultAnswerSize         = 20 << 20
	defaultAnswers            = 1 << 30
	defaultConnectionOverhead = 4 << 20
	minConnectionOverhead     = 256 << 10
	defaultMaxRuns            = 20_000
	defaultPolls              = 1000

	// A request needs two levels: an object in an object. The decoder's maximum is 10,000.
	minDepth = 2
	maxDepth = 10_000
)

// checkWaiting checks that waiting is at most runs, of which it is a part. Without runs it
// is compared with the largest default, so that a configuration is not valid on one machine
// and invalid on another that has less memory.
func (l *Limits) checkWaiting() error {
	switch {
	case l.Runs == 0 && l.Waiting > defaultMaxRuns:
		return fmt.Errorf("waiting %d is more than runs, which is %d by default, so it has no effect", l.Waiting, defaultMaxRuns)
	case l.Runs > 0 && l.Waiting > l.Runs:
		return fmt.Errorf("waiting %d is more than runs %d, so it has no effect", l.Waiting, l.Runs)
	}
	return nil
}
