package fronts

import (
	"cmp"
	"context"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Agent serves the mount of A2A.
type Agent struct {
	*jsonrpc.Server

	path    string
	url     string // the option url; empty: none
	version string // the newest version that is served
	bridge  *translate.Bridge
	cards   *card.Builder
	// security are the schemes that the cards have.
	security []card.SecurityScheme
	// requirePrincipal means that every request of an anonymous caller is refused.
	requirePrincipal bool
}

// Setup has what a mount needs from its handler.
type Setup struct {
	Bridge *translate.Bridge
	// Server returns the server of a front, with the limits of the handler.
	Server   func(jsonrpc.Handler, jsonrpc.Profile) *jsonrpc.Server
	MaxBatch int
	// Tokens makes and opens run tokens.
	Tokens front.Tokens
	// Name is that of the handler, and Realm identifies its principals.
	Name, Realm      string
	RequirePrincipal bool
	// Challenge is the WWW-Authenticate field for callers that have to authenticate to the handler itself; empty: something in front of
	// it authenticates them.
	Challenge string
	// Authorization tells callers where they get access tokens.
	Authorization *Authorization
	// Private says that lists of skills depend on the principal, also without RequirePrincipal.
	Private bool
	// Transport is the option transport; nil: its default. Overhead is the guard connection_overhead.
	Transport json.RawMessage
	Overhead  int64
	// Sealer encrypts secrets that are stored.
	Sealer *runtoken.Sealer
	// Webhooks sends what callers want to hear at URLs of their own; nil: they can't choose any.
	Webhooks *webhook.Client
	// Elsewhere knows the methods of all protocols.
	Elsewhere *front.Elsewhere
	Refused   func(ctx context.Context, method, reason string)
	// Wait is how long a request of A2A or MCP waits for the end of its run.
	Wait time.Duration
	// Keeping says for how long runs are kept, and how many.
	Keeping ledger.Settings
	// Canceled are the runs that callers have canceled.
	Canceled *ledger.Cancellations
	Observer *observe.Observer
}

// Serve returns the mount of A2A, whose tasks are among the kept runs.
func (a *A2A) Serve(ctx caddy.Context, s *Setup, kept *KeptRuns) (*Agent, error) {
	if s.Challenge != "" && s.RequirePrincipal && len(a.Security) == 0 {
		own := *a
		own.Security = []card.SecurityScheme{{Name: "key", Type: "http", Scheme: "bearer"}}
		a = &own
	}
	if err := a.checkSkills(s.Bridge); err != nil {
		return nil, err
	}
	agent := &Agent{path: a.path(), url: strings.TrimSuffix(a.URL, "/"), version: "1.0", bridge: s.Bridge, security: a.Security, requirePrincipal: s.RequirePrincipal}
	if len(a.Versions) > 0 {
		agent.version = slices.Max(a.Versions)
	}
	front := &a2a.Front{
		Bridge: s.Bridge, Options: a.options(s.Wait, &s.Keeping.Bounds), RequirePrincipal: s.RequirePrincipal, Panicked: s.Observer.Panicked, Elsewhere: s.Elsewhere,
		Refused: s.Refused, Exiting: lifetime.Exiting(), Stopping: lifetime.Ending(), Observer: s.Observer,
		NoDefault: func(ctx context.Context) {
			s.Observer.Notice(ctx, &exchange.Notice{
				Level: slog.LevelWarn, Message: "a message that names no skill gets an error: the default_skill of a2a does not exist, or the caller may not see it",
				Attrs: []slog.Attr{slog.String("default_skill", a.DefaultSkill)},
			})
		},
	}
	front.Options.Restricted = s.Bridge.Catalog().Policy() != nil
	if a.ExtendedCard {
		front.ExtendedCard = agent.extendedCard
	}
	if a.DefaultSkill != "" && !front.Options.Restricted { // else it depends on the caller
		look := func() {
			bug := panics.Recovered(func() {
				_, failure := s.Bridge.Find(ctx, a.DefaultSkill, anyone)
				if failure != nil && failure.Kind == run.SkillNotFound && ctx.Err() == nil {
					front.NoDefault(ctx)
				}
			})
			if bug != nil {
				s.Observer.Panicked(ctx, bug, nil)
			}
		}
		if err := lifetime.OnStart(ctx, func() { go look() }); err != nil {
			return nil, err
		}
	}
	if kept != nil { // else Caddy does not run
		front.Ledger.Ledger, front.Owner, front.Streams = kept.Ledger, kept.Owner, kept.streams
		kept.follower.tasks = front
		var err error
		if front.Push, err = s.push(ctx, kept); err != nil {
			return nil, err
		}
	}
	var err error
	if agent.cards, err = a.cards(s); err != nil {
		return nil, err
	}
	agent.Server = s.Server(front.ServeRPC, a2a.Profile(s.MaxBatch))
	front.Server = agent.Server
	return agent, nil
}

// anyone is a principal, for whom also private skills exist.
const anyone = "any principal"

// checkSkills checks the names of skills in the options by the sources, without reading these. An error is an [options.ConfigError].
func (a *A2A) checkSkills(bridge *translate.Bridge) error {
	sources := bridge.Sources()
	namespaces := make([]string, len(sources))
	for i := range sources {
		namespaces[i] = sources[i].Namespace
	}
	slices.Sort(namespaces)
	for i, name := range append([]string{a.DefaultSkill}, a.ReplyMessage...) {
		if name == "" || bridge.MayMean(name) {
			continue
		}
		path, option := "a2a.default_skill", "default_skill"
		if i > 0 {
			path, option = options.Element("a2a.reply_message", i-1), "reply_message"
		}
		return &options.ConfigError{Path: path, Err: fmt.Errorf("%s %q is no skill of this bridge: names are those of its skill and alias lines, and begin otherwise with one of the namespaces: %s",
			option, name, strings.Join(namespaces, ", "))}
	}
	return nil
}

// minStreams is the least number of streams that a principal may have open. Otherwise it is that of the runs that are kept for it.
const minStreams = 64

// wellKnown are the paths of the agent card below the host and below each endpoint.
const (
	wellKnown = "/.well-known/agent-card.json"
	// wellKnownOld is the path in A2A 0.1 and 0.2.
	wellKnownOld = "/.well-known/agent.json"
)

// route is the meaning of a path below the mount.
type route struct {
	skill string // empty: all skills
	// card says that the path is that of a card, in the old form if old is set.
	card, old bool
}

// routeOf returns the meaning of a path; ok is false if the path does not belong to the mount.
func (a *Agent) routeOf(path string) (to route, ok bool) {
	if path, to.card = strings.CutSuffix(path, wellKnown); !to.card {
		path, to.old = strings.CutSuffix(path, wellKnownOld)
		to.card = to.old
	}
	if to.card && path == "" {
		return to, true
	}
	rest, ok := strings.CutPrefix(path, a.path)
	to.skill = strings.Trim(rest, "/")
	return to, ok && (rest == "" || rest[0] == '/')
}

// Serves reports whether a request is for the mount.
func (a *Agent) Serves(r *http.Request) bool {
	_, ok := a.routeOf(r.URL.Path)
	return ok
}

// Serve answers a request that is for the mount.
func (a *Agent) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request, caller run.Caller) {
	to, _ := a.routeOf(r.URL.Path)
	switch {
	case to.card && !front.IsRead(w, r, "An agent card is read with GET."):
	case to.card || r.Method == http.MethodGet || r.Method == http.MethodHead:
		a.serveCard(ctx, w, r, to, caller)
	default:
		if to.skill != "" {
			ctx = a2a.WithSkill(ctx, to.skill)
		}
		activate(w.Header(), r.Header)
		a.Server.Serve(ctx, w, r)
	}
}

