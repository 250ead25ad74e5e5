package bridge

import (
	"cmp"
	"context"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/runtokens"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// vocabularies are the protocols that agents speak, with their words for reports.
var vocabularies = observe.Fronts{
	skillsprotocol.Name: {Param: skillsprotocol.Param, Code: skillsprotocol.CodeOf},
	a2a.Name:            {Param: a2a.Param, Code: a2a.Code},
	mcp.Name:            {Param: mcp.Param, Code: mcp.Code},
}

// Provision sets up the bridge. It makes no network call and writes nothing.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	lines := options.LinesOf(h)
	defer func() { err = lines.Locate(err) }()
	config, o, err := h.begin(ctx, lines)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.usage.Leave()
		}
	}()
	if err := lifetime.WatchStop(ctx); err != nil {
		return err
	}
	var kept *fronts.KeptRuns // which needs the bridge
	config.Kept = func(ctx context.Context, ref *run.Ref, call *translate.Call) (context.Context, *run.Run, func(run.Run) run.Run) {
		if kept == nil {
			return ctx, nil, nil
		}
		return kept.Follow(ctx, kept.Owner(call.Principal), ref, call)
	}
	bridge, err := translate.New(*config)
	if err != nil {
		return err
	}
	h.refused = func(ctx context.Context, caller run.Caller, reason, message string) {
		o.RefusedCaller(ctx, h.placeholder(), caller.Method, reason)
		bridge.Report(ctx, translate.Call{Caller: caller}, translate.OperationNone, front.Unauthenticated(message))
	}
	refused := func(ctx context.Context, method, reason string) {
		if reason == run.PrincipalRequired && h.CallersFile != "" {
			reason = run.KeyRequired
		}
		o.RefusedCaller(ctx, h.placeholder(), method, reason)
	}
	if h.browser, err = h.Browse.Handler(bridge, h.requires(), refused); err != nil {
		return &options.ConfigError{Path: "browse.template_file", Err: err}
	}
	if h.browser != nil {
		h.browser.Name, h.browser.URL, h.browser.Challenge = h.givenName(), fronts.URLOf, h.challenge()
	}
	answers := new(share.Pool) // of all mounts
	server := func(handler jsonrpc.Handler, profile jsonrpc.Profile) *jsonrpc.Server {
		profile.MaxDepth = config.Limits.Depth
		return &jsonrpc.Server{
			Handler:        handler,
			Profile:        profile,
			MaxRequestSize: cmp.Or(h.MaxRequestSize, defaultMaxRequestSize),
			MaxAnswerSize:  h.answerSize(),
			MaxAnswers:     h.answers(),
			Memory:         answers,
			Owner:          func(ctx context.Context) string { return translate.RequestOf(ctx).Caller.Principal },
			WriteTimeout:   config.Limits.BodyTimeout,
			OnUnread:       func(ctx context.Context, written int64) { o.Unread(ctx, written, config.Limits.BodyTimeout) },
			OnPanic:        o.Panicked,
		}
	}
	maxBatch := cmp.Or(h.MaxBatch, defaultMaxBatch)
	setup := &fronts.Setup{
		Bridge: bridge, Server: server, MaxBatch: maxBatch, Tokens: h.tokens, Name: cmp.Or(h.Name, defaultName), Realm: h.tokens.Realm(), RequirePrincipal: h.requires(), Challenge: h.challenge(), Refused: refused,
		Private:  bridge.Catalog().Policy().Distinguishes() || slices.ContainsFunc(config.Sources, func(s catalog.Source) bool { return s.RequirePrincipal || s.DiscoveryCredentials != nil }),
		Observer: o, Elsewhere: h.Mounts.Elsewhere(),
		Outbound: fronts.Outbound{Transport: h.TransportRaw, Overhead: guards.Current.ConnectionOverhead, Observer: o, Sealer: h.tokens.Sealer()},
	}
	setup.Keeping.Keep, setup.Wait = h.Lifetime(), h.Patience()
	setup.Keeping.Bounds.Runs, setup.Keeping.Bounds.RunsOfOne = h.Runs()
	setup.Canceled = fronts.CanceledRuns(ctx, h.DB(), h.Lifetime(), setup.Realm)
	var release func()
	kept, release, err = fronts.KeepRuns(ctx, setup, h.DB(), func() *jsonrpc.Server { return h.server })
	if err != nil {
		return err
	}
	h.usage.OnRelease(release)
	if kept != nil {
		kept.MaxOutput = config.Limits.OutputSize
	}
	rpc := &skillsprotocol.Front{
		Bridge: bridge, Tokens: h.tokens, RequirePrincipal: h.requires(), Kept: kept.Front(), Canceled: setup.Canceled, Version: fronts.ModuleVersion(), Files: len(h.Sites) > 0, Refused: refused,
		Elsewhere: setup.Elsewhere,
	}
	setup.Webhooks, release, err = h.Webhooks.Client(ctx, &setup.Outbound)
	if err != nil {
		return err
	}
	h.usage.OnRelease(release)
	if rpc.Callbacks, err = h.Mounts.Callbacks(ctx, setup, kept, skillsprotocol.CallbackOf(rpc)); err != nil {
		return err
	}
	h.server = server(rpc, skillsprotocol.Profile(maxBatch))
	if h.MCP != nil {
		if h.tools, err = h.MCP.Serve(ctx, setup); err != nil {
			return err
		}
		if h.browser != nil {
			h.browser.Tools = h.tools
		}
	}
	if h.A2A != nil {
		agent, release, err := h.A2A.Serve(ctx, setup, kept)
		if err != nil {
			return err
		}
		h.agent = agent
		if h.browser != nil {
			h.browser.Agent = agent
		}
		h.usage.OnRelease(release)
	}
	if h.AgentSkills != nil {
		h.files = h.AgentSkills.Serve(setup, &h.Mounts)
		rpc.Page = h.files.Page
	}
	if err := lifetime.OnStart(ctx, func() { h.warnOfRoutes(ctx) }); err != nil {
		return err
	}
	observe.SetVersions(fronts.ModuleVersion(), fronts.CaddyVersion())
	if err := observe.RegisterMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	shown := &observe.Bridge{Bridge: bridge, Breakers: h.shared.breakers, Access: config.Access, Quotas: config.Quotas.Rules(), Store: h.DB(), Line: lines.At}
	if h.keys != nil {
		shown.Principals = h.keys.Principals
	}
	h.usage.OnRelease(o.Show(shown))
	if len(config.Sources) == 0 {
		h.logger.Warn("no provider, skill, registry or site is configured, so there are no skills")
	}
	return nil
}

