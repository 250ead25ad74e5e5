package bridge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/runtokens"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// connectAccounts gives the credentials of users what they have of the bridge, and ends grants of sources that no instance has any more, also without
// a seal_key.
func (h *Handler) connectAccounts(ctx caddy.Context, sources []catalog.Source, keys runtokens.Keys, o *observe.Observer) error {
	sealer, err := keeping.Sealer(keys, "grants")
	if err != nil || h.DB() == nil {
		return err
	}
	h.accounts = &credentials.Accounts{Transport: h.standard, Connection: credentials.Connection{
		Realm: h.tokens.Realm(), Keeping: tokens.Keeping{Things: h.DB().Things(), Sealer: sealer}, Logger: h.logger,
		Ended: func(owner, namespace, reason string) { o.ConsentEnded(namespace, owner, reason) },
	}}
	if h.Connect != nil {
		h.accounts.URL = h.Connect.Base()
	}
	for i := range sources {
		if user, ok := sources[i].Credentials.(*credentials.OAuth2User); ok {
			own := h.accounts.Connection
			own.Namespace = sources[i].Namespace
			own.Warn = observe.NewWarnings(func() *zap.Logger { return h.logger.With(zap.String("source", own.Namespace)) }, maxWarnings).Warn
			own.Refreshed = func(f *run.Failure) { o.GrantRefreshed(own.Namespace, f) }
			user.Connect(own)
			h.accounts.Sources = append(h.accounts.Sources, sources[i])
		}
	}
	h.usage.OnRelease(h.accounts.Leave)
	accounts, logger := h.accounts, h.logger
	// Not before: the sources of a configuration that fails to start replace no others.
	return lifetime.OnRunning(ctx, func() { sweep(ctx, accounts, logger) })
}

// maxWarnings bounds the different warnings about the grants of a source within a minute.
const maxWarnings = 16

// Intervals between looks for grants that have to end, and after one that has failed.
const (
	sweepInterval = 24 * time.Hour
	sweepAgain    = time.Minute
)

// sweep ends grants that were not used for a long time, and those of sources that were removed, until the configuration ends.
func sweep(ctx context.Context, accounts *credentials.Accounts, logger *zap.Logger) {
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = sweepInterval
		var err error
		if bug := panics.Recovered(func() { err = accounts.Sweep(ctx) }); bug != nil { // it does not end Caddy
			observe.LogPanic(logger, bug, nil)
		}
		if err != nil && ctx.Err() == nil {
			logger.Debug("looking for grants that have ended failed; it is tried again", zap.Error(err))
			wait = sweepAgain
		}
	}
}

// browsers returns what says who the user of a browser is; empty: there are no pages for users.
func (h *Handler) browsers() string {
	if h.Connect == nil {
		return ""
	}
	return cmp.Or(h.Connect.Principal, h.placeholder())
}

// warnOfPrincipals warns if the users of browsers have other principals than callers, as far as texts around placeholders show it.
func (h *Handler) warnOfPrincipals(logger *zap.Logger) {
	by := h.browsers()
	prefix, _, _ := strings.Cut(by, "{")
	fits := !h.byToken() && (by == h.placeholder() || !strings.Contains(by, h.placeholder())) || options.Globals.MatchString(by) ||
		h.keys != nil && slices.ContainsFunc(h.keys.Principals(), func(principal string) bool { return strings.HasPrefix(principal, prefix) }) ||
		slices.ContainsFunc(h.CallersJWT, func(i callers.Issuer) bool { return strings.HasPrefix(prefix, i.Prefix) })
	if by != "" && !fits {
		logger.Warn("accounts that users connect are for no caller, since no caller has a principal as connect makes them: write the principal of connect as callers have it, with the same prefix",
			zap.String("principal", by))
	}
}

// serveConnect makes the pages on which users connect accounts, if there are any.
func (h *Handler) serveConnect(setup *fronts.Setup, kept *fronts.KeptRuns) error {
	if h.Connect == nil {
		return nil
	}
	flows, err := keeping.Sealer(h.tokens.Keys(), "flows")
	if err != nil {
		return err
	}
	o, by := setup.Observer, h.browsers()
	h.connect, err = h.Connect.Handler(setup.Bridge, flows, setup.Realm, func(ctx context.Context, principal, reason string) {
		o.RefusedCaller(ctx, cmp.Or(principal, by), "connect", reason)
	})
	if err != nil {
		return &options.ConfigError{Path: "connect.url", Err: err}
	}
	h.connect.Failed = func(ctx context.Context, source, why string) {
		const message = "a user could not connect or disconnect an account"
		o.Notice(ctx, &exchange.Notice{Level: slog.LevelWarn, Source: source, Message: message, Attrs: []slog.Attr{slog.Any("error", errors.New(why))}})
	}
	h.connect.Name, h.connect.Given = h.givenName(), func(principal, namespace string, scopes []string) {
		o.ConsentGiven(namespace, principal, scopes)
		kept.Granted(principal)
	}
	return nil
}
