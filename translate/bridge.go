package translate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// Bridge executes calls. It is safe for concurrent use, keeps nothing of a
// call that has ended, and needs no closing: what it is made of belongs to its maker.
type Bridge struct {
	config  Config
	catalog *catalog
	runs    places // calls in progress
	waiting places // runs whose end is awaited
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
	sources := make([]*source, len(config.Sources))
	for i, s := range config.Sources {
		audience, err := credential.NewAllowedHosts(s.URL, s.Trust)
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", s.Namespace, err)
		}
		if s.Faults == nil {
			s.Faults = new(Faults)
		}
		sources[i] = &source{Source: s, runs: places{name: "runs_per_provider", most: int64(config.MaxRunsPerSource)}, client: &skillsharing.Client{
			Reader: discovery.Reader{Cache: config.Cache, Sender: exchange.Sender{
				Source: s.Namespace, Origin: s.URL, AllowedHosts: audience, Partition: s.Partition,
				Credentials: s.Credentials, DiscoveryCredentials: s.DiscoveryCredentials, Transport: s.Transport,
				MaxResponseSize: config.MaxResponseSize, Limits: config.Limits,
				Breakers: config.Breakers, AllowHTTP: config.AllowHTTP, Observer: config.Observer,
			}},
			Anonymous: s.Kind == RegistrySource, Caller: config.Caller, Priority: config.Priority,
			Polling: config.Polling, PreferWait: s.PreferWait, RetryBudget: exchange.NewRetryBudget(config.RetryBudget),
		}}
	}
	catalog, err := newCatalog(sources, config.Observer)
	if err != nil {
		return nil, err
	}
	return &Bridge{
		config: config, catalog: catalog,
		runs:    places{name: "runs", most: int64(config.MaxRuns)},
		waiting: places{name: "waiting", most: int64(config.MaxWaiting)},
	}, nil
}

// Namespaces lists the namespaces of the configured providers and registries and
// the names of the directly configured skills, in order.
func (b *Bridge) Namespaces() []string {
	list := slices.Collect(maps.Keys(b.catalog.namespaces))
	for _, s := range b.catalog.sources {
		if s.Kind == SkillSource {
			list = append(list, s.Namespace)
		}
	}
	slices.Sort(list)
	return list
}

// SourceStatus is how busy a source is.
type SourceStatus struct {
	Namespace string
	Kind      SourceKind
	URL       string // without what may be secret in it
	Partition string // that of the [Source]
	Runs      int64  // calls in progress that concern it
}

// Sources returns how busy each source is, in the order in which they were configured.
func (b *Bridge) Sources() []SourceStatus {
	list := make([]SourceStatus, len(b.catalog.sources))
	for i, s := range b.catalog.sources {
		u := url.URL{Scheme: s.URL.Scheme, Host: s.URL.Host, Path: s.URL.Path, RawPath: s.URL.RawPath}
		list[i] = SourceStatus{s.Namespace, s.Kind, u.String(), s.Partition, s.runs.taken.Load()}
	}
	return list
}

// InProgress returns how many calls are in progress, and how many of them have a
// run that was submitted and has not ended.
func (b *Bridge) InProgress() (calls, waiting int64) {
	return b.runs.taken.Load(), b.waiting.taken.Load()
}

// Purge forgets the documents of a source, so that the next call reads them anew:
// its index or answers and the descriptors it lists, or, of a skill, its
// descriptor; or only the descriptor of the skill with an id or name, if it is not empty.
// It reports whether there is such a source, and such a skill.
func (b *Bridge) Purge(ctx context.Context, namespace, skillID string) bool {
	for _, s := range b.catalog.sources {
		switch {
		case s.Namespace != namespace:
		case skillID != "":
			return b.catalog.purgeSkill(ctx, s, skillID)
		default:
			b.catalog.purge(ctx, s)
			return true
		}
	}
	return false
}

// Describe returns all that is known about a skill. Beside a failure, it is no more
// than where the name leads to, if it leads anywhere.
func (b *Bridge) Describe(ctx context.Context, call Call) (*Description, *run.Failure) {
	x := b.begin(ctx, call)
	defer x.release()
	failure := x.admit()
	if failure == nil {
		failure = x.find()
	}
	if failure == nil && call.Answer != nil && !call.Answer.Reserve(int64(len(x.found.skill.Document))) {
		failure = exchange.NoRoom(call.Answer, run.PhaseDescriptor, "", run.ExecutedNo, false)
	}
	x.outcome = x.judge(nil, failure)
	x.report(OperationDescribe)
	if failure != nil && x.listed == nil {
		return nil, failure
	}
	if failure != nil {
		return &Description{Name: x.listed.name, Namespace: x.listed.source.Namespace}, failure
	}
	f := x.found
	return &Description{
		Name: f.name, Namespace: f.source.Namespace, Descriptor: f.skill.Descriptor, Document: f.skill.Document,
		InputSchema: inputs.InputSchema(f.skill.Inputs), Denied: f.denied(),
	}, nil
}

// Report tells the observer of a call that was answered without asking the bridge; a
// nil failure means that it was answered well.
func (b *Bridge) Report(ctx context.Context, call Call, o Operation, failure *run.Failure) {
	x := b.begin(ctx, call)
	defer x.release()
	x.outcome.Failure = failure
	x.report(o)
}

