package translate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/faults"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// retryShare is the share of the calls to a source that may be retries at any time: more would keep a source down that is too busy.
const retryShare = 0.2

// Bridge executes calls. It is safe for concurrent use and keeps no state of a
// call that has ended. It has no Close: the caller of [New] owns what the [Config] holds.
type Bridge struct {
	config  Config
	catalog *catalog.Catalog
	runs    limiter   // calls in progress
	sources []limiter // calls in progress that concern a source, in the order of the configuration
	waiting limiter   // calls that wait for the end of their run, which are counted and not limited

	consents share.Pool // calls that wait until their user has connected an account, by principal

	listening listening
	rereading []rereading // in the order of the configuration
}

// New makes a bridge. It makes no network call. An error names what in the configuration
// contradicts something else in it.
func New(config Config) (*Bridge, error) {
	if config.Observer == nil {
		config.Observer = noObserver{}
	}
	if config.Stop == nil {
		config.Stop = new(Stop)
	}
	if config.Following == nil {
		config.Following = func() {}
	}
	if config.Hold == nil {
		config.Hold = func() func() { return func() {} }
	}
	if config.Cache == nil {
		return nil, errors.New("no cache is configured")
	}
	b := &Bridge{
		config:  config,
		runs:    limiter{option: "runs", text: "runs", ofBridge: true, most: int64(config.MaxRuns)},
		sources: make([]limiter, len(config.Sources)), rereading: make([]rereading, len(config.Sources)),
	}
	sections := make([]*catalog.Section, len(config.Sources))
	for i, s := range config.Sources {
		hosts, err := credential.NewAllowedHosts(s.URL, s.Trust)
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", s.Namespace, err)
		}
		if s.Faults == nil {
			s.Faults = new(faults.Faults)
		}
		l := &b.sources[i]
		l.option, l.text, l.most = "runs_per_provider", "runs per provider", int64(config.MaxRunsPerSource) // the second argument of runs in a Caddyfile
		var registry []document.CapabilityType
		if s.Kind == catalog.RegistrySource {
			registry = s.CapabilityTypes
			if len(registry) == 0 {
				registry = []document.CapabilityType{""} // all
			}
		}
		sections[i] = &catalog.Section{Source: s, Index: i, Client: &skillsharing.Client{
			Reader: discovery.Reader{Cache: config.Cache, Guard: s.Guard, Site: s.Kind == catalog.SiteSource, Registry: registry, Sender: exchange.Sender{
				Source: s.Namespace, Origin: s.URL, AllowedHosts: hosts, Partition: s.Partition,
				Credentials: s.Credentials, DiscoveryCredentials: s.DiscoveryCredentials, Transport: s.Transport,
				MaxResponseSize: config.MaxResponseSize, Limits: config.Limits,
				Breakers: config.Breakers, AllowHTTP: config.AllowHTTP, Observer: config.Observer,
			}},
			Anonymous: s.Kind == catalog.RegistrySource, Caller: config.Caller,
			Polling: config.Polling, RetryBudget: skillsharing.NewRetryBudget(retryShare),
		}}
	}
	shareSecrets(sections)
	var err error
	if b.catalog, err = catalog.New(sections, config.Observer, config.Access, namesOf(config.Quotas)...); err != nil {
		return nil, err
	}
	for i, s := range sections {
		b.rereading[i] = rereading{listening: &b.listening, section: s, hold: config.Hold, turn: make(chan struct{}, 1)}
	}
	return b, nil
}

// shareSecrets makes each source remove its secrets from what it says, and those of others that may be sent to one of its hosts.
func shareSecrets(sections []*catalog.Section) {
	for _, s := range sections {
		var all []credential.Credentials
		for _, of := range sections {
			if (of.Credentials != nil || of.DiscoveryCredentials != nil) && s.Client.AllowedHosts.Overlaps(of.Client.AllowedHosts) {
				all = append(all, of.Credentials, of.DiscoveryCredentials)
			}
		}
		s.Client.Secrets = credential.NewGroup(all...)
	}
}

