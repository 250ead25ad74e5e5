package translate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Bridge executes calls. It is safe for concurrent use, holds no state of any
// call, and needs no closing: what it is made of belongs to its maker.
type Bridge struct {
	config  Config
	catalog *catalog
}

// New makes a bridge. An error means that the configuration contradicts itself
// and names what is wrong. It makes no network call.
func New(config Config) (*Bridge, error) {
	if config.Observer == nil {
		config.Observer = nobody{}
	}
	if config.Cache == nil {
		return nil, errors.New("no cache is configured")
	}
	sources := make([]*source, len(config.Sources))
	for i, s := range config.Sources {
		audience, err := skillsharing.NewAudience(s.URL, s.Trust)
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", s.Namespace, err)
		}
		sources[i] = &source{Source: s, client: &skillsharing.Client{
			Source: s.Namespace, Origin: s.URL, Audience: audience,
			Credentials: s.Credentials, DiscoveryCredentials: s.DiscoveryCredentials,
			Transport: s.Transport, Cache: config.Cache, Partition: s.Partition,
			Caller: config.Caller, Priority: config.Priority,
			PollInitial: config.PollInitial, PollMax: config.PollMax,
			MaxResponseSize: config.MaxResponseSize, AllowHTTP: config.AllowHTTP, Observer: config.Observer,
		}}
	}
	catalog, err := newCatalog(sources, config.Observer)
	if err != nil {
		return nil, err
	}
	return &Bridge{config, catalog}, nil
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

// Execute runs a skill and waits for its end, but not longer than the call's
// timeout, or else the descriptor's, or else the default; never longer than the
// configured maximum. The clock starts when the call arrives.
func (b *Bridge) Execute(ctx context.Context, call Call) Outcome {
	x := b.begin(ctx, call)
	defer x.end()
	response, failure := x.submit()
	if failure == nil && !response.Status.Final() {
		response, failure = x.follow(response)
	}
	if failure == nil && x.lacksOutput(response) {
		response, failure = x.fetchResult(response)
	}
	x.outcome = x.judge(response, failure)
	return x.outcome
}

// Submit starts a run and does not wait for its end. The RunRef is that of the
// accepted run; where there is none, the Outcome says why.
func (b *Bridge) Submit(ctx context.Context, call Call) (RunRef, Outcome) {
	x := b.begin(ctx, call)
	defer x.end()
	response, failure := x.submit()
	x.outcome = x.judge(response, failure)
	if failure != nil {
		return RunRef{}, x.outcome
	}
	return RunRef{x.found.source.Namespace, x.found.skill.ID, response.ExecutionID}, x.outcome
}

// Follow waits for the end of a run that was submitted before, by whomever, until
// the context ends.
func (b *Bridge) Follow(ctx context.Context, ref RunRef, principal string) Outcome {
	x := b.begin(ctx, Call{Name: ref.SkillID, Principal: principal})
	defer x.end()
	x.setDeadline(b.config.MaxTimeout)
	response, failure := (*skillsharing.Response)(nil), x.findRun(ref)
	if failure == nil {
		response, failure = x.follow(&skillsharing.Response{ExecutionID: ref.ExecutionID, Status: skillsharing.StatusAccepted})
	}
	x.outcome = x.judge(response, failure)
	return x.outcome
}

// Describe returns all that is known about a skill.
func (b *Bridge) Describe(ctx context.Context, call Call) (*Description, *Failure) {
	ctx, cancel := context.WithTimeout(ctx, b.config.MaxTimeout)
	defer cancel()
	l, failure := b.catalog.resolve(ctx, call.Name, call.Principal)
	if failure != nil {
		return nil, failure
	}
	f, failure := b.read(ctx, l, call.Version)
	if failure != nil {
		return nil, failure
	}
	return &Description{
		Name: f.name, Namespace: f.source.Namespace, Descriptor: f.skill.Descriptor, Document: f.skill.Document,
		InputSchema: skillsharing.InputSchema(f.skill.Inputs),
	}, nil
}