// found is a skill that a name led to, and the source whose credentials it is
// invoked with.
type found struct {
	*listed
	skill   *discovery.Skill
	invoker *source
	state   cache.State // of the descriptor
	// withheld is a provider whose credential the skill, which a registry lists, does not get; nil: there is none.
	withheld *source
}

// withhold is why a credential is not used for a skill of a registry; nil: it may be.
func (f *found) withhold() (*run.Failure, *exchange.Notice) {
	if f.withheld == nil {
		return nil, nil
	}
	return f.withheld.client.Unlisted(f.skill, f.source.Namespace)
}

// denied is why calls are refused for want of a credential; nil: they are not.
func (f *found) denied() *run.Failure {
	if e, _ := f.withhold(); e != nil {
		return e
	}
	if e := f.invoker.client.WithoutCredential(f.skill); e != nil {
		return e
	}
	return nil
}

// read reads the descriptor of a listed skill and checks that it is the one
// meant. An empty version is any.
func (b *Bridge) read(ctx context.Context, l *listed, version string) (f found, failure *run.Failure) {
	skill, state, err := l.source.client.SkillDocument(ctx, l.descriptor, l.id)
	switch {
	case err != nil:
		err.SkillID = l.id
	case l.id != "" && skill.ID != l.id:
		err = wrongID(skill, l.id)
	}
	if err != nil {
		if concernsSkill(err) {
			l.source.Faults.note(l, err)
		}
		return found{}, err
	}
	l.source.Faults.note(l, nil)
	if version != "" && version != skill.Version {
		return found{}, otherVersion(skill, version)
	}
	f = found{listed: l, skill: skill, state: state}
	if f.invoker, f.withheld, err = b.invoker(ctx, l, skill, b.catalog.load); err != nil {
		err.SkillID = l.id
		return found{}, err
	}
	return f, nil
}

// wrongID is the error of a descriptor that describes another skill than the one
// its index entry names.
func wrongID(s *discovery.Skill, listed string) *run.Failure {
	e := document.InvalidDescriptor(
		fmt.Sprintf("The descriptor of skill %s describes another skill, %s.", listed, s.ID),
		run.Violation{
			Path: "/id", Message: "must be the id of the index entry",
			Expected: asJSON(listed), Actual: asJSON(s.ID),
		})
	e.SkillID = listed
	return e
}

func asJSON(text string) jsontext.Value {
	value, _ := jsontext.AppendQuote(nil, text) // the only error is bad UTF-8, which is replaced
	return value
}

// invoker is the source as which a skill may be invoked. A registry has no secrets
// of its own: its skills are invoked with those of a provider whose hosts allow that,
// if the provider's own index lists the same skill with the same descriptor, or the
// operator trusts the registry with them; else with none. Of the provider that has a
// credential for the skill but does not list it, withheld is the one. The indexes are
// read with table, which returns nil where an index is not known and the caller does
// not wait for it. An error means that it can't be told.
func (b *Bridge) invoker(ctx context.Context, l *listed, skill *discovery.Skill, table loadTable) (invoker, withheld *source, err *run.Failure) {
	if l.source.Kind != RegistrySource {
		return l.source, nil, nil
	}
	protected := skill.Auth.Type != document.AuthNone
	if !protected {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openSkillTimeout)
		defer cancel()
	}
	for _, p := range b.catalog.sources {
		if p.Kind != ProviderSource || !skill.Hosts(p.client.AllowedHosts) || !p.identifies(skill) {
			continue
		}
		if slices.Contains(p.TrustRegistries, l.source.Namespace) {
			return p, nil, nil
		}
		t, e := table(ctx, p)
		switch {
		case e != nil:
			err = cmp.Or(err, e)
		case t == nil || t.lists(l):
			return p, nil, nil
		case withheld == nil:
			withheld = p
		}
	}
	if !protected {
		return l.source, nil, nil // it needs none
	}
	return l.source, withheld, err
}

// loadTable returns the names of a source.
type loadTable func(ctx context.Context, s *source) (*nameTable, *run.Failure)

// openSkillTimeout is how long a call of a skill without authentication waits for the
// index of a provider that could only add a client certificate.
const openSkillTimeout = 2 * time.Second

// identifies reports whether a provider has credentials that show who calls the skill.
func (s *source) identifies(skill *discovery.Skill) bool {
	return s.Certificate || skill.Auth.Type != document.AuthNone && s.Credentials != nil && s.Credentials.Supports(&skill.Auth)
}

// lists reports whether an index has a skill of a registry, with the same descriptor.
func (t *nameTable) lists(l *listed) bool {
	for _, index := range t.indexes {
		for i := range index.Skills {
			if e := &index.Skills[i]; e.ID == l.id {
				return discovery.NewLocation(e.DescriptorURL) == l.descriptor
			}
		}
	}
	return false
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Begin(ctx context.Context, _ *Call) context.Context   { return ctx }
func (nobody) Exchange(context.Context, *exchange.Exchange)         {}
func (nobody) Notice(context.Context, *exchange.Notice)             {}
func (nobody) Called(context.Context, *Call, *run.Run, *Statistics) {}
