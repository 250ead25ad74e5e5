package bridge

import (
	"cmp"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
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
	// Example: `{"runs": 2000, "runs_per_provider": 500, "skills": 1000}`.
	Limits *Limits `json:"limits,omitempty"`
}

const (
	defaultMaxRequestSize  = 1 << 20
	defaultMaxResponseSize = 10 << 20
	defaultMaxBatch        = 50
)

// runMemory is the estimated memory of a call, in bytes.
const runMemory = 64 << 10

// limits returns the configured limits, with defaults for the others.
func (b *Bounds) limits() Limits {
	var l Limits
	if b.Limits != nil {
		l = *b.Limits
	}
	l.Runs = cmp.Or(l.Runs, affordableRuns(debug.SetMemoryLimit(-1)))
	l.RunsPerProvider = cmp.Or(l.RunsPerProvider, max(1, l.Runs/2))
	l.Waiting = cmp.Or(l.Waiting, l.Runs)
	l.Polls = cmp.Or(l.Polls, max(defaultPolls, l.Runs))
	l.ConnectionOverhead = cmp.Or(l.ConnectionOverhead, defaultConnectionOverhead)
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
	l, standard := b.limits(), document.DefaultLimits()
	return document.Limits{
		Depth:              cmp.Or(l.Depth, standard.Depth),
		DocumentSize:       min(cmp.Or(l.DocumentSize, standard.DocumentSize), b.maxResponseSize()),
		Skills:             cmp.Or(l.Skills, standard.Skills),
		Parameters:         cmp.Or(l.Parameters, standard.Parameters),
		SchemaSize:         int(cmp.Or(l.SchemaSize, int64(standard.SchemaSize))),
		SchemaComplexity:   cmp.Or(l.SchemaComplexity, standard.SchemaComplexity),
		ArgumentComplexity: cmp.Or(l.ArgumentComplexity, standard.ArgumentComplexity),
		OutputSize:         cmp.Or(l.OutputSize, b.maxResponseSize()),
		Reads:              cmp.Or(l.Reads, standard.Reads),
		FailedReads:        cmp.Or(l.FailedReads, standard.FailedReads),
		BodyTimeout:        orDefault(l.BodyTimeout, standard.BodyTimeout),
	}
}

// maxResponseSize returns the maximum size of any answer of a provider, in bytes.
func (b *Bounds) maxResponseSize() int64 { return cmp.Or(b.MaxResponseSize, defaultMaxResponseSize) }

// answerSize returns the maximum size of the answer to a batch, in bytes.
func (b *Bounds) answerSize() int64 {
	if b.Limits != nil && b.Limits.AnswerSize > 0 {
		return b.Limits.AnswerSize
	}
	return max(defaultAnswerSize, 2*min(b.maxResponseSize(), math.MaxInt64/2))
}

// answers returns how many bytes all unread answers may have together, under a memory limit.
func (b *Bounds) answers(memory int64) int64 {
	if b.Limits != nil && b.Limits.Answers > 0 {
		return b.Limits.Answers
	}
	if memory == math.MaxInt64 { // there is no limit
		memory = 4 * defaultAnswers
	}
	return max(min(memory/4, defaultAnswers), b.answerSize())
}

// checkAnswers checks that answers is not less than the size of the largest answer to a batch.
func (b *Bounds) checkAnswers() error {
	if b.Limits == nil || b.Limits.Answers == 0 || b.Limits.Answers >= b.answerSize() {
		return nil
	}
	return fmt.Errorf("answers %d is less than limits answer_size %d, so an answer of that size would always be refused", b.Limits.Answers, b.answerSize())
}

// checkAnswerSize checks that the largest output fits into an answer.
func (b *Bounds) checkAnswerSize() error {
	if b.Limits == nil || b.Limits.AnswerSize == 0 {
		return nil
	}
	name, output := "limits output_size", b.Limits.OutputSize
	if output == 0 {
		name, output = "max_response_size", b.maxResponseSize()
	}
	if b.Limits.AnswerSize < output {
		return fmt.Errorf("answer_size %d is less than the %d of %s, so an output of that size would always be refused", b.Limits.AnswerSize, output, name)
	}
	return nil
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
		{"limits.depth", l.Depth},
		{"limits.document_size", l.DocumentSize},
		{"limits.skills", l.Skills},
		{"limits.parameters", l.Parameters},
		{"limits.schema_size", l.SchemaSize},
		{"limits.schema_complexity", l.SchemaComplexity},
		{"limits.argument_complexity", l.ArgumentComplexity},
		{"limits.output_size", l.OutputSize},
		{"limits.answer_size", l.AnswerSize},
		{"limits.answers", l.Answers},
		{"limits.body_timeout", l.BodyTimeout},
		{"limits.connection_overhead", l.ConnectionOverhead},
		{"limits.runs", l.Runs},
		{"limits.runs_per_provider", l.RunsPerProvider},
		{"limits.reads", l.Reads},
		{"limits.failed_reads", l.FailedReads},
		{"limits.polls", l.Polls},
		{"limits.waiting", l.Waiting},
	})
	if l.Depth != 0 && (l.Depth < minDepth || l.Depth > maxDepth) {
		c.Check("limits.depth", fmt.Errorf("depth %d is out of range: it is %d to %d", l.Depth, minDepth, maxDepth))
	}
	if runs := cmp.Or(l.Runs, defaultMaxRuns); l.RunsPerProvider > runs {
		c.Check("limits.runs_per_provider", fmt.Errorf("%d runs per provider are more than the total of %d", l.RunsPerProvider, runs))
	}
	c.Check("limits.waiting", l.checkWaiting())
	if l.SchemaSize > math.MaxInt/4 { // all schemas of a skill together may have four times as much
		c.Check("limits.schema_size", fmt.Errorf("schema_size %d is too large", l.SchemaSize))
	}
	// Header fields and content that was not read yet are part of the overhead.
	if n := l.ConnectionOverhead; 0 < n && n < minConnectionOverhead {
		c.Check("limits.connection_overhead",
			fmt.Errorf("connection_overhead %d is too small: the minimum is %d (256KiB)", n, minConnectionOverhead))
	}
	c.Check("limits.document_size", b.checkReachable("document_size", l.DocumentSize))
	c.Check("limits.output_size", b.checkReachable("output_size", l.OutputSize))
	c.Check("limits.answer_size", b.checkAnswerSize())
	c.Check("limits.answers", b.checkAnswers())
}

// checkReachable checks that a size limit is not above max_response_size, where it has no effect.
func (b *Bounds) checkReachable(name string, size int64) error {
	if size <= b.maxResponseSize() {
		return nil
	}
	return fmt.Errorf("%s %d is more than max_response_size, which is %d%s, so it has no effect",
		name, size, b.maxResponseSize(), byDefaultText(b.MaxResponseSize == 0))
}
