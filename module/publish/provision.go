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
	h.site = sync.OnceValue(func() *site { return h.locate(ctx) })
	h.use.OnRelease(observe.ShowPublisher(h))
	return lifetime.OnRunning(ctx, func() { h.start(ctx) })
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
		h.shared.warnings.Warn("the publisher does not connect to "+host, nil, zap.String("address", address), zap.String("reason", r.Exact))
	})
	h.transport, err = network.NewTransport(ctx, nil, rules, guards.Current.ConnectionOverhead)
	return err
}

// hold takes what survives reloads from its pools, until the handler and its last execution have released it.
func (h *Handler) hold(ctx caddy.Context) (err error) {
	var release func()
	if h.shared, release, err = sharedPool.Hold(realm, func() (*shared, error) {
		return &shared{counters: quota.NewCounters(nil), warnings: observe.NewWarnings(func() *zap.Logger { return caddy.Log().Named("http.handlers." + directive) }, maxLines)}, nil
	}); err != nil {
		return err
	}
	h.use.OnRelease(release)
	if err := h.Options.Hold(ctx, h.use); err != nil || h.DB() == nil {
		return err
	}
	h.kept, release, err = keeping.HoldLedger(h.DB())
	if err != nil {
		return err
	}
	h.use.OnRelease(release)
	settings := ledger.Settings{Keep: h.Lifetime()}
	settings.Bounds.Runs, settings.Bounds.RunsOfOne = h.Runs()
	return h.kept.FollowWith(ctx, follower{h}, settings)
}

// site is where a handler publishes.
type site struct {
	hosts     []string // that its address names
	namespace string   // the first part of the ids of operations; empty: none are published
	wrong     []string
}

// locate finds out what the handler is called by consumers. All routes must be provisioned.
func (h *Handler) locate(ctx caddy.Context) *site {
	s, host := new(site), ""
	if app, err := ctx.AppIfConfigured("http"); err == nil {
		for _, server := range app.(*caddyhttp.App).Servers {
			if place, found := routes.Find(server, h); found {
				s.hosts = append(s.hosts, place.Hosts()...)
			}
		}
	}
	if u, err := url.Parse(h.URL); err == nil {
		host = u.Hostname()
	}
	switch {
	case h.URL == "" && len(s.hosts) == 0:
		s.wrong = append(s.wrong, "the address of the site names no host, so that consumers are not told any URLs: write url https://<host> into the block of "+directive)
	case h.URL == "":
		host = s.hosts[0]
	}
	s.namespace = cmp.Or(h.Namespace, strings.ToLower(host))
	if err := checkNamespace(s.namespace); err != nil {
		s.namespace, s.wrong = "", append(s.wrong, "no operation is published: "+err.Error()+"; write namespace <name> into the block of "+directive)
	}
	return s
}

// start begins to read the documents, which may be served by another site of the configuration.
func (h *Handler) start(ctx caddy.Context) {
	defer close(h.started)
	for _, fault := range h.site().wrong {
		h.logger.Error(fault)
	}
	l, release, err := pooledDocuments.Hold(h.settings(h.site().namespace), func() (*documents, error) { return h.newDocuments(h.site().namespace), nil })
	if err != nil { // it is none of newDocuments
		return
	}
	h.documents.Store(l)
	l.publish(false, false, h.logger) // without documents, there is nothing to wait for
	var watches sync.WaitGroup
	for _, s := range l.sources { // one that is slow does not delay the others
		watches.Go(func() {
			for ctx.Err() == nil {
				next := l.refresh(ctx, s, h.transport, h.logger)
				select {
				case <-ctx.Done():
				case <-time.After(next):
				}
			}
		})
	}
	h.use.Acquire() // until the watches end, so that nothing is released before
	go func() {
		defer h.use.Done()
		defer release()
		defer time.AfterFunc(firstPatience, func() { l.publish(false, true, h.logger) }).Stop()
		watches.Wait()
	}()
}

// settings returns a digest of the settings that its documents depend on.
func (h *Handler) settings(namespace string) string {
	text, _ := json.Marshal([]any{namespace, h.Provider, h.Skills, h.OpenAPI, h.Timeout, h.AllowNetworks}) // it was read from JSON
	return lifetime.NewDigest(string(text)).String()
}

// Published implements [observe.Publisher].
func (h *Handler) Published() (skills int, read bool) {
	if l := h.documents.Load(); l != nil {
		if c := l.current.Load(); c != nil {
			return len(c.ordered), true
		}
	}
	return 0, false
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
