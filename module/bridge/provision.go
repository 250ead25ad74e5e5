package bridge

import (
	"cmp"
	"context"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/browse"
	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/runtokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
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
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// vocabularies are the protocols that agents speak, with their words for reports.
var vocabularies = observe.Fronts{
	skillsprotocol.Name: {Param: skillsprotocol.Param, Code: skillsprotocol.CodeOf},
	a2a.Name:            {Param: a2a.Param, Code: a2a.Code},
	mcp.Name:            {Param: mcp.Param, Code: mcp.Code},
}

// Provision sets up the bridge. It makes no network call and writes nothing. If it fails, Caddy calls Cleanup.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	lines := options.LinesOf(h)
	defer func() { err = lines.Locate(err) }()
	config, o, err := h.begin(ctx, lines)
	if err != nil {
		return err
	}
	if err := lifetime.WatchStop(ctx); err != nil {
		return err
	}
	canceled := fronts.CanceledRuns(h.DB(), h.Lifetime(), h.tokens.Realm())
	config.Kept = canceled.Follow
	bridge, err := translate.New(*config)
	if err != nil {
		return err
	}
	setup := h.setup(bridge, config, o)
	setup.Canceled = canceled
	kept, err := h.mount(ctx, setup)
	if err != nil {
		return err
	}
	if kept != nil {
		kept.MaxOutput = config.Limits.OutputSize
	}
	runs, _ := h.Runs()
	return h.show(ctx, &observe.Bridge{Bridge: bridge, Breakers: h.shared.breakers, Access: config.Access, Quotas: config.Quotas.Rules(), Store: h.DB(), MaxRuns: runs, Line: lines.At}, o)
}

// setup returns what the fronts share.
func (h *Handler) setup(bridge *translate.Bridge, config *translate.Config, o *observe.Observer) *fronts.Setup {
	h.refused = func(ctx context.Context, caller run.Caller, why *callers.Refusal) {
		o.RefusedCaller(ctx, h.identity(), caller.Method, why.Reason)
		message, _ := told(why)
		bridge.ReportRun(ctx, translate.Call{Caller: caller}, translate.OperationNone, &run.Run{Failure: front.RefusedCaller(why.Status, message)})
	}
	h.authorization = h.Mounts.Authorization(h.CallersJWT, h.challenge())
	answers := new(share.Pool) // of all mounts
	setup := &fronts.Setup{
		Bridge: bridge, MaxBatch: cmp.Or(h.MaxBatch, defaultMaxBatch), Tokens: h.tokens, Name: cmp.Or(h.Name, defaultName), Realm: h.tokens.Realm(),
		RequirePrincipal: h.requires(), Challenge: h.challenge(), Authorization: h.authorization, Observer: o, Elsewhere: h.Mounts.Elsewhere(), Wait: h.Patience(),
		Private:   bridge.Catalog().Policy().Distinguishes() || slices.ContainsFunc(config.Sources, func(s catalog.Source) bool { return s.RequirePrincipal || s.DiscoveryCredentials != nil }),
		Transport: h.TransportRaw, Overhead: guards.Current.ConnectionOverhead, Sealer: h.tokens.Sealer(),
		Refused: func(ctx context.Context, method, reason string) {
			switch {
			case reason == run.PrincipalRequired && len(h.CallersJWT) > 0:
				reason = run.TokenRequired
			case reason == run.PrincipalRequired && h.CallersFile != "":
				reason = run.KeyRequired
			}
			o.RefusedCaller(ctx, h.identity(), method, reason)
		},
		Server: func(handler jsonrpc.Handler, profile jsonrpc.Profile) *jsonrpc.Server {
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
		},
	}
	setup.Keeping.Keep = h.Lifetime()
	setup.Keeping.Bounds.Runs, setup.Keeping.Bounds.RunsOfOne = h.Runs()
	return setup
}

// mount makes what answers the requests of clients, and returns the runs that are kept; nil: none are.
func (h *Handler) mount(ctx caddy.Context, setup *fronts.Setup) (kept *fronts.KeptRuns, err error) {
	var release func()
	if kept, release, err = fronts.KeepRuns(ctx, setup, h.DB(), func() *jsonrpc.Server { return h.server }); err != nil {
		return nil, err
	}
	h.usage.OnRelease(release)
	rpc := &skillsprotocol.Front{
		Bridge: setup.Bridge, Tokens: h.tokens, RequirePrincipal: h.requires(), Kept: kept.Front(), Canceled: setup.Canceled, Version: fronts.ModuleVersion(),
		Files: len(h.Sites) > 0, Refused: setup.Refused, Elsewhere: setup.Elsewhere,
	}
	if setup.Webhooks, release, err = h.Webhooks.Client(ctx, setup); err != nil {
		return nil, err
	}
	h.usage.OnRelease(release)
	if rpc.Callbacks, err = h.Mounts.Callbacks(ctx, setup, kept, rpc.Callback); err != nil {
		return nil, err
	}
	h.server = setup.Server(rpc.ServeRPC, skillsprotocol.Profile(setup.MaxBatch))
	h.browser = h.Browse.Handler(setup.Bridge, h.requires(), setup.Refused)
	page := cmp.Or(h.browser, new(browse.Handler)) // a zero one, if none is served
	page.Name, page.URL, page.Challenge = h.givenName(), fronts.URLOf, h.challenge()
	if err := h.serveConnect(setup, kept); err != nil {
		return nil, err
	}
	if h.connect != nil {
		page.Account = h.connect.Account
	}
	if h.MCP != nil {
		questions, err := keeping.Sealer(h.tokens.Keys(), "request state")
		if err != nil {
			return nil, err
		}
		if h.tools, err = h.MCP.Serve(ctx, setup, questions); err != nil {
			return nil, err
		}
		page.Tools = h.tools
	}
	if h.A2A != nil {
		if h.agent, err = h.A2A.Serve(ctx, setup, kept); err != nil {
			return nil, err
		}
		page.Agent = h.agent
	}
	if h.AgentSkills != nil {
		h.files = h.AgentSkills.Serve(setup, &h.Mounts)
		rpc.Page = h.files.Page
	}
	return kept, nil
}

