package observe

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// loggedError returns the field error of a failure: its text, or a description of the provider's
// answer if the text may repeat arguments. It is empty for invalid arguments: the fields param and
// reason describe these.
func loggedError(f *run.Failure) string {
	switch {
	case !quotesArguments(f):
		return safetext.Field(f.OperatorText(), MaxLoggedError)
	case f.Kind == run.RunFailed, f.By == run.Provider:
		return describeAnswer(f)
	}
	return ""
}

// describeAnswer describes a provider's answer, and says what to do about it. It contains nothing of
// the provider's message, which may repeat arguments or an output.
func describeAnswer(f *run.Failure) string {
	what := "reported that the run failed"
	if f.HTTPStatus != 0 {
		status := strings.TrimSpace(strconv.Itoa(f.HTTPStatus) + " " + http.StatusText(f.HTTPStatus))
		what = "answered " + requestTexts[f.Phase] + "with HTTP " + status
	}
	of := ""
	if f.SkillID != "" {
		of = " of " + safetext.Field(f.SkillID, MaxLogged)
	}
	if refusesCredential(f) { // the advice names its options
		return fmt.Sprintf("the provider%s %s (%s). %s Only the agent's answer has the provider's message", of, what, errorType(f), safetext.Field(f.OperatorAdvice(), MaxLogged))
	}
	return fmt.Sprintf("the provider%s %s (%s): %s; only the agent's answer has the provider's message", of, what, errorType(f), remedy(f))
}

// refusesCredential reports whether a provider refuses the credential that the bridge has sent. Without one, the failure has no advice, or is
// about a skill that asks for none.
func refusesCredential(f *run.Failure) bool {
	return f.Advice != "" && (f.Kind == run.PermissionDenied || f.Kind == run.AuthRequired && (f.Demand == nil || f.Demand.Type != string(document.AuthNone)))
}

// requestTexts name the requests of phases in describeAnswer.
var requestTexts = map[run.Phase]string{
	run.PhaseDiscovery:  "the request for its index ",
	run.PhaseDescriptor: "the request for the descriptor ",
	run.PhaseInvoke:     "the invocation ",
	run.PhasePoll:       "the request for the status of the run ",
	run.PhaseResult:     "the request for the output of the run ",
}

// remedy returns what the operator can do about a provider's answer.
func remedy(f *run.Failure) string {
	if f.WrongOrigin() {
		return "check the URL of the source: the server has no usable index there"
	}
	remedies := remedies
	if f.Phase == run.PhaseDiscovery || f.Phase == run.PhaseDescriptor {
		remedies = documentRemedies
	}
	return cmp.Or(remedies[f.Kind], "if this continues, ask the provider")
}

var documentRemedies = map[run.Kind]string{
	run.AuthRequired:     "check the discovery_credentials of this source, or add some",
	run.PermissionDenied: "ask the provider to allow the discovery_credentials of this source to read its documents, or use others",
	run.SkillNotFound:    "there is no such document: check its URL, or ask the provider",
}

var remedies = map[run.Kind]string{
	run.InvalidArguments:    "the agent must change its arguments",
	run.SkillNotFound:       "if the provider has moved the skill, run \"caddy skill-bridge purge\" so that its descriptor is read again; otherwise ask the provider",
	run.AuthRequired:        "check the credentials of this source, or add some",
	run.PermissionDenied:    "ask the provider to allow the credentials of this source to use the skill, or use others",
	run.VersionIncompatible: "the provider refuses the request, perhaps because it uses another version of the protocol: ask the provider",
	run.RateLimited:         "if this continues, lower limits runs <n> [<per provider>], or ask the provider for a higher limit",
	run.RunFailed:           "the agent decides whether to repeat the call",
}
