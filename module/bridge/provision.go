package bridge

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/runtokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/storage"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
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
	config, o, err := h.begin(ctx)
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
	bridge, err := translate.New(*config)
	if err != nil {
		return err
	}
	refused := func(ctx context.Context, method, reason string) {
		o.RefusedCaller(ctx, h.placeholder(), method, reason)
	}
	if h.browser, err = h.Browse.Handler(bridge, h.RequirePrincipal, refused); err != nil {
		return &options.ConfigError{Path: "browse.template_file", Err: err}
	}
	answers := new(jsonrpc.AnswerMemory) // of all mounts
	server := func(handler jsonrpc.Handler, profile jsonrpc.Profile) *jsonrpc.Server {
		profile.MaxDepth = config.Limits.Depth
		return &jsonrpc.Server{
			Handler:        handler,
			Profile:        profile,
			MaxRequestSize: cmp.Or(h.MaxRequestSize, defaultMaxRequestSize),
			MaxAnswerSize:  h.answerSize(),
			MaxAnswers:     h.answers(debug.SetMemoryLimit(-1)),
			Memory:         answers,
			Owner:          func(ctx context.Context) string { return translate.RequestOf(ctx).Caller.Principal },
			WriteTimeout:   config.Limits.BodyTimeout,
			OnUnread:       func(ctx context.Context, written int64) { o.Unread(ctx, written, config.Limits.BodyTimeout) },
			OnPanic:        o.Panicked,
		}
	}
	maxBatch := cmp.Or(h.MaxBatch, defaultMaxBatch)
	h.server = server(&skillsprotocol.Front{
		Bridge: bridge, Tokens: h.tokens, RequirePrincipal: h.RequirePrincipal, Version: fronts.ModuleVersion(), Refused: refused,
	}, skillsprotocol.Profile(maxBatch))
	setup := &fronts.Setup{
		Bridge: bridge, Server: server, MaxBatch: maxBatch, Tokens: h.tokens, Realm: h.tokens.Realm, RequirePrincipal: h.RequirePrincipal, Refused: refused,
		Private:  slices.ContainsFunc(config.Sources, func(s catalog.Source) bool { return s.RequirePrincipal || s.DiscoveryCredentials != nil }),
		Identity: h.Name + "\n" + h.placeholder(), Observer: o,
		Outbound: fronts.Outbound{Transport: h.TransportRaw, Overhead: h.limits().ConnectionOverhead, Observer: o},
	}
	if h.MCP != nil {
		if h.tools, err = h.MCP.Serve(ctx, setup); err != nil {
			return err
		}
		if h.browser != nil {
			h.browser.Tools = h.tools
		}
	}
	if h.A2A != nil {
		agent, release, err := h.A2A.Serve(ctx, setup)
		if err != nil {
			return err
		}
		h.agent = agent
		if h.browser != nil {
			h.browser.Agent = agent
		}
		h.usage.OnRelease(release)
	}
	if h.Any() {
		if err := lifetime.OnStart(ctx, func() { h.warnOfRoutes(ctx) }); err != nil {
			return err
		}
	}
	if err := observe.RegisterMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	h.usage.OnRelease(o.Show(bridge, h.shared.breakers))
	if len(config.Sources) == 0 {
		h.logger.Warn("no provider, skill or registry is configured, so there are no skills")
	}
	return nil
}

// warnOfRoutes logs warnings about the routes that lead to the mounts. All handlers must be provisioned.
func (h *Handler) warnOfRoutes(ctx caddy.Context) {
	if app, err := ctx.AppIfConfigured("http"); err == nil { // otherwise the handler is used without Caddy's server
		h.WarnOfRoutes(app.(*caddyhttp.App), h, h.RequirePrincipal, h.logger)
	}
}

// begin returns the configuration of the bridge and its observer. Without an error, the handler
// holds pooled values until its usage ends.
func (h *Handler) begin(ctx caddy.Context) (*translate.Config, *observe.Observer, error) {
	h.logger = ctx.Logger(h)
	if fault := h.check(); fault != nil {
		return nil, nil, fault
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
	keys, release, err := storage.HoldRunTokenKeys(ctx)
	if err != nil {
		return err
	}
	h.usage.OnRelease(release)
	h.tokens = runtokens.New(ctx, h.Name, h.placeholder(), config.Sources, keys, tokensOf)
	config.Following = keys.Prepare
	config.Hold = holdRun(h.usage)
	if err := h.holdPolling(ctx, &config.Polling); err != nil {
		return err
	}
	config.Cache = h.shared.documents
	config.Limits.Schemas = h.shared.schemas
	if h.CircuitBreaker == nil || !h.CircuitBreaker.Off {
		config.Breakers = h.shared.breakers
	}
	loud, err := observe.QuietWhileRunning(ctx)
	if err != nil {
		return err
	}
	h.usage.OnRelease(loud)
	o.HoldHealth(h.poolKey(), config.Sources, h.usage)
	return nil
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

// tokensOf returns the run tokens of a bridge handler; nil for other modules.
func tokensOf(module caddy.Module) *runtokens.Tokens {
	if h, ok := module.(*Handler); ok {
		return h.tokens
	}
	return nil
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
	report := func(source, host, address string, r *network.RefusedError) {
		o.RefusedConnection(source, host, address, r)
	}
	limits := h.limits()
	rules := network.NewRules(networks, ports, report)
	rules.Notice = o.Notice
	loaded, idle, err := h.Sources.Load(ctx, rules, limits.ConnectionOverhead, h.TransportRaw)
	if err != nil {
		return nil, nil, err
	}
	var secrets []credential.Credentials
	for i := range loaded {
		secrets = append(secrets, loaded[i].Credentials, loaded[i].DiscoveryCredentials)
	}
	o.Protect(secrets)
	warnRefused(h.logger, rules, loaded)
	caller := cmp.Or(h.Caller, new(Caller))
	return &translate.Config{
		Sources: loaded,
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
		MaxRuns:         limits.Runs, MaxRunsPerSource: limits.RunsPerProvider, MaxWaiting: limits.Waiting,
		RetryBudget: h.retryBudget(),
		AllowHTTP:   h.AllowHTTP,
		Stop:        lifetime.Calls(),
		Observer:    o,
	}, idle, nil
}

const defaultRetryBudget = 20 // percent

// retryBudget returns the share of calls that may be retried, from 0 to 1.
func (h *Handler) retryBudget() float64 {
	percent := defaultRetryBudget
	if h.RetryBudget != nil {
		percent = *h.RetryBudget
	}
	return float64(percent) / 100
}