// warnOfRoutes logs warnings about the routes that lead to the mounts. All handlers must be provisioned.
func (h *Handler) warnOfRoutes(ctx caddy.Context) {
	if app, err := ctx.AppIfConfigured("http"); err == nil { // otherwise the handler is used without Caddy's server
		h.WarnOfRoutes(app.(*caddyhttp.App), h, h.requires(), h.logger)
	}
}

// begin returns the configuration of the bridge and its observer. Without an error, the handler
// holds pooled values until its usage ends.
func (h *Handler) begin(ctx caddy.Context, lines options.Lines) (*translate.Config, *observe.Observer, error) {
	h.logger = ctx.Logger(h)
	if fault := h.check(); fault != nil {
		return nil, nil, fault
	}
	if err := takeName(ctx, h, lines); err != nil {
		return nil, nil, err
	}
	if err := h.openKeys(h.logger); err != nil {
		return nil, nil, err
	}
	o := observe.NewObserver(h.logger, h.Audit, vocabularies)
	config, idle, err := h.config(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	h.usage = lifetime.NewUsage(idle...)
	if err := h.hold(ctx, config, o); err != nil {
		h.usage.Leave()
		return nil, nil, err
	}
	return config, o, nil
}

// hold takes the state that survives reloads from its pools, until the handler and its last request
// have released it.
func (h *Handler) hold(ctx caddy.Context, config *translate.Config, o *observe.Observer) error {
	var release func()
	var err error
	if h.shared, release, err = h.holdShared(); err != nil {
		return err
	}
	h.usage.OnRelease(release)
	if err := h.Options.Hold(ctx, h.usage); err != nil {
		return err
	}
	keys, err := h.HoldKeys(ctx, h.usage)
	if err != nil {
		return err
	}
	h.tokens = runtokens.New(cmp.Or(h.Name, defaultName), h.placeholder(), config.Sources, keys, h.Lifetime())
	h.Give(secretsOf(config.Sources), h.tokens.Sealer())
	h.guard(ctx, config.Sources, o)
	if config.Quotas, release, err = h.holdQuotas(h.tokens.Realm()); err != nil {
		return err
	}
	h.usage.OnRelease(release)
	if config.Quotas != nil {
		o.Measure()
	}
	config.Following = h.tokens.Prepare
	config.Hold = holdRun(h.usage)
	if err := h.holdPolling(ctx, &config.Polling); err != nil {
		return err
	}
	config.Cache = h.shared.documents
	config.Limits.Schemas = h.shared.schemas
	if h.CircuitBreaker == nil || !h.CircuitBreaker.Off {
		config.Breakers = h.shared.breakers
	}
	if err := observe.QuietWhileRunning(ctx); err != nil {
		return err
	}
	o.HoldHealth(h.poolKey(), config.Sources, h.usage)
	h.announce(ctx, config, o)
	return nil
}

// guard lets the observer report changed descriptors.
func (h *Handler) guard(ctx caddy.Context, loaded []catalog.Source, o *observe.Observer) {
	secrets, emit := secretsOf(loaded), lifetime.InBackground(h.emitter(ctx))
	h.Guard(h.DB(), loaded, func(source string, c changes.Change) { changed(o, emit, secrets, source, c) })
}

func secretsOf(loaded []catalog.Source) (secrets []credential.Credentials) {
	for i := range loaded {
		secrets = append(secrets, loaded[i].Credentials, loaded[i].DiscoveryCredentials)
	}
	return secrets
}

// announce lets the observer emit events of Caddy, which have the name of the bridge.
func (h *Handler) announce(ctx caddy.Context, config *translate.Config, o *observe.Observer) {
	documents := make(map[string]bool)
	for i := range config.Sources {
		documents[config.Sources[i].Namespace] = config.Sources[i].DiscoveryCredentials != nil
	}
	o.Announce(h.emitter(ctx), documents)
}

// emitter returns a function that emits events of Caddy with the name of the bridge. It does not keep the handler in memory.
func (h *Handler) emitter(ctx caddy.Context) observe.Emit {
	emit, bridge := lifetime.Emitter(ctx), h.givenName()
	return func(name string, data map[string]any) bool {
		if bridge != "" {
			data["bridge"] = bridge
		}
		return emit(name, data)
	}
}

// holdRun returns the function that an execution calls to keep what a handler holds. The execution may outlive its request.
func holdRun(use *lifetime.Usage) func() (release func()) {
	release := func() {
		use.Done()
		lifetime.EndRun()
	}
	return func() func() {
		lifetime.BeginRun()
		use.Acquire()
		return release
	}
}

// config returns the bridge's configuration, and functions that close the idle connections of all
// transports. The handler's configuration must be checked.
func (h *Handler) config(ctx caddy.Context, o *observe.Observer) (*translate.Config, []func(), error) {
	networks, err := network.ParseNetworks(h.AllowNetworks)
	if err != nil {
		return nil, nil, err
	}
	ports, err := h.ports(&h.Sources)
	if err != nil {
		return nil, nil, err
	}
	report := func(source, host, address string, r *exchange.RefusedError) {
		o.RefusedConnection(source, host, address, r)
	}
	limits := h.limits()
	rules := network.NewRules(networks, ports, report)
	rules.Notice = o.Notice
	loaded, idle, err := h.Sources.Load(ctx, rules, guards.Current.ConnectionOverhead, h.TransportRaw)
	if err != nil {
		return nil, nil, err
	}
	o.Protect(secretsOf(loaded))
	warnRefused(h.logger, rules, loaded)
	caller := cmp.Or(h.Caller, new(Caller))
	return &translate.Config{
		Sources: loaded, Access: h.Access.rules(),
		Caller: skillsharing.Caller{
			ID:   cmp.Or(caller.ID, defaultCallerID),
			Type: cmp.Or(caller.Type, defaultCallerType),
		},
		Priority:        cmp.Or(skillsharing.Priority(h.Priority), skillsharing.PriorityNormal),
		DefaultTimeout:  orDefault(h.Timeout, defaultTimeout),
		MaxTimeout:      orDefault(h.MaxTimeout, defaultMaxTimeout),
		Polling:         skillsharing.Polling{Plan: h.plan()},
		MaxResponseSize: h.maxResponseSize(),
		Limits:          h.readingLimits(),
		Places:          translate.Places{MaxRuns: limits.Runs, MaxRunsPerSource: limits.RunsPerProvider},
		AllowHTTP:       h.AllowHTTP,
		Stop:            lifetime.Calls(),
		Observer:        o,
	}, idle, nil
}
