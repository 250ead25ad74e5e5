package translate

import (
	"context"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Config configures a [Bridge]. [New] applies no defaults and checks few values: that is
// up to the code that reads the operator's configuration.
type Config struct {
	// Sources of skills, in the order in which they were configured.
	Sources []catalog.Source
	// Access says which skills callers may use; nil: all.
	Access *access.Rules
	// Cache keeps the documents. Bridges that reach the network in the same way may share it.
	Cache *cache.Cache
	// Caller identifies the bridge towards providers, and so the anonymous callers of the bridge.
	Caller skillsharing.Caller
	// Priority is the highest that callers may ask for; empty: normal. A caller that asks for none gets normal, or this one if it is lower.
	Priority skillsharing.Priority
	// DefaultTimeout bounds a call for which neither the agent nor the descriptor states a timeout.
	DefaultTimeout time.Duration
	// MaxTimeout bounds every call.
	MaxTimeout time.Duration
	// Polling decides when the state of runs is asked for. Bridges may share what it learns.
	Polling skillsharing.Polling
	// MaxResponseSize bounds every answer of a provider after decompression, in bytes.
	MaxResponseSize int64
	// Limits bounds the parts of documents and answers.
	Limits document.Limits
	// Places bounds the calls.
	Places
	// Breakers are the circuit breakers of the hosts; nil: there are none. Bridges may share them, like the cache.
	Breakers *exchange.Breakers
	// AllowHTTP lets providers be reached without TLS.
	AllowHTTP bool
	// Stop ends the calls in progress before the process exits; nil: nothing does.
	Stop *Stop
	Hooks
	// Observer receives reports; nil: nothing is reported.
	Observer Observer
}

// Hooks are functions that a [Bridge] calls.
type Hooks struct {
	// CallerOf returns who a provider is told is calling for a principal. url is one of the provider's origin. nil: it is told the Caller of the Config.
	CallerOf func(ctx context.Context, principal string, url *url.URL) (skillsharing.Caller, *run.Failure)
	// Hold is called when an execution begins. It keeps what the bridge needs until the execution has ended, calls release
	// and so allows it to be released: an execution may outlive the request that it came with. nil: nothing is kept.
	Hold func() (release func())
	// Kept is called before a provider is asked about a run, of which the bridge may keep a record, for a call of [Bridge.Resume]. nil: no records are kept.
	Kept func(ctx context.Context, ref *run.Ref, call *Call) Record
	// Grants returns a channel that is closed when a user may have connected an account, at any instance. nil: there is none.
	Grants func() <-chan struct{}
	// Following is called before the bridge waits for the end or the output of a run, so that a front can prepare its
	// answer in the meantime. It must not block; nil: it is not called.
	Following func()
}

// Record is what the bridge keeps of a run.
type Record struct {
	// Asking is the context for asking the provider.
	Asking context.Context //nolint:containedctx // that of a call
	// Ended is how the run has ended, within the call's Answer, so that the provider is not asked; nil: that is not known.
	Ended *run.Run
	// Wait waits for the end of a run about which another instance asks the provider. At the end of its context the run goes on, and the caller may ask again
	// after a time; otherwise this instance has to ask. nil: it has to in any case.
	Wait func(ctx context.Context) (again time.Duration, goesOn bool)
	// Settle returns the outcome of the call from what the provider has said, so that all calls have the same one; nil: that is the outcome.
	Settle func(said run.Run) run.Run
}

// Places bounds the calls of all callers together, and those of each.
type Places struct {
	// MaxRuns and MaxRunsPerSource bound the calls in progress. 0: no bound.
	MaxRuns, MaxRunsPerSource int
	// Quotas bound the calls of each caller that execute skills; nil: nothing does.
	Quotas *quota.Policy
}

// Observer receives reports, for logs, metrics and traces. Calls wait for its methods, so these
// must be quick. They must be safe for concurrent use.
type Observer interface {
	exchange.Observer
	// Begin reports a call that begins, and may complete it. The context that it returns becomes the context of the call
	// and of all other reports about it.
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

	// Descriptor says how the skill's descriptor was obtained; 0: it was not.
	Descriptor cache.State
	// Found, Submitted and Followed are when these phases of the call ended; zero: it did not reach the end of that phase.
	Found, Submitted, Followed time.Time
	// Unknown are the names of inputs that the skill does not define, at most 8.
	Unknown []string
	// Listed and Unavailable are how many skills a list has, and how many sources could not be read for it. Listed is -1 if the
	// list is none of skills.
	Listed, Unavailable int
}

// Operation is what a call asks of a [Bridge].
type Operation string

// The operations.
const (
	// OperationNone is that of a request whose method does not exist, or was not read since its caller was refused before.
	OperationNone     Operation = "none"
	OperationExecute  Operation = "execute"
	OperationSubmit   Operation = "submit"
	OperationFollow   Operation = "follow"
	OperationDescribe Operation = "describe"
	OperationList     Operation = "list"
	// OperationTask reads or changes a front's record of a run.
	OperationTask Operation = "task"
)