// found is a skill that a name led to, and the client that may invoke it.
type found struct {
	*listed
	skill  *skillsharing.Skill
	client *skillsharing.Client
}

// read reads the descriptor of a listed skill and checks that it is the one
// meant. An empty version is any.
func (b *Bridge) read(ctx context.Context, l *listed, version string) (*found, *Failure) {
	skill, err := l.source.client.Skill(ctx, l.descriptorURL)
	if err != nil {
		err.SkillID = l.id
		return nil, failed(err)
	}
	if l.id != "" && skill.ID != l.id {
		return nil, failed(wrongID(skill, l.id))
	}
	if version != "" && version != skill.Version {
		return nil, failed(otherVersion(skill, version))
	}
	return &found{l, skill, b.invoker(l.source, skill)}, nil
}

// wrongID is the error of a descriptor that describes another skill than the one
// its index entry names.
func wrongID(s *skillsharing.Skill, listed string) *skillsharing.Error {
	e := skillsharing.InvalidDescriptor(
		fmt.Sprintf("The descriptor of skill %s describes another skill, %s.", listed, s.ID),
		skillsharing.Violation{
			Path: "/id", Message: "must be the id of the index entry",
			Expected: appendString(nil, listed), Actual: appendString(nil, s.ID),
		})
	e.SkillID = listed
	return e
}

// invoker is the client that may invoke a skill. A registry has no secrets of its
// own: its skills are invoked as those of the provider that hosts them, if there
// is one.
func (b *Bridge) invoker(s *source, skill *skillsharing.Skill) *skillsharing.Client {
	if s.Kind != RegistrySource {
		return s.client
	}
	for _, p := range b.catalog.sources {
		if p.Kind == ProviderSource && skill.Hosts(p.client.Audience) {
			return p.client
		}
	}
	return s.client
}

// newRunID invents an id for a run that completed without having one.
func newRunID() string { return "run_" + rand.Text() }

// newTraceID makes a W3C trace id.
func newTraceID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// execution is one call on its way.
type execution struct {
	bridge  *Bridge
	call    Call
	ctx     context.Context
	cancel  context.CancelFunc
	listed  *listed       // once the name is resolved
	found   *found        // once the descriptor is read
	timeout time.Duration // the effective one
	effort  skillsharing.Effort
	outcome Outcome
}

func (b *Bridge) begin(ctx context.Context, call Call) *execution {
	if call.Arrived.IsZero() {
		call.Arrived = time.Now()
	}
	if call.TraceID == "" {
		call.TraceID = newTraceID()
	}
	x := &execution{bridge: b, call: call}
	x.timeout = b.config.MaxTimeout
	if call.Timeout > 0 {
		x.timeout = min(call.Timeout, b.config.MaxTimeout)
	}
	x.ctx, x.cancel = context.WithCancel(ctx)
	return x
}

func (x *execution) end() {
	x.cancel()
	s := &Statistics{Duration: time.Since(x.call.Arrived), Attempts: x.effort.Attempts, Polls: x.effort.Polls}
	if x.listed != nil {
		s.Source = x.listed.source.Namespace
	}
	x.bridge.config.Observer.Called(x.ctx, &x.call, &x.outcome, s)
}

// setDeadline bounds what follows, counted from the call's arrival.
func (x *execution) setDeadline(timeout time.Duration) {
	previous := x.cancel
	ctx, cancel := context.WithDeadline(x.ctx, x.call.Arrived.Add(timeout))
	x.timeout, x.ctx = timeout, ctx
	x.cancel = func() { cancel(); previous() }
}

