package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Bounds limit what the bridge reads, and how much it does at a time.
type Bounds struct {
	// The largest request accepted from an agent, in bytes. In JSON, 0 means the
	// default. Default: 1048576 (1 MiB).
	MaxRequestSize int64 `json:"max_request_size,omitempty"`

	// The largest answer accepted from a provider, in bytes, after
	// decompression. In JSON, 0 means the default. Default: 10485760
	// (10 MiB).
	MaxResponseSize int64 `json:"max_response_size,omitempty"`

	// How many requests a batch may have. They all start at once. In JSON, 0 means the
	// default. Default: 50.
	MaxBatch int `json:"max_batch,omitempty"`

	// Further bounds of what the bridge reads and of how much it does at a time.
	// Example: `{"runs": 2000, "runs_per_provider": 500}`.
	Limits *Limits `json:"limits,omitempty"`
}

// Limits bounds what the bridge reads and how much it does at a time. In JSON, 0 means
// the default everywhere. What exceeds a limit is answered with an error that names the
// limit; nothing is truncated.
type Limits struct {
	// How many calls may be in progress at a time. Further calls are answered RATE_LIMITED
	// at once. Default: 20000, or one for each 64 KiB of half of GOMEMLIMIT if that is fewer
	// (Caddy takes GOMEMLIMIT from its container or system).
	Runs int `json:"runs,omitempty"`

	// How many of these calls may be for one provider, skill or registry, so that none can
	// use up all `runs`. (In the Caddyfile, the second number after `runs`.) Default: half
	// of `runs`.
	RunsPerProvider int `json:"runs_per_provider,omitempty" option:"-"`

	// The largest index or descriptor accepted, in bytes after decompression.
	// At most `max_response_size`. Default: 4194304 (4 MiB), or `max_response_size` if that is less.
	DocumentSize int64 `json:"document_size,omitempty"`

	// The largest JSON Schema of one input, in bytes. The schemas of all inputs of a skill
	// together may have four times as many bytes, and its whole descriptor eight times as
	// many. Default: 65536 (64 KiB).
	SchemaSize int64 `json:"schema_size,omitempty"`

	// The largest output of a run, in bytes of JSON. At most `max_response_size`.
	// Default: `max_response_size`.
	OutputSize int64 `json:"output_size,omitempty"`

	// The memory for what may be large, in bytes. A 64th of it, and at least 8 MiB, is for compiled schemas. The rest is for
	// answers that agents have not read yet and for outputs of tasks of A2A and MCP until they are stored, not counting the
	// first 64 KiB of each; a batch is one answer. A call whose output does not fit is answered RATE_LIMITED, with a run token
	// for reading the output later; a task waits. A caller whose answers are in memory gets more only while as much remains
	// free as all its answers take: alone it has half. While answers are parsed and written, up to about three times as much
	// is in use. The rest is at least as much as the largest answer to a batch (20 MiB, or twice `max_response_size`).
	// Default: 1073741824 (1 GiB), or a quarter of GOMEMLIMIT, which Caddy takes from its container or system, if that is less.
	Memory int64 `json:"memory,omitempty"`
}

const (
	defaultMaxRequestSize  = 1 << 20
	defaultMaxResponseSize = 10 << 20
	defaultMaxBatch        = 50
	defaultMaxRuns         = 20_000
	defaultMemory          = 1 << 30

	// runMemory is the estimated memory of a call, in bytes.
	runMemory = 64 << 10
	// schemaShare is the part of the memory that compiled schemas have.
	schemaShare = 64
	// leastSchemas is the least memory for compiled schemas, which those of a few large descriptors take.
	leastSchemas = 8 << 20
)

// limits returns the configured limits, with defaults for the others.
func (b *Bounds) limits() Limits {
	var l Limits
	if b.Limits != nil {
		l = *b.Limits
	}
	available := debug.SetMemoryLimit(-1)
	l.Runs = cmp.Or(l.Runs, affordableRuns(available))
	l.RunsPerProvider = cmp.Or(l.RunsPerProvider, max(1, l.Runs/2))
	l.DocumentSize = min(cmp.Or(l.DocumentSize, guards.Current.Reading.DocumentSize), b.maxResponseSize())
	l.SchemaSize = cmp.Or(l.SchemaSize, int64(guards.Current.Reading.SchemaSize))
	l.OutputSize = cmp.Or(l.OutputSize, b.maxResponseSize())
	l.Memory = cmp.Or(l.Memory, min(available/4, defaultMemory))
	return l
}

// affordableRuns is the default of runs under a memory limit.
func affordableRuns(memory int64) int {
	if memory == math.MaxInt64 { // there is no limit
		return defaultMaxRuns
	}
	return int(min(defaultMaxRuns, max(1, memory/2/runMemory)))
}

// readingLimits returns the limits of documents and answers.
func (b *Bounds) readingLimits() document.Limits {
	own, l := b.limits(), guards.Current.Reading
	l.DocumentSize, l.SchemaSize, l.OutputSize = own.DocumentSize, int(own.SchemaSize), own.OutputSize
	return l
}

