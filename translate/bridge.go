package translate

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// Bridge executes calls. It is safe for concurrent use, keeps nothing of a
// call that has ended, and needs no closing: what it is made of belongs to its maker.
type Bridge struct {
	config  Config
	catalog *catalog.Catalog
	runs    places   // calls in progress
	sources []places // calls in progress that concern a source, by its place in the configuration
	waiting places   // runs whose end is awaited
}

// New makes a bridge. An error means that the configuration contradicts itself
// and names what is wrong. It makes no network call.
func New(config Config) (*Bridge, error) {
	if config.Observer == nil {
		config.Observer = nobody{}
	}
	if config.Stop == nil {
		config.Stop = new(Stop)
	}
	if config.Following == nil {
		config.Following = func() {}
	}
	if config.Cache == nil {
		return nil, errors.New("no cache is configured")
	}
	b := &Bridge{
		config:  config,
		runs:    places{name: "runs", most: int64(config.MaxRuns)},
		sources: make([]places, len(config.Sources)),
		waiting: places{name: "waiting", most: int64(config.MaxWaiting)},
	}
	sections := make([]*catalog.Section, len(config.Sources))
	for i, s := range config.Sources {
		audience, err := credential.NewAllowedHosts(s.URL, s.Trust)
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", s.Namespace, err)
		}
		if s.Faults == nil {
			s.Faults = new(catalog.Faults)
		}
		b.sources[i].name, b.sources[i].most = "runs_per_provider", int64(config.MaxRunsPerSource)
		sections[i] = &catalog.Section{Source: s, Place: i, Client: &skillsharing.Client{
			Reader: discovery.Reader{Cache: config.Cache, Sender: exchange.Sender{
				Source: s.Namespace, Origin: s.URL, AllowedHosts: audience, Partition: s.Partition,
				Credentials: s.Credentials, DiscoveryCredentials: s.DiscoveryCredentials, Transport: s.Transport,
				MaxResponseSize: config.MaxResponseSize, Limits: config.Limits,
				Breakers: config.Breakers, AllowHTTP: config.AllowHTTP, Observer: config.Observer,
			}},
			Anonymous: s.Kind == catalog.RegistrySource, Caller: config.Caller, Priority: config.Priority,
			Polling: config.Polling, PreferWait: s.PreferWait, RetryBudget: exchange.NewRetryBudget(config.RetryBudget),
		}}
	}
	var err error
	if b.catalog, err = catalog.New(sections, config.Observer); err != nil {
		return nil, err
	}
	return b, nil
}

// Catalog returns what the bridge knows of the skills of its sources.
func (b *Bridge) Catalog() *catalog.Catalog { return b.catalog }

// Namespaces returns those of the catalog.
func (b *Bridge) Namespaces() []string { return b.catalog.Namespaces() }

// SourceStatus is how busy a source is.
type SourceStatus struct {
	Namespace string
	Kind      catalog.SourceKind
	URL       string // without what may be secret in it
	Partition string // that of the [catalog.Source]
	Runs      int64  // calls in progress that concern it
}

// Sources returns how busy each source is, in the order in which they were configured.
func (b *Bridge) Sources() []SourceStatus {
	list := make([]SourceStatus, len(b.sources))
	for i, s := range b.catalog.Sections() {
		u := url.URL{Scheme: s.URL.Scheme, Host: s.URL.Host, Path: s.URL.Path, RawPath: s.URL.RawPath}
		list[i] = SourceStatus{s.Namespace, s.Kind, u.String(), s.Partition, b.sources[i].taken.Load()}
	}
	return list
}

// InProgress returns how many calls are in progress, and how many of them have a
// run that was submitted and has not ended.
func (b *Bridge) InProgress() (calls, waiting int64) {
	return b.runs.taken.Load(), b.waiting.taken.Load()
}

// Describe returns all that is known about a skill. Beside a failure, it is no more
// than where the name leads to, if it leads anywhere.
func (b *Bridge) Describe(ctx context.Context, call Call) (*Description, *run.Failure) {
	x := b.begin(ctx, OperationDescribe, call)
	defer x.end()
	failure := x.take(&b.runs)
	if failure == nil {
		failure = x.discover(x.findByName)
	}
	if failure == nil && call.Answer != nil && !call.Answer.Reserve(int64(len(x.found.Skill.Document))) {
		failure = exchange.NoRoom(call.Answer, run.PhaseDescriptor, "", run.ExecutedNo, false)
	}
	x.outcome = x.judge(nil, failure)
	if failure != nil && x.listed == nil {
		return nil, failure
	}
	if failure != nil {
		return &Description{Name: x.listed.Name, Namespace: x.listed.Section.Namespace}, failure
	}
	f := x.found
	return &Description{
		Name: f.Name, Namespace: f.Section.Namespace, Descriptor: f.Skill.Descriptor, Document: f.Skill.Document,
		InputSchema: inputs.InputSchema(f.Skill.Inputs), Denied: f.Denied(),
	}, nil
}

// Report tells the observer of a call that was answered without asking the bridge; a
// nil failure means that it was answered well.
func (b *Bridge) Report(ctx context.Context, call Call, o Operation, failure *run.Failure) {
	x := b.begin(ctx, o, call)
	defer x.end()
	x.outcome.Failure = failure
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Begin(ctx context.Context, _ *Call) context.Context   { return ctx }
func (nobody) Exchange(context.Context, *exchange.Exchange)         {}
func (nobody) Notice(context.Context, *exchange.Notice)             {}
func (nobody) Called(context.Context, *Call, *run.Run, *Statistics) {}
