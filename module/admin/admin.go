package admin

import (
	"encoding/json" // Caddy's admin API is made with it
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/probes"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

func init() { caddy.RegisterModule(adminAPI{}) }

// adminAPI shows what the bridges of this process do, removes cached documents, and approves changed descriptors. It
// shows no secrets, arguments or outputs.
//
//	GET  /skill_bridge/status     what the command status shows: the answers of providers, skills, calls, runs (without runs), changes,
//	                              notifications and stores
//	GET  /skill_bridge/providers  each source: health, last trouble, circuit breakers, calls in progress
//	GET  /skill_bridge/skills     each skill: version, whether its descriptor is cached and fresh, its faults, or that
//	                              there is no credential for it; entries of indexes and registries that can't be
//	                              used; aliases for skills that are not listed; the versions of the bridge and of Caddy
//	GET  /skill_bridge/calls      the calls in progress, the oldest first, with their runs
//	GET  /skill_bridge/runs       the runs that outlive their requests, of all instances that use the databases, the newest first: front, state,
//	                              principal, skill and run; how many are kept, and how many of them are open, by front and state. ?id=…,
//	                              ?principal=… (empty: anonymous callers), ?front=…, ?skill=… and ?state=… (open: all that have not ended) select
//	                              runs, ?limit=… (0 to 1000) bounds them, ?before=… is the next of the page before
//	GET  /skill_bridge/grants     the accounts that users have connected (oauth2_user), without tokens, and how many there are at each source.
//	                              ?principal=… selects those of one
//	POST /skill_bridge/revoke     {"principal": …}: ends the accounts of a principal, and revokes their tokens
//	GET  /skill_bridge/stores     the databases (store): which, whether they can be used, and why not
//	GET  /skill_bridge/healthz    that the process answers
//	GET  /skill_bridge/readyz     whether the bridges are ready for calls; HTTP status 503 if they are not
//	GET  /skill_bridge/usage      what each caller has used of each skill since the process began: calls, accepted runs, calls
//	                              that a quota refused; those with the most calls first. ?principal=… (empty: anonymous
//	                              callers), ?namespace=… and ?skill_id=… select rows, ?limit=… (0 to 10000) bounds them
//	GET  /skill_bridge/notifications  the webhooks of callers with events that were not delivered yet (notify, A2A tasks): how many,
//	                              since when, and by host and principal
//	GET  /skill_bridge/changes    the changes of descriptors that wait for approval (on_change hold), with what differs. ?skill=…
//	                              (a name or an id) selects those of a skill, with all that differs
//	POST /skill_bridge/approve    {"namespace": …, "skill_id": …, "digest": …}: approves one of them
//	POST /skill_bridge/purge      {"namespace": …, "skill_id": …}: removes one descriptor; without skill_id, all
//	                              documents of one source; without namespace, all documents. Any other body is
//	                              refused
//
// Numbers identify the bridges, which are the handlers of this process. They count from 1
// in the order in which the bridges were loaded, and are the same in all answers. A number
// is never used again: after a reload, the bridges have new numbers, and those of the
// earlier configuration are shown with their old ones while requests still use them.
type adminAPI struct{}

// CaddyModule returns the Caddy module information.
func (adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.skill_bridge", New: func() caddy.Module { return new(adminAPI) }}
}

// Provision watches for the stop of the configuration, so that the calls of earlier
// configurations are answered before the process exits, even if the last configuration has
// no bridge. Caddy provisions the admin API with each configuration, before its apps.
func (adminAPI) Provision(ctx caddy.Context) error {
	if _, err := ctx.App("events"); err != nil {
		return nil //nolint:nilerr // Caddy reports the error when it loads the app
	}
	if err := lifetime.WatchStop(ctx); err != nil {
		ctx.Logger().Debug("this configuration's stop is watched already", zap.Error(err)) // by the local admin API
	}
	return nil
}

// Routes implements caddy.AdminRouter.
func (a adminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		route(http.MethodGet, "status", sure(a.status)),
		route(http.MethodGet, "providers", sure(a.providers)),
		route(http.MethodGet, "skills", sure(a.skills)),
		route(http.MethodGet, "calls", sure(a.calls)),
		route(http.MethodGet, "runs", a.runs),
		route(http.MethodGet, "grants", sure(a.grants)),
		route(http.MethodPost, "revoke", a.revoke),
		route(http.MethodGet, "stores", sure(a.stores)),
		route(http.MethodGet, "healthz", sure(func(*http.Request) *probes.Answer { return probes.Healthy })),
		route(http.MethodGet, "readyz", sure(func(*http.Request) *probes.Answer { return probes.Ready(observe.Numbered(), observe.Publishers()) })),
		route(http.MethodGet, "usage", a.usage),
		route(http.MethodGet, "notifications", sure(a.notifications)),
		route(http.MethodGet, "changes", sure(a.changes)),
		route(http.MethodPost, "approve", a.approve),
		route(http.MethodPost, "purge", a.purge),
	}
}

// maxRequest is the size of the largest request, in bytes.
const maxRequest = 64 << 10

// route returns the route of a path, whose requests have a method and are answered with JSON.
func route[T any](method, path string, answer func(*http.Request) (T, error)) caddy.AdminRoute {
	return caddy.AdminRoute{Pattern: "/skill_bridge/" + path, Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != method {
			w.Header().Set("Allow", method)
			return refusal(http.StatusMethodNotAllowed, "%s is not possible here, but %s", r.Method, method)
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		v, err := answer(r)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		if probe, ok := any(v).(*probes.Answer); ok {
			w.WriteHeader(probe.HTTPStatus())
		}
		return json.NewEncoder(w).Encode(v)
	})}
}

// sure returns a function that makes an answer and never fails.
func sure[T any](answer func(*http.Request) T) func(*http.Request) (T, error) {
	return func(r *http.Request) (T, error) { return answer(r), nil }
}

// refusal returns an error with an HTTP status.
func refusal(status int, format string, args ...any) error {
	return caddy.APIError{HTTPStatus: status, Err: fmt.Errorf(format, args...)}
}

// shown returns a text of a provider or an agent, shortened and without characters that are
// unsafe to show.
func shown(text string) string { return safetext.Field(text, observe.MaxLogged) }

// shownError is like shown, for the text of an error.
func shownError(text string) string { return safetext.Field(text, observe.MaxLoggedError) }

var _ caddy.AdminRouter = adminAPI{}