// maxResponseSize returns the maximum size of any answer of a provider, in bytes.
func (b *Bounds) maxResponseSize() int64 { return cmp.Or(b.MaxResponseSize, defaultMaxResponseSize) }

// answerSize returns the maximum size of the answer to a batch, in bytes.
func (b *Bounds) answerSize() int64 {
	return max(guards.Current.AnswerSize, 2*min(b.maxResponseSize(), math.MaxInt64/2))
}

// schemas returns how many bytes all compiled schemas may have.
func (l *Limits) schemas() int64 { return max(l.Memory/schemaShare, leastSchemas) }

// answers returns how many bytes all unread answers may have together.
func (b *Bounds) answers() int64 {
	l := b.limits()
	return max(l.Memory-l.schemas(), b.answerSize())
}

// check checks each limit, and limits against each other.
func (b *Bounds) check(c *options.Checker) {
	checkAmounts(c, []amount{
		{"max_request_size", b.MaxRequestSize}, {"max_response_size", b.MaxResponseSize}, {"max_batch", b.MaxBatch},
	})
	l := b.Limits
	if l == nil {
		return
	}
	checkAmounts(c, []amount{
		{"limits.runs", l.Runs},
		{"limits.runs_per_provider", l.RunsPerProvider},
		{"limits.document_size", l.DocumentSize},
		{"limits.schema_size", l.SchemaSize},
		{"limits.output_size", l.OutputSize},
		{"limits.memory", l.Memory},
	})
	if runs := cmp.Or(l.Runs, defaultMaxRuns); l.RunsPerProvider > runs {
		c.Check("limits.runs_per_provider", fmt.Errorf("%d runs per provider are more than the total of %d", l.RunsPerProvider, runs))
	}
	if l.SchemaSize > math.MaxInt/4 { // all schemas of a skill together may have four times as much
		c.Check("limits.schema_size", fmt.Errorf("schema_size %d is too large", l.SchemaSize))
	}
	c.Check("limits.document_size", b.checkReachable("document_size", l.DocumentSize))
	c.Check("limits.output_size", b.checkReachable("output_size", l.OutputSize))
	if least := b.answerSize() + max(leastSchemas, b.answerSize()/(schemaShare-1)); 0 < l.Memory && l.Memory < least {
		c.Check("limits.memory", fmt.Errorf("memory %s is too small: the minimum is %s, so that the largest answer to a batch has room", document.Bytes(l.Memory), document.Bytes(least)))
	}
}

// checkReachable checks that a size limit is not above max_response_size, where it has no effect.
func (b *Bounds) checkReachable(name string, size int64) error {
	if size <= b.maxResponseSize() {
		return nil
	}
	return fmt.Errorf("%s %s is more than max_response_size, which is %s%s, so it has no effect",
		name, document.Bytes(size), document.Bytes(b.maxResponseSize()), byDefaultText(b.MaxResponseSize == 0))
}

// CircuitBreaker decides when the bridge stops sending requests to a provider's host.
// Failures are: no connection, no TLS, no answer in time, and HTTP 502, 503 and 504; any
// other answer is a success, even a failed run or HTTP 429. While the breaker is open,
// calls are answered ENDPOINT_UNREACHABLE at once and documents are served stale; accepted
// runs are still polled. After the cooldown, one request at a time tests the host.
type CircuitBreaker struct {
	// How many failures in a row open the breaker. In JSON, 0 means the default. Default: 20.
	Failures int `json:"failures,omitempty"`

	// How long the breaker stays open before the host is tried again. In JSON, 0 means the
	// default. Default: `5s`.
	Cooldown caddy.Duration `json:"cooldown,omitempty"`

	// Never open the breaker; excludes the two others. (In the Caddyfile,
	// `circuit_breaker off`.) Default: false.
	Off bool `json:"off,omitempty" option:"-"`
}

const (
	defaultFailures = 20
	defaultCooldown = 5 * time.Second
)

// maxPatience is the maximum time after which an unanswered request counts as a failure of its
// host. Requests that end earlier, at the deadline of their call, do not count.
const maxPatience = 5 * time.Second

// breakerConfig returns the settings of the circuit breakers, with defaults.
func (h *Handler) breakerConfig() exchange.BreakerConfig {
	b := cmp.Or(h.CircuitBreaker, new(CircuitBreaker))
	return exchange.BreakerConfig{
		Failures: cmp.Or(b.Failures, defaultFailures),
		Cooldown: orDefault(b.Cooldown, defaultCooldown),
		Patience: min(orDefault(h.Timeout, defaultTimeout), maxPatience),
	}
}

func (b *CircuitBreaker) check(c *options.Checker) {
	if b == nil {
		return
	}
	checkAmounts(c, []amount{{"circuit_breaker.failures", b.Failures}, {"circuit_breaker.cooldown", b.Cooldown}})
	if b.Failures > math.MaxInt32 {
		c.Check("circuit_breaker.failures", fmt.Errorf("failures %d is too large", b.Failures))
	}
	if b.Off && (b.Failures != 0 || b.Cooldown != 0) {
		c.Check("circuit_breaker", errors.New("circuit_breaker is off, so it can have neither failures nor cooldown"))
	}
}