// namesOf returns the names of skills in quotas, each once.
func namesOf(quotas *quota.Policy) []string {
	var names []string
	for _, r := range quotas.Rules() {
		if access.IsName(r.Skills) {
			names = append(names, r.Skills)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Catalog returns the catalog of the configured sources.
func (b *Bridge) Catalog() *catalog.Catalog { return b.catalog }

// Namespaces returns those of the configured sources that a principal may know, in order.
func (b *Bridge) Namespaces(principal string) []string { return b.catalog.Namespaces(principal) }

// Audience returns the same number for all principals that may use the same skills by the access rules, and 0 for all if there are none.
func (b *Bridge) Audience(principal string) int {
	if role := b.catalog.Policy().Role(principal); role != nil {
		return role.ID
	}
	return 0
}

// Personal reports whether a source has credentials of which each principal has one of its own, so that lists say other things to each.
func (b *Bridge) Personal() bool { return b.catalog.Personal }

// Permits reports whether the access rules let a principal use the skill of a run. If none apply to the principal, it may use all skills. It
// reads nothing, and is not reported as a call.
func (b *Bridge) Permits(ref *run.Ref, principal string) bool {
	return b.catalog.Permits(ref, principal)
}

// Changed returns a channel that is closed when the list of a source changes the next time. Lists are only read for calls, and after
// them if there is a listener (see [Bridge.Listen]), so that a change may be noticed late.
func (b *Bridge) Changed(principal string) <-chan struct{} { return b.catalog.Changed(principal) }

// SourceStatus tells how many calls of a source are in progress.
type SourceStatus struct {
	Namespace string
	Kind      catalog.SourceKind
	URL       string // without userinfo, query and fragment
	Partition string // of the [catalog.Source]
	Runs      int64  // calls in progress that concern it
}

// Sources returns the status of each source, in the order of the configuration.
func (b *Bridge) Sources() []SourceStatus {
	list := make([]SourceStatus, len(b.sources))
	for i, s := range b.catalog.Sections() {
		list[i] = SourceStatus{s.Namespace, s.Kind, exchange.BareURL(s.URL), s.Partition, b.sources[i].inProgress()}
	}
	return list
}

// InProgress returns how many calls are in progress, and how many of them wait for the
// end of a submitted run. Detached calls count.
func (b *Bridge) InProgress() (calls, waiting int64) {
	return b.runs.inProgress(), b.waiting.inProgress()
}

// Describe returns the descriptor of a skill and what the bridge knows about it. With a
// failure, the description has no more than Name, Namespace and Since, or is nil if no source has the name.
func (b *Bridge) Describe(ctx context.Context, call Call) (*Description, *run.Failure) {
	x := b.begin(ctx, OperationDescribe, call)
	defer x.end()
	failure := x.acquire(&b.runs)
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
		return &Description{Name: x.listed.Name, Namespace: x.listed.Section.Namespace, Since: x.listed.FaultSince(), Entry: x.listed.Entry(ctx)}, failure
	}
	f := x.found
	state, since, denied := f.Condition(ctx, call.Principal)
	fresh, _ := f.Section.FreshUntil(x.ctx)
	typical, p95 := f.Invoker.Client.Times(f.Skill)
	return &Description{
		Name: f.Name, Namespace: f.Section.Namespace, Hidden: f.Hidden, Descriptor: f.Skill.Descriptor, Document: f.Skill.Document, Files: f.Skill.Files,
		FreshUntil: fresh, Denied: denied,
		Held: f.Skill.Held, State: state, Since: since, Typical: typical, P95: p95, Timeout: x.timeoutFor(x.call.Timeout),
		Tool: f.Tool(ctx, call.Principal), OutputSchema: f.Skill.OutputSchema(),
	}, nil
}

// Bounds of the calls that wait until their user has connected an account: of all principals, and of one.
const maxConsents, maxConsentsOfOne = 1000, 8

// Connected reports whether calls of a skill need not ask the user of the principal to connect an account, or to consent to the Scopes of the call, first, as
// far as is known. It waits for that as long as the call says, and reads nothing but the skill. Who waits takes no place of calls; a principal can let few
// calls wait, and further ones don't.
func (b *Bridge) Connected(ctx context.Context, call Call) bool {
	x := b.begin(ctx, OperationDescribe, call)
	defer x.end()
	failure := x.acquire(&b.runs)
	if failure == nil {
		failure = x.discover(x.findByName)
	}
	if failure == nil {
		x.Detach()
		part := share.Part{Pool: &b.consents, Owner: call.Principal, Most: maxConsents, OfOne: maxConsentsOfOne}
		if !part.Set(1) {
			x.call.Consent = 0
		}
		defer part.Set(0)
		failure = x.awaitConsent()
	}
	x.outcome = x.judge(nil, failure)
	return failure == nil
}

// MayMean reports whether a name can mean a skill, as far as the configuration says: it is one that the operator gave, or it
// belongs to a source.
func (b *Bridge) MayMean(name string) bool { return b.catalog.MayMean(name) }

// Find returns the name under which the skill is listed that a name means. It is not reported as a call.
func (b *Bridge) Find(ctx context.Context, name, principal string) (listed string, failure *run.Failure) {
	section := b.catalog.Owner(name, principal)
	if section != nil && !section.Admits(principal) {
		return "", anonymous()
	}
	if !b.runs.acquire() {
		return "", b.runs.exceeded()
	}
	h := new(hold)
	defer h.end([]*limiter{&b.runs})
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, discovery.HoldKey{}, h), discoveryTimeout)
	defer cancel()
	l, failure := b.catalog.Resolve(ctx, name, principal)
	if failure != nil {
		return "", failure
	}
	return l.Name, nil
}

// Tools returns the names of the tools of skills that the principal may see. A skill without one, or that is not known, keeps its name.
// It reads nothing, and is not reported as a call.
func (b *Bridge) Tools(ctx context.Context, skills []string, principal string) []string {
	tools := slices.Clone(skills)
	for i, name := range skills {
		for _, s := range b.catalog.Sections() {
			if tool := s.KnownTool(ctx, name, principal); tool != "" {
				tools[i] = tool
				break
			}
		}
	}
	return tools
}

// ToolNames returns the tool names of all skills that are known, for any principal; see [catalog.Section.ToolNames].
func (b *Bridge) ToolNames(ctx context.Context) (tools []string) {
	for _, s := range b.catalog.Sections() {
		tools = append(tools, s.ToolNames(ctx)...)
	}
	return tools
}

// ReportRun reports a call to the observer that a front answered without the bridge, perhaps about a run
// that the front knows. A run without a failure reports a success.
func (b *Bridge) ReportRun(ctx context.Context, call Call, o Operation, r *run.Run) {
	x := b.begin(ctx, o, call)
	defer x.end()
	x.outcome, x.figures.Listed = *r, -1
	if slices.ContainsFunc(b.catalog.Sections(), func(s *catalog.Section) bool { return s.Namespace == r.Source }) { // else it was removed
		x.figures.Source = r.Source
	}
}

// noObserver ignores all reports.
type noObserver struct{}

func (noObserver) Begin(ctx context.Context, _ *Call) context.Context   { return ctx }
func (noObserver) Exchange(context.Context, *exchange.Exchange)         {}
func (noObserver) Notice(context.Context, *exchange.Notice)             {}
func (noObserver) Called(context.Context, *Call, *run.Run, *Statistics) {}
