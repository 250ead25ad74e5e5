package lifetime

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

// When Caddy exits, it waits for its HTTP servers for a grace period, and then ends
// the requests that they still serve. Shortly before that, the calls in progress are
// answered with the states and ids of their runs, so that no caller loses a run. This
// includes calls of earlier configurations, for which Caddy may no longer wait.

// lastMoment is the time for writing answers at the end of the grace period. If the period is
// shorter than twice that, it is half of the period.
const lastMoment = time.Second

// exit is shared by all configurations of this process.
var exit = newExiting()

func init() { caddy.OnExit(func(context.Context) { exit.wait() }) }

// Calls are the calls in progress, which are answered before the process exits.
func Calls() *translate.Stop { return &exit.calls }

// Ending returns a channel that is closed when answers must be written without waiting for anything else.
func Ending() <-chan struct{} { return exit.ending }

// Exiting returns a channel that is closed when the process begins to exit.
func Exiting() <-chan struct{} { return exit.exiting }

// Stopped returns a channel that is closed when the calls in progress are answered, and executions without a request have to end.
func Stopped() <-chan struct{} { return exit.stopped }

// BeforeExit adds a function that is called when the process begins to exit while requests
// are in progress. The function must not block. Only init functions call BeforeExit.
func BeforeExit(prepare func()) { exit.preparations = append(exit.preparations, prepare) }

// BeginRequest counts a request for which the exit of the process waits.
func BeginRequest() { exit.requests.Add(1) }

// EndRequest must be called once for each BeginRequest.
func EndRequest() { exit.leave(&exit.requests) }

// SendAnswer sends what a request in progress has written, if the process exits: servers of earlier configurations would do so only after the
// handler has returned, when nothing waits for them any more.
func SendAnswer(w http.ResponseWriter) {
	if caddy.Exiting() {
		_ = http.NewResponseController(w).Flush() // else the client has left
	}
}

// BeginRun counts an execution, which may outlive the request that it came with. When the process exits, it ends the
// executions without a request, and waits for that, but not for long.
func BeginRun() { exit.runs.Add(1) }

// EndRun must be called once for each BeginRun, after all that has to be done before the process exits.
func EndRun() { exit.leave(&exit.runs) }

// WatchStop answers the calls in progress before the process exits, if it does so with this configuration. Without it, they are answered
// only after Caddy has stopped everything else.
func WatchStop(ctx caddy.Context) error {
	begin := func(delayed bool) {
		app, err := ctx.AppIfConfigured("http")
		if err != nil { // only earlier configurations can have requests in progress
			exit.begin(exit.lastGrace())
			return
		}
		servers := app.(*caddyhttp.App)
		p := period{grace: time.Duration(servers.GracePeriod)}
		if !delayed {
			p.delay = time.Duration(servers.ShutdownDelay)
		}
		exit.begin(p)
	}
	if server := serverOf(ctx); server != nil {
		server.RegisterOnShutdown(func() { begin(true) })
		return nil
	}
	// The admin API belongs to no server. It is provisioned before all other modules, so that none of them emits an event while it subscribes.
	app, err := ctx.AppIfConfigured("events")
	if err != nil { // Caddy's HTTP app loads the events app: without it there is no server to stop
		return nil //nolint:nilerr // see above
	}
	return app.(*caddyevents.App).On("stopping", eventHandler(func() { begin(false) }))
}

// serverOf returns the server whose handlers are being provisioned; nil: none.
func serverOf(ctx caddy.Context) *caddyhttp.Server {
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return server
}

// exiting answers the calls in progress when the process exits.
type exiting struct {
	calls        translate.Stop
	exiting      chan struct{}
	ending       chan struct{}
	stopped      chan struct{}
	end, stop    func() // close ending and stopped, at most once
	preparations []func()

	requests atomic.Int64 // in progress
	runs     atomic.Int64 // executions in progress
	waits    atomic.Bool  // wait waits for them

	mu      sync.Mutex
	changed sync.Cond // signals that there are no requests, or no runs, and changes of over; its lock is mu
	over    bool      // requests and runs are no longer waited for
	grace   period    // of the configuration that stopped last
	begun   time.Time // when the process began to exit; zero: it has not
}

func newExiting() *exiting {
	e := &exiting{exiting: make(chan struct{}), ending: make(chan struct{}), stopped: make(chan struct{})}
	e.end = sync.OnceFunc(func() { close(e.ending) })
	e.stop = sync.OnceFunc(func() { close(e.stopped) })
	e.changed.L = &e.mu
	return e
}

// leave counts down requests or runs. Only while the process exits does it take the lock.
func (e *exiting) leave(count *atomic.Int64) {
	if count.Add(-1) > 0 || !e.waits.Load() { // if wait sets waits after this, it reads the count after this
		return
	}
	e.mu.Lock()
	e.changed.Broadcast()
	e.mu.Unlock()
}

