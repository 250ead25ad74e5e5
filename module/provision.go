package skillbridge

import (
	"cmp"
	"net/netip"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// Provision sets up the bridge. It makes no network call and writes nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	if fault := h.check(); fault != nil {
		return fault
	}
	config, idle, err := h.config(ctx)
	if err != nil {
		return err
	}
	h.principal = cmp.Or(h.Principal, defaultPrincipal)
	if err := h.hold(ctx, config, idle); err != nil {
		return err
	}
	if err := watchStop(ctx); err != nil {
		return err
	}
	if h.bridge, err = translate.New(*config); err != nil {
		return err
	}
	refused := h.logRefused(config.Observer)
	if h.Browse != nil {
		page, err := h.Browse.template()
		if err != nil {
			return &configError{path: "browse.template_file", err: err}
		}
		h.browser = &browser{page, h.bridge, h.RequirePrincipal, refused, standardPageLimits}
	}
	profile := skillsprotocol.Profile(cmp.Or(h.MaxBatch, defaultMaxBatch))
	profile.MaxDepth = config.Limits.Depth
	h.server = &jsonrpc.Server{
		Handler: &skillsprotocol.Front{
			Bridge: h.bridge, Tokens: h.tokens, RequirePrincipal: h.RequirePrincipal, Refused: refused,
		},
		Profile:        profile,
		MaxRequestSize: cmp.Or(h.MaxRequestSize, defaultMaxRequestSize),
		MaxAnswerSize:  h.answerSize(),
		MaxAnswers:     h.answers(debug.SetMemoryLimit(-1)),
		WriteTimeout:   config.Limits.BodyTimeout,
		OnUnread:       h.logUnread,
		OnPanic:        h.logPanic,
	}
	if err := processMetrics.register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	live.add(h)
	if len(config.Sources) == 0 {
		h.logger.Warn("no provider, skill or registry is configured: the bridge knows no skill")
	}
	return nil
}

// hold takes what survives reloads from the pool, for as long as the handler or a
// request uses it.
func (h *Handler) hold(ctx caddy.Context, config *translate.Config, idle []func()) error {
	key := h.poolKey()
	pooled, _, err := sharedPool.LoadOrNew(key, func() (caddy.Destructor, error) {
		settings := h.cacheConfig()
		documents, err := cache.New(settings)
		if err != nil {
			return nil, err
		}
		return newShared(documents, skillsharing.NewBreakers(h.breakerConfig()), skillsharing.NewSchemas(settings.MaxSize)), nil
	})
	if err != nil {
		return err
	}
	h.shared = pooled.(*shared)
	keys, releaseKeys, err := holdRunTokenKeys(ctx)
	if err != nil {
		_, _ = sharedPool.Delete(key) // err says more
		return err
	}
	h.tokens = newTokens(ctx, h, config.Sources, keys)
	config.Following = keys.Prepare
	releasePolling, err := h.holdPolling(ctx, &config.Polling)
	if err != nil {
		releaseKeys()
		_, _ = sharedPool.Delete(key) // err says more
		return err
	}
	config.Cache = h.shared.documents
	config.Limits.Schemas = h.shared.schemas
	if h.CircuitBreaker == nil || !h.CircuitBreaker.Off {
		config.Breakers = h.shared.breakers
	}
	loud, err := watchStart(ctx)
	if err != nil {
		releasePolling()
		releaseKeys()
		_, _ = sharedPool.Delete(key) // err says more
		return err
	}
	releaseHealth := h.health.hold(key, config.Sources)
	h.usage = newUsage(func() {
		live.remove(h)
		loud()
		releaseHealth()
		releasePolling()
		releaseKeys()
		if _, err := sharedPool.Delete(key); err != nil {
			h.logger.Error("giving up what is shared with other configurations", zap.Error(err))
		}
	}, idle)
	return nil
}

// config makes the bridge's configuration from the operator's, which has been
// checked. It also returns what closes the idle connections of all transports.
func (h *Handler) config(ctx caddy.Context) (*translate.Config, []func(), error) {
	networks := make([]netip.Prefix, len(h.AllowNetworks))
	for i, text := range h.AllowNetworks {
		network, err := parseNetwork(text)
		if err != nil {
			return nil, nil, err
		}
		networks[i] = network
	}
	ports, err := h.ports()
	if err != nil {
		return nil, nil, err
	}
	o := newObserver(h.logger)
	o.audit = newAudit(h.logger, h.Audit)
	b := &builder{ctx: ctx, rules: newRules(networks, ports, o.refused), overhead: h.limits().ConnectionOverhead}
	b.rules.notice = o.Notice
	sources, err := b.sources(h)
	if err != nil {
		return nil, nil, err
	}
	for i := range sources {
		h.secrets = append(h.secrets, sources[i].Credentials, sources[i].DiscoveryCredentials)
	}
	o.secrets = h.secrets
	b.warnRefused(h.logger, sources)
	h.health = make(health, len(sources)) // of which hold sees what is known
	o.health = h.health
	limits := h.limits()
	caller := h.Caller
	if caller == nil {
		caller = new(Caller)
	}
	return &translate.Config{
		Sources: sources,
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
		Stop:        &exit.calls,
		Observer:    o,
	}, b.idle, nil
}
