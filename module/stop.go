package skillbridge

import (
	"context"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

// When Caddy exits, it waits for its HTTP servers for a grace period, and then
// ends whatever they still serve. A run that somebody waits for must not be lost
// so: shortly before, the calls that are under way are answered as they stand,
// with the id by which their runs can be found again. Those of earlier
// configurations are, too, for which Caddy may wait no longer.

// lastMoment is how long before the end of the grace period calls are answered, but
// at most half of the period.
const lastMoment = time.Second

// exit is how this process ends. There is one, for all configurations.
var exit = newExiting()

func init() { caddy.OnExit(func(context.Context) { exit.wait() }) }

// exiting answers what is under way when the process exits.
type exiting struct {
	calls translate.Stop // those under way
	// ending is closed when there is only time left to write answers
	ending chan struct{}
	end    func() // closes it; once

	mu       sync.Mutex
	changed  sync.Cond // with mu: requests or over
	requests int       // under way
	over     bool      // nobody is waited for any more
	grace    period    // of the configuration that stopped last
	begun    time.Time // when the process began to exit; zero: it has not
}

// period is what a configuration grants to requests when it stops.
type period struct {
	delay time.Duration // until new ones are refused
	grace time.Duration // from then on; 0: without end
}

func (p period) whole() time.Duration { return p.delay + p.grace }

// untilAnswers is when requests that are under way are answered as they stand.
func (p period) untilAnswers() time.Duration { return p.whole() - p.lastMoment() }

// untilEnding is when they are answered without what they wait for to be answered.
func (p period) untilEnding() time.Duration { return p.whole() - p.lastMoment()/2 }

func (p period) lastMoment() time.Duration { return min(lastMoment, p.grace/2) }

func newExiting() *exiting {
	e := &exiting{ending: make(chan struct{})}
	e.end = sync.OnceFunc(func() { close(e.ending) })
	e.changed.L = &e.mu
	return e
}

func (e *exiting) enter() {
	e.mu.Lock()
	e.requests++
	e.mu.Unlock()
}

func (e *exiting) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests--
	e.changed.Broadcast()
}

// begin is called when a configuration stops, whether the process exits or not.
func (e *exiting) begin(p period) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grace = p
	if !caddy.Exiting() || !e.begun.IsZero() {
		return
	}
	e.begun = time.Now()
	if e.requests > 0 { // a last chance for what their answers take
		for _, h := range live.all() {
			h.tokens.keys.Prepare()
		}
	}
	if p.grace > 0 {
		time.AfterFunc(p.untilAnswers(), e.answer)
		time.AfterFunc(p.untilEnding(), e.end)
		time.AfterFunc(p.whole(), e.giveUp)
	}
}

func (e *exiting) lastGrace() period {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.grace
}

// answer has all calls answered that are under way.
func (e *exiting) answer() {
	e.mu.Lock()
	requests := e.requests
	e.mu.Unlock()
	if requests > 0 {
		caddy.Log().Named("http.handlers."+directive).Warn(
			"the grace period is ending: requests that are under way are answered now; runs that were accepted go on at their providers",
			zap.Int("requests", requests))
	}
	e.calls.Now()
}

// giveUp ends the waiting for calls that have not ended after they had been told to.
func (e *exiting) giveUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.changed.Broadcast()
}

// wait returns when nothing is under way any more. Caddy has waited for the servers
// of the last configuration by then; there may be calls of earlier ones.
func (e *exiting) wait() {
	e.begin(e.lastGrace()) // unless the last configuration had no admin API and no bridge, it has been called already
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.requests > 0 && !e.over {
		e.changed.Wait()
	}
}

// watchStop has the end of the process begin when a configuration stops, before its
// servers are stopped.
func watchStop(ctx caddy.Context) error {
	app, err := ctx.AppIfConfigured("events")
	if err != nil { // Caddy's HTTP app has one: without, nothing stops a server
		return nil //nolint:nilerr // see above
	}
	return app.(*caddyevents.App).On("stopping", stopWatcher{ctx})
}

// Provision has the end of the process begin in configurations without a bridge, too:
// runs of earlier configurations may go on. Caddy provisions the admin API with each
// configuration, before its apps. (Without an admin API there, they are answered when
// Caddy has stopped the rest, see exiting.wait.)
func (adminAPI) Provision(ctx caddy.Context) error {
	standardLog.keep()
	if _, err := ctx.App("events"); err != nil {
		return nil //nolint:nilerr // Caddy reports it for the app
	}
	if err := watchStop(ctx); err != nil {
		ctx.Logger().Debug("this configuration's stop is watched already", zap.Error(err)) // by the local admin API
	}
	return nil
}

// stopWatcher is called when a configuration stops.
type stopWatcher struct{ ctx caddy.Context }

// Handle implements caddyevents.Handler.
func (w stopWatcher) Handle(context.Context, caddy.Event) error {
	app, err := w.ctx.AppIfConfigured("http")
	if err != nil { // then requests are only those of earlier configurations
		exit.begin(exit.lastGrace())
		return nil //nolint:nilerr // see above
	}
	http := app.(*caddyhttp.App)
	exit.begin(period{delay: time.Duration(http.ShutdownDelay), grace: time.Duration(http.GracePeriod)})
	return nil
}

// watchStart keeps the standard logger quiet from when the configuration runs until
// the function that it returns is called. A configuration that is only validated
// never runs.
func watchStart(ctx caddy.Context) (end func(), err error) {
	app, err := ctx.AppIfConfigured("events")
	if err != nil {
		return func() {}, nil //nolint:nilerr // see watchStop
	}
	standardLog.keep()
	w := new(startWatcher)
	return w.end, app.(*caddyevents.App).On("started", w)
}

// startWatcher is called when a configuration runs.
type startWatcher struct {
	mu    sync.Mutex
	quiet func() // ends that the standard logger is quiet; nil: it is not
}

// Handle implements caddyevents.Handler.
func (w *startWatcher) Handle(context.Context, caddy.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet == nil {
		w.quiet = standardLog.start()
	}
	return nil
}

func (w *startWatcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet != nil {
		w.quiet()
	}
}
