package skillbridge

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// loggedError is what the log says of a failure: its message, or what the
// provider answered, in words of the bridge. Where the agent's own arguments are at
// fault, the name of the param says enough.
func loggedError(f *translate.Failure) string {
	switch {
	case !quotesArguments(f):
		return clip(f.Err.Message, maxLoggedError)
	case f.Kind == translate.RunFailed, f.Err.Source == skillsharing.SourceProvider:
		return answered(f)
	}
	return ""
}

// answered says what a provider answered, about which skill, and what to do about it. It
// has nothing of the provider's message, which may repeat arguments or an output.
func answered(f *translate.Failure) string {
	e := f.Err
	what := "reported that the run failed"
	if e.HTTPStatus != 0 {
		status := strings.TrimSpace(strconv.Itoa(e.HTTPStatus) + " " + http.StatusText(e.HTTPStatus))
		what = "answered " + askedFor[e.Phase] + "with HTTP " + status
	}
	of := ""
	if e.SkillID != "" {
		of = " of " + clip(e.SkillID, maxLogged)
	}
	return fmt.Sprintf("the provider%s %s (%s): %s; its own message is in the agent's answer only", of, what, errorType(f), remedy(f))
}

// askedFor is what a provider was asked for.
var askedFor = map[skillsharing.Phase]string{
	skillsharing.PhaseDiscovery:  "the request for its index ",
	skillsharing.PhaseDescriptor: "the request for the descriptor ",
	skillsharing.PhaseInvoke:     "the invocation ",
	skillsharing.PhasePoll:       "the request for the status of the run ",
	skillsharing.PhaseResult:     "the request for the output of the run ",
}

// remedy is what an operator does about what a provider answered.
func remedy(f *translate.Failure) string {
	remedies := remedies
	if f.Err.Phase == skillsharing.PhaseDiscovery || f.Err.Phase == skillsharing.PhaseDescriptor {
		remedies = documentRemedies
	}
	return cmp.Or(remedies[f.Kind], "if it lasts, ask the provider")
}

var documentRemedies = map[translate.Kind]string{
	translate.AuthRequired:     "check the discovery_credentials of this source, or configure some",
	translate.PermissionDenied: "ask the provider to permit its documents to the discovery_credentials of this source, or configure others",
	translate.SkillNotFound:    "there is no such document: check its URL, or ask the provider",
}

var remedies = map[translate.Kind]string{
	translate.InvalidArguments:    "the agent has to change its arguments",
	translate.SkillNotFound:       "if the provider has moved the skill, \"caddy skill-bridge purge\" has its descriptor read anew; else ask the provider",
	translate.AuthRequired:        "check the credentials that are configured for this source, or configure some",
	translate.PermissionDenied:    "ask the provider to permit the skill to the credentials that are configured for this source, or configure others",
	translate.VersionIncompatible: "the provider refuses the request, perhaps as one of another version of the protocol: ask the provider",
	translate.RateLimited:         "if it lasts, lower the limit runs of this source, or ask the provider to permit more",
	translate.RunFailed:           "the agent decides whether to try it again",
}