// activate says that the bridge's own extension is activated if the client asks for it, in the field of 1.0 or of 0.3.
func activate(answer, asked http.Header) {
	for _, field := range [...]string{"A2a-Extensions", "X-A2a-Extensions"} {
		for extension := range strings.SplitSeq(strings.Join(asked[field], ","), ",") {
			if strings.TrimSpace(extension) == wire.Extension {
				answer.Set(field, wire.Extension)
			}
		}
	}
}

// URL returns the URL of the endpoint for all skills, as the client of a request sees it.
func (a *Agent) URL(r *http.Request) string {
	return cmp.Or(a.url, urlOf(r, a.path))
}

// Version returns the newest version of A2A that is served.
func (a *Agent) Version() string { return a.version }

// CurlOptions returns the options with which curl authenticates, with placeholders for the secrets; nil: no authentication is needed,
// as far as the configuration says.
func (a *Agent) CurlOptions() []string {
	switch {
	case len(a.security) > 0:
		return a.security[0].CurlOptions()
	case a.requirePrincipal:
		return []string{"-H", "Authorization: <credentials>"}
	}
	return nil
}

// options returns the options of the front.
func (a *A2A) options(wait time.Duration, kept *ledger.Bounds) a2a.Options {
	o := a2a.Options{
		Versions: a2a.AllVersions, DefaultSkill: a.DefaultSkill,
		ReplyMessage: a.ReplyMessage, Wait: wait, Abandon: a.Cancel == cancelAbandon, Challenge: card.Challenge(a.Security),
		Streams: max(kept.Runs, minStreams), StreamsOfOne: max(kept.RunsOfOne, minStreams),
	}
	if len(a.Versions) > 0 {
		o.Versions = a2a.Versions{}
		for _, v := range a.Versions {
			o.Versions[a2a.ParseVersion(v)] = true
		}
	}
	return o
}

