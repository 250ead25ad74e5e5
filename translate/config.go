package translate

import (
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Config is what a [Bridge] is made of. All of it is used as it is: whoever
// reads it from an operator applies defaults and refuses nonsense before.
type Config struct {
	// Sources of skills, in the order in which they were configured.
	Sources []catalog.Source
	// Cache keeps the documents. It may be shared with other bridges that reach the network in the same way.
	Cache *cache.Cache
	// Caller identifies the bridge towards providers.
	Caller skillsharing.Caller
	// Priority of every execution: low, normal or high.
	Priority skillsharing.Priority
	// DefaultTimeout bounds a call for which neither the agent nor the descriptor states a timeout.
	DefaultTimeout time.Duration
	// MaxTimeout bounds every call.
	MaxTimeout time.Duration
	// Polling says when the state of runs is asked for. What it learns may be shared with other bridges.
	Polling skillsharing.Polling
	// MaxResponseSize bounds every answer of a provider after decompression, in bytes.
	MaxResponseSize int64
	// Limits bounds what else is read of documents and answers.
	Limits document.Limits
	// MaxRuns bounds the calls that are in progress, in all and for each source; MaxWaiting those of them that have a
	// run submitted. 0: no bound.
	MaxRuns, MaxRunsPerSource, MaxWaiting int
	// Breakers keep calls from hosts that are in trouble; nil: none are kept. They may be shared like the cache.
	Breakers *exchange.Breakers
	// RetryBudget is the share of the calls to a source, from 0 to 1, that may be repeating their invocation at a time.
	RetryBudget float64
	// AllowHTTP lets providers be reached without TLS.
	AllowHTTP bool
	// Stop answers the calls in progress as they stand, with [Stopped], when the process can't wait any longer; nil: never.
	Stop *Stop
	// Following is called before a run's end, or its output, is waited for, so that what an answer about it takes can be
	// got ready. It must not block; nil: it is not called.
	Following func()
	// Observer is told what happens; nil: nobody.
	Observer Observer
}

// Observer is told what happens, for logs, metrics and traces. Its methods are
// called on the path of a call: they must be quick, and safe for concurrent use.
type Observer interface {
	exchange.Observer
	// Begin is told of a call that begins, and may complete it. The context that it returns is that of the call, which all
	// other reports about it come with.
	Begin(ctx context.Context, c *Call) context.Context
	// Called reports a call that has ended.
	Called(ctx context.Context, c *Call, o *run.Run, s *Statistics)
}

// Statistics are the figures of one call.
type Statistics struct {
	Operation Operation
	Source    string        // namespace of the source that decided the name; empty if none did
	Duration  time.Duration // from arrival to outcome
	Stats     skillsharing.Stats

	// How the skill's descriptor was obtained; 0: it was not.
	Descriptor cache.State
	// When the phases of the call ended that follow one another; zero: it did not come so far.
	Found, Submitted, Followed time.Time
	// Of a list: how many skills are in it, and how many sources could not be read.
	Listed, Unavailable int
}

// Operation is what was asked of a [Bridge].
type Operation string

// The operations that an [Observer] hears of.
const (
	OperationExecute  Operation = "execute"
	OperationSubmit   Operation = "submit"
	OperationFollow   Operation = "follow"
	OperationDescribe Operation = "describe"
	OperationList     Operation = "list"
)