// period is how long requests may continue when a configuration stops.
type period struct {
	delay time.Duration // until new requests are refused
	grace time.Duration // from then until requests are ended; 0: unlimited
}

func (p period) whole() time.Duration { return p.delay + p.grace }

// untilAnswers is the time until requests in progress are answered with the states of their runs.
func (p period) untilAnswers() time.Duration { return p.whole() - p.lastMoment() }

// untilEnding is the time after which answers no longer wait for anything, such as the database.
func (p period) untilEnding() time.Duration { return p.whole() - p.lastMoment()/2 }

func (p period) lastMoment() time.Duration { return min(lastMoment, p.grace/2) }

// begin is called when a configuration stops, whether the process exits or not.
func (e *exiting) begin(p period) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grace = p
	if !caddy.Exiting() || !e.begun.IsZero() {
		return
	}
	e.begun = time.Now()
	close(e.exiting)
	if e.requests.Load() > 0 {
		for _, prepare := range e.preparations {
			prepare()
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

// answer answers all calls in progress.
func (e *exiting) answer() {
	if requests := e.requests.Load(); requests > 0 {
		caddy.Log().Named("http.handlers.skill_bridge").Warn(
			"the grace period is ending: requests in progress are answered now; accepted runs continue at their providers",
			zap.Int64("requests", requests))
	}
	e.calls.Now()
	e.stop()
}

// giveUp stops waiting for requests and executions that have not ended.
func (e *exiting) giveUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.changed.Broadcast()
}

// wait returns when no request is in progress any more, and the executions without a request have ended. Caddy has already
// waited for the requests of the last configuration; those of earlier ones may still be in progress.
func (e *exiting) wait() {
	e.begin(e.lastGrace()) // has an effect only if the last configuration had neither an admin API nor a bridge
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waits.Store(true)
	for e.requests.Load() > 0 && !e.over {
		e.changed.Wait()
	}
	if e.runs.Load() == 0 {
		return
	}
	e.mu.Unlock()
	e.calls.Now()
	e.stop()
	e.mu.Lock()
	defer time.AfterFunc(lastMoment, e.giveUp).Stop()
	for e.runs.Load() > 0 && !e.over {
		e.changed.Wait()
	}
}

// Start begins what the handlers do while their configuration runs, such as following runs and delivering their ends. Each configuration
// with handlers of Skill Bridge has this app by itself, and it has no options.
//
// Handlers do not subscribe to Caddy's event «started» for that, since the health checks of a reverse_proxy provisioned before them already
// emit events.
type Start struct{ begin []func() }

func init() { caddy.RegisterModule(new(Start)) }

// CaddyModule returns the Caddy module information.
func (*Start) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "skill_bridge", New: func() caddy.Module { return new(Start) }}
}

// Start implements caddy.App.
func (s *Start) Start() error {
	for _, begin := range s.begin {
		begin()
	}
	return nil
}

// Stop implements caddy.App. What has begun ends with the context of the configuration.
func (*Start) Stop() error { return nil }

// OnStart registers a function that is called when the configuration starts, with all routes provisioned. It is not called if a handler is
// provisioned without a running Caddy.
func OnStart(ctx caddy.Context, begin func()) error {
	if _, err := ctx.AppIfConfigured("events"); err != nil { // Caddy's HTTP app loads the events app
		return nil //nolint:nilerr // see above
	}
	app, err := ctx.App("skill_bridge")
	if err != nil {
		return err
	}
	start := app.(*Start)
	start.begin = append(start.begin, begin)
	return nil
}

// pollInterval is how often [OnRunning] looks, since Caddy has no hook for it to which a handler can subscribe.
const pollInterval = 10 * time.Millisecond

// OnRunning is like OnStart for a function that is called in the background when the whole configuration runs, with all servers listening. It is
// not called if another app fails to start.
func OnRunning(ctx caddy.Context, begin func()) error {
	return OnStart(ctx, func() {
		go func() {
			for active := caddy.ActiveContext(); active.Context == nil || active.Done() != ctx.Done(); active = caddy.ActiveContext() {
				select {
				case <-ctx.Done():
					return
				case <-time.After(pollInterval):
				}
			}
			begin()
		}()
	})
}

// eventHandler is called at an event of Caddy.
type eventHandler func()

// Handle implements caddyevents.Handler.
func (h eventHandler) Handle(context.Context, caddy.Event) error {
	h()
	return nil
}

// Stopping returns a channel that is closed when the server begins to shut down, since another configuration has replaced its own or the
// process exits. Without a server, it is closed when the context ends.
func Stopping(ctx caddy.Context) <-chan struct{} {
	server := serverOf(ctx)
	if server == nil {
		return ctx.Done()
	}
	stopping := make(chan struct{})
	server.RegisterOnShutdown(sync.OnceFunc(func() { close(stopping) }))
	return stopping
}