// show shows the bridge in metrics and the admin API, and warns of what is most likely a mistake.
func (h *Handler) show(ctx caddy.Context, shown *observe.Bridge, o *observe.Observer) error {
	observe.SetVersions(fronts.ModuleVersion(), fronts.CaddyVersion())
	if err := observe.RegisterMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if h.keys != nil && h.jwt == nil {
		shown.Principals = h.keys.Principals
	}
	if h.jwt != nil {
		shown.TryIssuers = h.jwt.Try
	}
	if h.connect != nil {
		shown.Redirect = h.connect.Redirect
	}
	shown.Grants = h.accounts
	h.shown = shown
	h.usage.OnRelease(o.Show(shown))
	running := func(f func(*caddyhttp.App)) func() {
		return func() {
			if app, err := ctx.AppIfConfigured("http"); err == nil { // otherwise the handler is used without Caddy's server
				f(app.(*caddyhttp.App))
			}
		}
	}
	if err := lifetime.OnRunning(ctx, running(func(app *caddyhttp.App) { h.announce(ctx, app) })); err != nil {
		return err
	}
	shown.Warn = func(logger *zap.Logger) {
		if len(shown.Sources()) == 0 {
			logger.Warn("there is no provider, skill, registry or site, so there are no skills: add a provider")
		}
		h.warnOfPrincipals(logger)
		running(func(app *caddyhttp.App) { h.WarnOfRoutes(app, h, h.requires(), h.browsers(), logger) })()
	}
	return lifetime.OnStart(ctx, func() { shown.Warn(h.logger) }) // all handlers are provisioned
}

// begin returns the configuration of the bridge and its observer. The handler holds pooled values until its usage ends.
func (h *Handler) begin(ctx caddy.Context, lines options.Lines) (*translate.Config, *observe.Observer, error) {
	h.logger = ctx.Logger(h)
	if fault := h.check(); fault != nil {
		return nil, nil, fault
	}
	if err := takeName(ctx, h, lines); err != nil {
		return nil, nil, err
	}
	h.Mounts.ByToken = len(h.CallersJWT) > 0
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
	tellCallers(config, cmp.Or(h.Name, defaultName), keys)
	secrets, emit := secretsOf(config.Sources), h.emitter(ctx)
	h.Give(secrets, h.tokens.Sealer())
	if err := h.connectAccounts(ctx, config.Sources, keys, o); err != nil {
		return err
	}
	inBackground := lifetime.InBackground(emit)
	h.Guard(h.DB(), config.Sources, func(source string, c changes.Change) { changed(o, inBackground, secrets, source, c) })
	if config.Quotas, release, err = h.holdQuotas(h.tokens.Realm()); err != nil {
		return err
	}
	h.usage.OnRelease(release)
	if config.Quotas != nil {
		o.Measure()
	}
	config.Following = h.tokens.Prepare
	if db := h.DB(); db != nil {
		config.Grants = db.Grants
	}
	use := h.usage // without the handler: an execution may outlive its request
	endRun := use.EndRun
	config.Hold = func() (release func()) {
		lifetime.BeginRun()
		use.Acquire()
		return endRun
	}
	if err := h.holdPolling(&config.Polling); err != nil {
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
	documents := make(map[string]bool) // the sources whose documents are read with credentials
	for i := range config.Sources {
		documents[config.Sources[i].Namespace] = config.Sources[i].DiscoveryCredentials != nil
	}
	o.Announce(emit, documents)
	return nil
}

func secretsOf(loaded []catalog.Source) (secrets []credential.Credentials) {
	for i := range loaded {
		secrets = append(secrets, loaded[i].Credentials, loaded[i].DiscoveryCredentials)
	}
	return secrets
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
	for _, i := range h.CallersJWT {
		sources.AddPort(ports, i.URL)
	}
	limits := h.limits()
	rules := network.NewRules(networks, ports, o.RefusedConnection)
	rules.Notice = o.Notice
	loaded, standard, idle, err := h.Sources.Load(ctx, rules, guards.Current.ConnectionOverhead, h.TransportRaw)
	if err != nil {
		return nil, nil, err
	}
	caller, err := h.told()
	if err != nil {
		return nil, nil, err
	}
	if h.standard = standard; len(h.CallersJWT) > 0 {
		var releases []func()
		h.jwt, releases = callers.OpenTokens(h.CallersJWT, standard, h.poolKey(), h.logger)
		idle = append(idle, releases...)
	}
	o.Protect(secretsOf(loaded))
	warnRefused(h.logger, rules, loaded)
	return &translate.Config{
		Sources: loaded, Access: h.Access.rules(),
		Caller:          caller,
		Priority:        cmp.Or(h.Priority, skillsharing.PriorityNormal),
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