// cards returns the builder of the agent's cards. An error is an [options.ConfigError].
func (a *A2A) cards(s *Setup) (*card.Builder, error) {
	config := card.Config{
		URL: strings.TrimSuffix(a.URL, "/"), Name: a.Name, Description: a.Description, Organization: a.Organization,
		Documentation: a.Documentation, Icon: a.Icon, Versions: a.Versions, Form: a.Card, Extended: a.ExtendedCard, Push: s.Webhooks != nil,
		Security: a.Security, RequirePrincipal: s.RequirePrincipal, Panicked: s.Observer.Panicked,
	}
	if a.Sign != nil {
		text, err := os.ReadFile(a.Sign.File)
		if err != nil {
			return nil, &options.ConfigError{Path: "a2a.sign.file", Err: err}
		}
		if config.Signer, err = card.NewSigner(text, a.Sign.KeyID); err != nil {
			return nil, &options.ConfigError{Path: "a2a.sign.file", Err: fmt.Errorf("%s: %w", a.Sign.File, err)}
		}
	}
	return card.New(s.Bridge, config), nil
}

// serveCard answers a request for a card.
func (a *Agent) serveCard(ctx context.Context, w http.ResponseWriter, r *http.Request, to route, caller run.Caller) {
	if caller.Ambiguous != "" {
		caller.Principal = ""
	}
	_, version := a2a.SaidVersion(r)
	request := card.Request{Base: urlOf(r, a.path), Skill: to.skill, Version: version, Caller: caller, Old: to.old}
	made, err := a.cards.Card(ctx, request) // the caller has no front, so that List and Describe report no call
	caller.Front, caller.Method = a2a.Name, a2a.MethodCard
	a.bridge.ReportRun(ctx, translate.Call{Caller: caller}, translate.OperationDescribe, &run.Run{Failure: cardFailure(err)})
	switch {
	case errors.Is(err, card.ErrNotFound):
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "There is no such skill. The agent card of all skills names them.", http.StatusNotFound)
	case errors.Is(err, card.ErrURL):
		http.Error(w, "The Host of the request can't be part of a URL.", http.StatusBadRequest)
	case err != nil:
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Retry-After", "5")
		http.Error(w, "The skills can't be read at the moment; try again.", http.StatusServiceUnavailable)
	default:
		card.Serve(w, r, made)
	}
}

// cardFailure returns the failure of a request for a card; nil: there is none.
func cardFailure(err error) *run.Failure {
	failure := &run.Failure{Phase: run.PhaseDiscovery, By: run.Bridge, Executed: run.ExecutedNo, Cause: err}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, card.ErrNotFound):
		failure.Kind, failure.Argument = run.SkillNotFound, &run.Argument{Field: run.FieldSkill, Reason: run.NotFound}
	case errors.Is(err, card.ErrURL):
		failure.Kind, failure.Argument = run.InvalidArguments, &run.Argument{Field: run.FieldOther, Name: "Host", Reason: run.WrongSchema}
	default:
		failure.Kind, failure.Message, failure.Retry = run.Unreachable, err.Error(), run.RetryIn(0, 3)
	}
	return failure
}

// extendedCard returns the card for an authenticated caller.
func (a *Agent) extendedCard(ctx context.Context, r *http.Request, v wire.Version, caller *run.Caller) (jsontext.Value, *run.Failure) {
	if caller.Principal == "" {
		return nil, run.NeedsCredential(run.NoPrincipal(), "The extended card is for authenticated callers.")
	}
	to, _ := a.routeOf(r.URL.Path)
	made, err := a.cards.Card(ctx, card.Request{Base: urlOf(r, a.path), Skill: to.skill, Version: v.String(), Extended: true, Caller: front.Quiet(*caller)})
	if err != nil {
		return nil, cardFailure(err)
	}
	return made.JSON(), nil
}
