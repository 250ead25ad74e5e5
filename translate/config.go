package translate

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Config is what a [Bridge] is made of. All of it is used as it is: whoever
// reads it from an operator applies defaults and refuses nonsense before.
type Config struct {
	// Sources of skills, in the order in which they were configured.
	Sources []Source
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

// Source is one place where skills are found.
type Source struct {
	Kind SourceKind
	// Namespace of a provider or registry; of a single skill, its name. Unique among all sources.
	Namespace string
	// URL is a provider's origin, a skill's descriptor or a registry's base.
	URL *url.URL
	// Faults are what is known against its skills; nil: nothing yet.
	Faults *Faults
	// Aliases are names of the operator's own, each with the id it stands for.
	Aliases []Alias
	// Trust lists further hosts, with or without a port, that may receive the source's secrets.
	Trust []string
	// TrustRegistries are the namespaces of registries whose skills may use the provider's credentials though its own
	// index does not list them.
	TrustRegistries []string
	// Certificate tells that the transport may show a client certificate, which counts as a secret.
	Certificate bool
	// Credentials authenticate invocations; nil: none.
	Credentials credential.Credentials
	// DiscoveryCredentials authenticate requests for documents; nil: none.
	DiscoveryCredentials credential.Credentials
	// CapabilityTypes restricts the source to skills of these types; empty: all.
	CapabilityTypes []document.CapabilityType
	// ListPrivate shows private skills to every caller.
	ListPrivate bool
	// RequirePrincipal refuses anonymous callers whatever they ask of the source.
	RequirePrincipal bool
	// PreferWait is for how long the provider is asked to hold answers back until a run has ended, in whole seconds; 0: it is
	// not.
	PreferWait time.Duration
	// Transport carries all requests to the source. It must refuse forbidden
	// addresses, follow no redirects, and end with the context of a request, also
	// while the body of its answer is read.
	Transport http.RoundTripper
	// Partition separates the source's documents from those read with other
	// credentials or over another transport. It is a hash: no secret can be read from it.
	Partition string
}

// Alias is a name of the operator's own for a skill.
type Alias struct {
	Name    string
	SkillID string
}

// SourceKind says how a [Source] publishes its skills.
type SourceKind uint8

// The kinds of sources, one for each discovery path of the Skill Sharing
// Protocol, section 4.2.
const (
	ProviderSource SourceKind = iota // an index under a well-known path
	SkillSource                      // the URL of one descriptor
	RegistrySource                   // a registry that is asked by capability type
)

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