// submit finds the skill, checks the arguments and invokes it.
func (x *execution) submit() (*skillsharing.Response, *Failure) {
	ctx, cancel := context.WithDeadline(x.ctx, x.call.Arrived.Add(x.timeout))
	defer cancel()
	if failure := x.find(ctx); failure != nil {
		return nil, failure
	}
	f := x.found
	if e := f.skill.CheckInputs(x.call.Args); e != nil {
		return nil, failed(e)
	}
	x.setDeadline(x.effectiveTimeout())
	response, err := f.client.Submit(x.ctx, f.skill, &skillsharing.Invocation{
		Inputs: x.call.Args, TraceID: x.call.TraceID, Timeout: x.timeout,
	}, &x.effort)
	if err != nil {
		if err.Code == skillsharing.SkillNotFound && err.Source == skillsharing.SourceProvider {
			err.Hint = skillsharing.HintGone
			f.source.client.Forget(f.descriptorURL)
		}
		return nil, failed(err)
	}
	return response, nil
}

// find resolves the name and reads the descriptor.
func (x *execution) find(ctx context.Context) (failure *Failure) {
	if x.listed, failure = x.bridge.catalog.resolve(ctx, x.call.Name, x.call.Principal); failure != nil {
		return failure
	}
	x.found, failure = x.bridge.read(ctx, x.listed, x.call.Version)
	return failure
}

// effectiveTimeout is the caller's, else the descriptor's, else the default.
func (x *execution) effectiveTimeout() time.Duration {
	timeout := x.call.Timeout
	if timeout <= 0 {
		timeout = x.found.skill.Timeout()
	}
	if timeout <= 0 {
		timeout = x.bridge.config.DefaultTimeout
	}
	return min(timeout, x.bridge.config.MaxTimeout)
}

// findRun finds the skill of a run that was submitted before.
func (x *execution) findRun(ref RunRef) (failure *Failure) {
	if x.listed, failure = x.bridge.catalog.byRef(x.ctx, ref); failure != nil {
		return failure
	}
	x.found, failure = x.bridge.read(x.ctx, x.listed, "")
	return failure
}

func (x *execution) follow(accepted *skillsharing.Response) (*skillsharing.Response, *Failure) {
	r, err := x.found.client.Follow(x.ctx, x.found.skill, accepted.ExecutionID, accepted.RetryAfter, &x.effort)
	if err != nil {
		return accepted, failed(err)
	}
	return r, nil
}

// lacksOutput reports whether a run that completed in the first answer has its
// output elsewhere.
func (x *execution) lacksOutput(r *skillsharing.Response) bool {
	return r.Status == skillsharing.StatusCompleted && r.Output == nil && r.ExecutionID != "" &&
		x.found.skill.Endpoint.ResultURL != "" && x.effort.Polls == 0
}

func (x *execution) fetchResult(completed *skillsharing.Response) (*skillsharing.Response, *Failure) {
	r, err := x.found.client.Result(x.ctx, x.found.skill, completed, &x.effort)
	if err != nil {
		return completed, failed(err)
	}
	return r, nil
}

// judge makes the outcome of a run's last known state.
func (x *execution) judge(r *skillsharing.Response, failure *Failure) Outcome {
	var o Outcome
	switch {
	case x.found != nil:
		o.SkillID = x.found.skill.ID
	case x.listed != nil:
		o.SkillID = x.listed.id
	}
	if failure != nil {
		if failure.Err.SkillID == "" {
			failure.Err.SkillID = o.SkillID
		}
		addTimeout(failure.Err, x.timeout)
		o.Failure = failure
	}
	if r == nil {
		return o
	}
	o.Run = &Run{ExecutionID: r.ExecutionID, Status: r.Status, Output: r.Output, Elapsed: r.Elapsed}
	if o.Run.ExecutionID == "" {
		o.Run.ExecutionID = newRunID()
	}
	switch {
	case failure != nil:
	case r.Status == skillsharing.StatusCompleted && r.Output == nil:
		o.Run.Output = jsontext.Value("null")
	case r.Status == skillsharing.StatusFailed, r.Status == skillsharing.StatusTimeout:
		e := x.found.client.RunError(x.found.skill, r)
		e.ExecutionID = o.Run.ExecutionID
		o.Failure = runFailed(e)
	}
	return o
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Exchange(context.Context, *skillsharing.Exchange)     {}
func (nobody) Notice(context.Context, *skillsharing.Notice)         {}
func (nobody) Called(context.Context, *Call, *Outcome, *Statistics) {}
