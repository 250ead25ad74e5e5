package fronts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// cards returns the builder of the agent's cards. An error is an [options.ConfigError].
func (a *A2A) cards(s *Setup) (*card.Builder, error) {
	config := card.Config{
		URL: strings.TrimSuffix(a.URL, "/"), Name: a.Name, Description: a.Description, Organization: a.Organization,
		Documentation: a.Documentation, Icon: a.Icon, Versions: a.Versions, Form: a.Card, Extended: a.ExtendedCard, Push: s.Webhooks != nil,
		Security: a.Security, RequirePrincipal: s.RequirePrincipal,
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
	cards, err := card.New(s.Bridge, config)
	if err != nil {
		return nil, &options.ConfigError{Path: "a2a", Err: err}
	}
	return cards, nil
}

// serveCard answers a request for a card.
func (a *Agent) serveCard(ctx context.Context, w http.ResponseWriter, r *http.Request, to route, caller run.Caller) {
	if caller.Ambiguous != "" {
		caller.Principal = ""
	}
	request := card.Request{Base: a.base(r), Skill: to.skill, Version: r.Header.Get(a2a.VersionHeader), Caller: caller, Old: to.old}
	made, err := a.cards.Card(ctx, request) // the caller has no front, so that List and Describe report no call
	a.report(ctx, caller, a2a.MethodCard, cardFailure(err))
	switch {
	case errors.Is(err, card.ErrNotFound):
		notFound(w)
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
		return nil, &run.Failure{
			Kind: run.AuthRequired, Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo, Demand: run.NoPrincipal(),
			Message: "The extended card is for authenticated callers.",
		}
	}
	to, _ := a.routeOf(r.URL.Path)
	made, err := a.cards.Card(ctx, card.Request{Base: a.base(r), Skill: to.skill, Version: v.String(), Extended: true, Caller: front.Quiet(*caller)})
	if err != nil {
		return nil, cardFailure(err)
	}
	return made.JSON(), nil
}
