package publish

import (
	"cmp"
	"context"
	"encoding/json" // as Caddy encodes the configuration that it loads
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/routes"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// live are the handlers of this process, for checks.
var live sync.Map // of *Handler to true

// pooledDocuments are what handlers with the same documents publish.
var pooledDocuments = lifetime.NewPool[*documents]()

// Provision sets up the handler. It reads no documents: that is done when the configuration has started.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	lines := options.LinesOf(h)
	defer func() { err = lines.Locate(err) }()
	h.logger, h.started = ctx.Logger(h), make(chan struct{})
	if fault := h.check(); fault != nil {
		return fault
	}
	h.Path, h.Timeout = cmp.Or(h.Path, defaultPath), cmp.Or(h.Timeout, caddy.Duration(defaultTimeout))
	if err := h.connect(ctx); err != nil {
		return err
	}
	h.use = lifetime.NewUsage(h.transport.CloseIdleConnections)
	if err := h.hold(ctx); err != nil {
		return err
	}
	if err := cmp.Or(lifetime.WatchStop(ctx), observe.RegisterMetrics(ctx.GetMetricsRegistry())); err != nil {
		return err
	}
	live.Store(h, true)
	return lifetime.OnStart(ctx, func() { h.start(ctx) })
}

// connect makes the transport for documents by URL.
func (h *Handler) connect(ctx caddy.Context) error {
	networks, err := network.ParseNetworks(h.AllowNetworks)
	if err != nil {
		return err
	}
	ports := map[uint16]bool{80: true, 443: true}
	for _, d := range h.OpenAPI {
		sources.AddPort(ports, d.Location)
	}
	rules := network.NewRules(networks, ports, func(_, host, address string, r *exchange.RefusedError) {
		h.logger.Warn("the publisher does not connect to the host of a document", zap.String("host", host), zap.String("address", address), zap.String("reason", r.Exact))
	})
	h.transport, err = network.NewTransport(ctx, nil, rules, guards.Current.ConnectionOverhead)
	return err
}

// hold takes what survives reloads from its pools, until the handler and its last execution have released it.
func (h *Handler) hold(ctx caddy.Context) (err error) {
	var release func()
	if h.shared, release, err = sharedPool.Hold(realm, func() (*shared, error) { return &shared{counters: quota.NewCounters(nil)}, nil }); err != nil {
		return err
	}
	h.use.OnRelease(release)
	if err := h.Options.Hold(ctx, h.use); err != nil || h.DB() == nil {
		return err
	}
	h.kept, release, err = keeping.HoldLedger(ctx, h.DB(), func(_ context.Context, value any, stack []byte) {
		h.logger.Error("panic", zap.Any("panic", value), zap.ByteString("stack", stack))
	})
	if err != nil {
		return err
	}
	h.use.OnRelease(release)
	settings := ledger.Settings{Keep: h.Lifetime()}
	settings.Bounds.Runs, settings.Bounds.RunsOfOne = h.Runs()
	return h.kept.FollowWith(ctx, follower{}, settings)
}

// start finds out what the handler is called by consumers, and begins to read its documents.
func (h *Handler) start(ctx caddy.Context) {
	defer close(h.started)
	if app, err := ctx.AppIfConfigured("http"); err == nil {
		for _, server := range app.(*caddyhttp.App).Servers {
			if place, found := routes.Find(server, h); found {
				h.hosts = append(h.hosts, place.Hosts()...)
			}
		}
	}
	if h.URL == "" && len(h.hosts) == 0 {
		h.logger.Error("the address of the site names no host, so that consumers are not told any URLs: write url https://<host> into the block of " + directive)
	}
	namespace := h.namespace()
	if err := checkNamespace(namespace); err != nil {
		h.logger.Error("nothing is published: write namespace <name> into the block of "+directive, zap.Error(err))
		namespace = ""
	}
	l, release, err := pooledDocuments.Hold(h.settings(namespace), func() (*documents, error) { return h.newDocuments(namespace), nil })
	if err != nil { // it is none of newDocuments
		return
	}
	h.documents.Store(l)
	h.use.Acquire() // until the watch ends, so that nothing is released before
	go func() {
		defer h.use.Done()
		defer release()
		for ctx.Err() == nil {
			next := l.refresh(ctx, h.transport, h.logger)
			select {
			case <-ctx.Done():
			case <-time.After(next):
			}
		}
	}()
}

// namespace returns the first part of the ids of operations; empty: it is not known.
func (h *Handler) namespace() string {
	host := ""
	if u, err := url.Parse(h.URL); err == nil {
		host = u.Hostname()
	}
	if host == "" && len(h.hosts) > 0 {
		host = h.hosts[0]
	}
	return cmp.Or(h.Namespace, strings.ToLower(host))
}

// settings returns a digest of the settings that its documents depend on.
func (h *Handler) settings(namespace string) string {
	text, _ := json.Marshal([]any{namespace, h.Provider, h.Skills, h.OpenAPI, h.Timeout, h.AllowNetworks}) // it was read from JSON
	return lifetime.NewDigest(string(text)).String()
}

// published returns what is published now, as soon as documents have been read; nil: the context has ended before.
func (h *Handler) published(ctx context.Context) *catalog {
	select {
	case <-h.started:
	case <-ctx.Done():
		return nil
	}
	l := h.documents.Load()
	select {
	case <-l.loaded:
		return l.current.Load()
	case <-ctx.Done():
		return nil
	}
}
